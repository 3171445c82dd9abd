"""The start page: what this is, the ways in, and finished views to look at."""

from ui.gallery.cards import show_cards, show_ways_in
from ui.views.common.heading import show_heading

show_heading("Headlight", "What attention does inside a language model, one stage at a time, every number measured.")
show_ways_in()
show_cards()
