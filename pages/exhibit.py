"""A view that somebody has saved as a file, opened again."""

from ui.views.common.heading import show_heading
from ui.views.exhibit import show_opening

show_heading("Open a file", "Drop an exhibit here: a view that was saved with “Share”, with all its numbers.")
show_opening()
