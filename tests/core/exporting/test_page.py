"""Views as one HTML page: what it holds, what it may do, and what is refused. Browsers open it in tests/browser."""

import json
import re

import numpy as np
import pytest

from core import PageView, attend, explain, random_matrices, save_page
from core.exporting import page
from core.exporting.exhibit import Drawing
from core.exporting.page import PageKnob, to_page
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.plots.bars import bars, waterfall
from tests.core.exporting.test_documents import inside
from tests.refusals import refused

HOSTILE = "</script><script>alert(1)</script>"


def drawing(size: int = 3) -> Drawing:
    return Drawing("Weights", "A heatmap.", heatmap(np.eye(size), Axis("query"), Axis("key"), name="weight"))


def test_a_page_holds_texts_as_data_and_may_load_nothing(tmp_path):
    frames = [{"charts": {"0": {"data": [{"z": [[0.0]]}], "layout": {}}}, "said": {"0": [HOSTILE]}}] * 2
    knob = PageKnob(HOSTILE, [HOSTILE, "b"], frames, at=1, rest=0.5)
    words = ["plain", [("a row of ", False), ("94%", True)], HOSTILE]
    view = PageView(HOSTILE, words, [drawing()], [knob], HOSTILE, {"model": HOSTILE})
    save_page([view], tmp_path / "page.html", title=HOSTILE)
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "alert(1)</script>" not in text
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=", text.partition('id="plotly"')[0])
    (there,) = json.loads(inside(text, "views"))  # as a browser reads them
    assert (there["title"], there["notes"], there["about"]) == (HOSTILE, HOSTILE, [["model", HOSTILE]])
    assert there["words"] == [[["plain", False]], [["a row of ", False], ["94%", True]], [[HOSTILE, False]]]
    assert there["knobs"][0]["frames"][0]["said"] == {"0": [HOSTILE]}
    assert there["pictures"][0]["alt"].startswith("A heatmap. 3 by 3")


def test_only_a_waterfall_needs_all_of_plotly():
    made = random_matrices(2, 3, 4, 4)
    terms = Drawing("Terms", "", waterfall(explain(attend(made.query, made.key, made.value), 0, 0)))
    bar = Drawing("Bars", "", bars(["a", "b"], {"": [1, 2]}, y="y"))
    small, whole = (len(to_page([PageView("", pictures=[one])])) for one in (bar, terms))
    assert small < 800_000 < 1_500_000 < whole < page.MOST_BYTES


@pytest.mark.parametrize("count", [0, 11])
def test_a_page_of_no_or_too_many_views_is_refused(count):
    with refused("views", "1 to 10 views"):
        to_page([PageView("a")] * count)


def test_a_page_that_is_too_large_is_refused_with_the_view_to_leave_out():
    with refused("views", "View 2, “large”, is the largest: leave it out"):
        to_page([PageView("small", pictures=[drawing()]), PageView("large", ["1" * page.MOST_BYTES])])
