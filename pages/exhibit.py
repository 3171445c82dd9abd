"""The page Exhibit: a view that somebody has saved with all its numbers."""

from ui.views.common.heading import show_heading
from ui.views.exhibit import show_opening

show_heading("Exhibit", "A view that somebody saved with “Share”, with all its numbers.")
show_opening()
