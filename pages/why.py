"""The page Why: what wrote an answer, where that was read, and why the head looked there."""

from ui.presenting import show_heading
from ui.views.sources.text_fields import choose_request
from ui.views.why.page import show_path

show_heading("Why", "Follow an answer back to the text.")
if (fields := choose_request(writes=True)) is not None:
    show_path(fields)
