"""What a page shows: a trace from any source, its stages, heads, the grid of all heads, tables."""
