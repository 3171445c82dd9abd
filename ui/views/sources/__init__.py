"""Where a page's numbers come from: the model, the text and the pass over it, the chosen head, or a source of matrices."""
