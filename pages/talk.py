"""A list of views of one's own, in order, with notes: saved to a file, and shown one after the other."""

from ui.views.common.heading import show_heading
from ui.views.talking import show_talk

show_heading("Talk", "Views of your own, in order, with notes for you. Start shows them one by one, without controls.")
show_talk()
