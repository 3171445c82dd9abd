"""A view that somebody has saved as a file, opened again."""

from ui.views.exhibit import show_opening
from ui.views.heading import show_heading

show_heading("Open a file", "Drop an exhibit here: a view that was saved with “Share”, with all its numbers.")
show_opening()
