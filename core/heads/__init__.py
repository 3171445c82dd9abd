"""Numbers and views of heads, read off a capture."""
