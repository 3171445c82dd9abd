"""The page Exhibit: files that somebody has saved, above all a view with all its numbers."""

from ui.presenting import show_heading
from ui.views.exhibit import show_opening

show_heading(
    "Exhibit", "Open a file: a view that “Share” has saved with all its numbers, a recorded pass or attention weights."
)
show_opening()
