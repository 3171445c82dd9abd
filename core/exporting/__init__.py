"""Taking numbers and pictures away: tables, pictures, and whole views as files that can be opened again."""
