"""Any head of any model: its stages, what it shares with other heads, and its own weight matrices."""

from ui.views.head_notes import show_key_sharing, show_layer_number, show_next_tokens
from ui.views.projections import show_head_weights
from ui.views.scene import choose_head, choose_text
from ui.views.stage_view import show_stages

passed = choose_text(more=True)
if passed is not None:
    request, capture, places = passed
    layer, head, kind, scene = choose_head(request, capture, places)
    show_layer_number(capture, layer, kind)
    show_key_sharing(capture, layer, head, kind)
    show_stages(scene)
    show_next_tokens(capture)
    show_head_weights(capture, layer, head, kind)
