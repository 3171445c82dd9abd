"""The page Generation: what attention does while a model writes, one token after another."""

from ui.presenting import show_heading
from ui.views.generation.page import show_generation
from ui.views.sources.text_fields import choose_request

show_heading("Generation", "Where each new token looks.")
if (asked := choose_request(writes=True, images=True)) is not None:
    show_generation(asked)
