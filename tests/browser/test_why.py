"""From “ Paris” back to the text by clicks and keys, with two hops cut; tests/pages/test_why.py compares the numbers."""

import numpy as np
import pytest

from core import capture, logit_attribution
from core.heads.attribution import as_grid, logit
from core.heads.paths import follow, read_hops
from tests.browser.addresses import FRANCE
from ui import state


@pytest.mark.thorough
def test_from_paris_to_the_text(go, smollm):
    app = go("/why")
    paris, rome = (smollm.tokenizer(word)["input_ids"][0] for word in (" Paris", " Rome"))
    taken = capture(smollm, FRANCE, components=True)
    answer = logit_attribution(taken, paris, rome)

    def shows(table) -> None:
        app.shows({"components": as_grid(table).values}).idle()

    def stops(words: str):
        return follow(taken, read_hops(words), answer, logit(taken, paris, rome)).stops

    shows(answer)
    app.click_cell("components", 29, 1)
    shows(stops("29.1")[0].of_key)
    app.eventually(lambda: app.said.get("path"), lambda path: path[0].startswith("29.1"))
    app.page.go_back()
    shows(answer)
    app.widget(state.ARROWS).locator(".keys").press("ArrowRight")
    stop = stops("23.4")[0]
    shows(stop.of_key)
    app.press(state.SIDE, "Into the query")
    shows(stop.of_query)
    grid = as_grid(stop.of_query)
    grid.values[:, -1] = -np.inf
    row, head = map(int, np.unravel_index(np.argmax(grid.values), grid.values.shape))
    layer = grid.rows[row][1]
    app.click_cell("components", row, head).says(f"Head {layer}.{head} scored")
    shows(stops(f"23.4>3, query {layer}.{head}")[1].of_key)
    app.click("mute 23.4").click(f"{layer}.{head} from the query of 23.4")
    app.says("the difference goes", f"predicted {answer.number - stop.gave:.2f}", "its score goes").is_well()
