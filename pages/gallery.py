"""The start page: what this is, and the ways in."""

from ui.views.gallery import show_ways_in
from ui.views.heading import show_heading

show_heading(
    "Headlight", "What attention does inside a language model, one stage at a time, every number measured here."
)
show_ways_in()
