"""The frame of a lesson, and the results of its experiments."""
