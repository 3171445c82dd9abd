"""One head, from query, key and value to its output, on numbers of any origin."""

from ui.views.scene import pick_source
from ui.views.stage_view import show_stages

scene = pick_source()
if scene is not None:
    show_stages(scene)
