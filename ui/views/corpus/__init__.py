"""The page Corpus: a finished run, its heads, one head, and examples of it; and runs over a text of one's own."""
