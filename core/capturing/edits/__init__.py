"""What-if: the kinds of changes, as Python, as lines of text and as forms, and what applies them in a pass."""
