"""Passes from files: recorded elsewhere or saved before, opened without their models. Nothing in a file is trusted."""
