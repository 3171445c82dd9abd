"""What a notebook shows: the pictures of the pages by name, and tables and figures of what is computed, by themselves."""
