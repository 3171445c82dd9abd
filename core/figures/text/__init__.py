"""Tokens as running text, shaded by attention, in a browser: the scripts and styles that the app and notebooks share."""
