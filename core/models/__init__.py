"""Models: what one is, how it is loaded, what it reads, and the weights of its heads."""
