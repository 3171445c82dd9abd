"""One head, from query, key and value to its output, on numbers of any origin."""

from ui.views.head_notes import show_next_tokens, show_notes
from ui.views.projections import show_head_weights
from ui.views.scene import pick_source
from ui.views.stage_view import show_stages

scene = pick_source()
if scene is not None:
    real = scene.real
    if real is not None:
        show_notes(real)
    show_stages(scene)
    if real is not None:
        show_next_tokens(real.capture)
        show_head_weights(real.capture, real.layer, real.head, real.kind)
