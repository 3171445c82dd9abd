"""The page What if: changes and what comes of them, heads compared, effects of every head, patching."""
