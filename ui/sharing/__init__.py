"""Sharing what a page shows: as a link, as pictures and numbers, as an exhibit, as Python."""
