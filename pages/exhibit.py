"""The page Open a file: a view that somebody has saved as an exhibit."""

from ui.views.common.heading import show_heading
from ui.views.exhibit import show_opening

show_heading("Open a file", "Open an exhibit: a view that was saved with “Share”, with all its numbers.")
show_opening()
