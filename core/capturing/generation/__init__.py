"""A model that writes one token after another, with each step as a capture."""
