"""The page What changed: every head of a copy of a model beside the same head of its base, over some passages."""

from ui.presenting import show_heading
from ui.views.what_changed import show_changes

show_heading("What changed", "A copy of a model, head by head.")
show_changes()
