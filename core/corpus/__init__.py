"""Heads over many texts: what each of them does in general, on Ray Data."""
