"""The encoder-decoder of the project's own: how its data are made, how it is trained, and how well it does."""
