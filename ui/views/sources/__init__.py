"""Sources of a page's numbers: the model, the text and the pass over it, the chosen head, or matrices."""
