"""Taking what a page shows away with one: as a link, as pictures and numbers, as Python."""
