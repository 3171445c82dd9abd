"""The page Why: an answer, the path from it back to the text, and what happens when a hop of it is cut."""
