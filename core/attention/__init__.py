"""The operation: one attention head over plain arrays, its masks and stages, and where its numbers come from."""
