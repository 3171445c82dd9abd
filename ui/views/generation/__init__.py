"""The page Generation: fields, the text as it is written, and one of its steps."""
