"""The page Talk: a list of views with notes, saved to a file, and shown one after another."""

from ui.presenting import show_heading
from ui.views.talking import show_talk

show_heading("Talk", "A list of your own views, with notes. Start shows them one by one, without controls.")
show_talk()
