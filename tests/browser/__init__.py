"""Tests that drive a real browser. A package, so that browser and server end with its last test."""
