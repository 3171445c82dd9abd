"""The page Generation: what attention does while a model writes, one token after another."""

from ui.views.common.heading import show_heading
from ui.views.generation import show_generation
from ui.views.sources.passes import choose_request

show_heading("Generation", "A model writes token by token. Walk through the steps to see where each new token looks.")
asked = choose_request(writes=True)
if asked is not None:
    show_generation(asked)
