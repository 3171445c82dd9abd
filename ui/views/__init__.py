"""What a page shows: traces, heads, the grid of all heads, tables."""
