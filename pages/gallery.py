"""The start page: links to the main pages, and finished views to look at."""

from ui.gallery.views import show_cards, show_ways_in
from ui.presenting import show_heading

show_heading(
    "Headlight", "See what attention does inside a language model, one stage at a time. Every number is measured."
)
show_ways_in()
show_cards()
