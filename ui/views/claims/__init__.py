"""Claims about heads, tested on texts."""
