"""From “ Paris” back to the text: by clicks and by keys, with two hops cut, every number as core has it."""

from __future__ import annotations

import numpy as np

from core import Edits, capture, load_model, logit_attribution
from core.heads.attribution import as_grid, logit
from core.heads.paths import follow, read_hops
from ui import state

SMOLLM, FRANCE = "SmolLM2-135M-Instruct", "The capital of France is"


def test_from_paris_to_the_text(visit):
    app = visit("/why")
    model = load_model(SMOLLM)
    paris, rome = (model.tokenizer(word)["input_ids"][0] for word in (" Paris", " Rome"))
    taken = capture(model, FRANCE, components=True)
    answer = logit_attribution(taken, paris, rome)

    def along(words: str):
        return follow(taken, read_hops(words), answer, logit(taken, paris, rome))

    def shows(table) -> None:
        app.shows({"components": as_grid(table).values}).idle()

    shows(answer)
    app.says(f"is {answer.number:.2f} above that of “·Rome”")
    stop = along("29.1").stops[0]
    app.click_cell("components", 29, 1)
    shows(stop.of_key)
    app.says(f"Head 29.1 scored “{taken.tokens()[1][stop.key].replace(' ', '·')}”")
    app.eventually(lambda: app.said.get("path"), lambda path: path[0].startswith("29.1"))

    app.page.go_back()
    shows(answer)
    app.widget(state.ARROWS).locator(".keys").press("ArrowRight")
    stop = along("23.4").stops[0]
    shows(stop.of_key)
    app.says(f"Head 23.4 scored “·France” {stop.score:.2f} above the mean of the other keys")
    app.press(state.SIDE, "Into the query")
    shows(stop.of_query)
    grid = as_grid(stop.of_query)
    grid.values[:, -1] = -np.inf
    row, head = np.unravel_index(np.argmax(grid.values), grid.values.shape)
    layer = grid.rows[row][1]
    app.click_cell("components", int(row), int(head))
    path = along(f"23.4>3, query {layer}.{head}")
    app.says(f"Head {layer}.{head} scored")
    shows(path.stops[1].of_key)

    app.click("mute 23.4").click(f"{layer}.{head} from the query of 23.4")
    edits = Edits(mute_heads={(23, 4)}) | path.cut(1)
    cut = capture(model, FRANCE, edits=edits)
    after = float(cut.logits[paris] - cut.logits[rome])
    row = cut.trace(23, 4).scaled[4]
    score = row[3] - np.delete(row, 3).mean()  # all that the second cut changes, as 23.4 is muted
    app.says(
        f"the difference goes {answer.number:.2f} → {after:.2f}",
        f"predicted {answer.number - path.stops[0].gave:.2f}",
        f"its score goes {path.stops[0].score:.2f} → {score:.2f}",
    ).is_well()
