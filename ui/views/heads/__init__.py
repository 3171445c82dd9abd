"""The page Heads: the grid of all heads, and one head in detail."""
