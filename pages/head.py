"""The page Head: the card of one head, with all that is known of it, a line each."""

from ui.presenting import show_heading
from ui.views.head_card.page import show_card
from ui.views.sources.heads import choose_head
from ui.views.sources.text_fields import choose_text

show_heading("Head", "One head’s card.")
if (passed := choose_text(more=True)) is not None:
    show_card(choose_head(*passed))
