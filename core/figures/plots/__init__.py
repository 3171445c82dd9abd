"""Bars, curves, points and drawings."""
