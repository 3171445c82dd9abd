"""The contents of pages: a trace from any source, its stages, heads, the grid of all heads, tables."""
