"""The lines of "As Python", run as they stand: they give the numbers that the page has drawn.

Each view is opened by its address, without a browser, and its lines are run in this process, where `headlight` is `core`.
"""

import ast
import json
import runpy
import sys
from dataclasses import fields, is_dataclass

import numpy as np
import plotly.graph_objects as go
import pytest

from core import AttentionTrace
from tests.browser.driver import Picture, array
from tests.pages import app as pages
from tests.pages.lessons import LESSONS, parts
from tests.source_files import ROOT
from ui import lessons, state
from ui.views.lesson import results as experiments

DATES = {"model": "written-dates", "text": "21st of nov, 2026"}
HOSTILE = "It's \"quoted\"'''); import os # <b>$x$\\"


def page_and_lines(file, page):
    """What the shell does with a page, and then its lines."""
    import runpy

    import streamlit as st

    from ui import shown
    from ui.sharing.dialog import cells_of, in_one

    on_page = shown.begin("", page)
    runpy.run_path(file)
    st.session_state["notebook"] = cells_of(on_page)
    st.session_state["lines"] = in_one(st.session_state["notebook"])


class View:
    """A page at an address: its lines, and what it has drawn."""

    def __init__(self, page, **address):
        file = ROOT / "pages" / ("learn" if page in lessons.LESSONS else "") / f"{page}.py"
        self.app = app = pages.part(page_and_lines, str(file), page, **address)
        self.cells = app.session_state["notebook"]
        self.lines = app.session_state["lines"]
        self.charts = {chart.proto.id: json.loads(chart.proto.spec) for chart in app.get("plotly_chart")}

    def drawn(self, name):
        """The numbers of a heatmap, NaN where masked."""
        return pages.drawn(self.app, name)


@pytest.fixture(scope="module", autouse=True)
def installed():
    """`headlight` and all its modules are those of core."""
    before = set(sys.modules)
    yield
    for alias in {name for name in sys.modules if name.partition(".")[0] == "headlight"} - before:
        del sys.modules[alias]


def run_lines(lines, folder):
    """Everything that the lines name; what the lines without a name give as "results", and the last of them as "result"."""
    sys.modules |= {
        f"headlight{name.removeprefix('core')}": module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == "core"
    }
    statements = ast.parse(lines).body
    assert isinstance(statements[-1], ast.Expr), lines
    parts = [ast.get_source_segment(lines, statement) or "" for statement in statements]
    program = [
        f"results.append({part})" if isinstance(statement, ast.Expr) else part
        for part, statement in zip(parts, statements, strict=True)
    ]
    file = folder / "lines.py"
    file.write_text("\n".join(program), encoding="utf-8")
    found = runpy.run_path(str(file), {"results": []})
    return found | {"result": found["results"][-1]}


def heatmap(figure):
    found = json.loads(figure.to_json())
    return Picture(found["data"], found["layout"]).values


def same(found, drawn):
    np.testing.assert_allclose(found, drawn, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("picture", "address"),
    [
        ("As it is", {"source": "toy", "words": f"the cat {HOSTILE} the cat", "width": "5", "seed": "3"}),
        ("As it is", {"source": "random", "queries": "5", "dk": "3", "dv": "2", "numbers": "sign", "stage": "output"}),
        ("Changed", {"source": "random", "seed": "4", "mask": "window", "size": "2", "scaling": "false", "query": "1"}),
        ("As it is", {"source": "own", "q": "1,0.5\n-2,3", "m": "1,1,1,0\n1,1,0,0", "stage": "masked"}),
        ("Changed", {"source": "own", "mask": "own", "grid": "1,0,1,0\n1,1,0,0\n0,0,0,1"}),
        ("As it is", {"text": HOSTILE, "pair": "and 'this'", "layer": "2", "head": "3", "query": "1", "key": "2"}),
        ("Changed", {"layer": "1", "head": "0", "mask": "causal", "stage": "raw"}),
        ("As it is", DATES | {"kind": "cross", "head": "3"}),
        ("As it is", DATES | {"kind": "decoder", "target": "1987"}),
    ],
)
def test_a_head_step_by_step(picture, address, tmp_path):
    view = View("step_by_step", **address)
    found = run_lines(view.lines, tmp_path)
    same(heatmap(found["result"]), view.drawn(picture))
    last = ast.parse(view.lines).body[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    (chosen,) = (ast.literal_eval(word.value) for word in last.value.keywords if word.arg == "cell")
    assert all(chosen[at] == int(address[name]) for at, name in enumerate(("query", "key")) if name in address)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("number", "address"),
    [
        ("previous", {"text": "to be or not to be"}),
        ("induction", {"metric": "induction"}),
        ("Match", {"metric": "pattern", "pattern_of": "pairs", "pairs": "7-2, 3-1"}),
        ("Weight", {"metric": "pair", "query": "10", "key": "2", "layer": "5", "head": "11"}),
        ("contribution", DATES | {"metric": "contribution", "kind": "cross"}),
        ("largest", DATES | {"metric": "largest", "kind": "cross", "target_as": "numbers", "target_ids": "9 8 7"}),
    ],
)
def test_all_heads_and_one_of_them(number, address, tmp_path):
    view = View("heads", **address)
    found = run_lines(view.lines.replace("\nstage_figure(", "\nlarge = stage_figure("), tmp_path)
    same(heatmap(found["large"]), view.drawn("head"))
    same(heatmap(found["result"]), view.drawn("atlas"))
    assert repr(number) in view.lines


def test_another_view_of_several_heads(tmp_path):
    address = {"what": "value-weighted", "without": "first", "renormalise": "true", "mean_of": ["0.1", "2.3"]}
    view = View("heads", **address)
    same(run_lines(view.lines.replace("\nViewMatrix(", "\nlarge = ViewMatrix("), tmp_path)["large"], view.drawn("head"))


@pytest.mark.parametrize(
    "address",
    [
        {"edit": ["mute 2.3", "off scale 3", 'token 3 "dog"', "no such line"], "layer": "4"},
        {"view": "compare", "other_layer": "2", "other_head": "7"},
        {"view": "compare", "compare": "text", "other_text": f"The animal {HOSTILE}"},
    ],
)
def test_two_heads_compared(address, tmp_path):
    view = View("what_if", **address)
    same(run_lines(view.lines, tmp_path)["result"].difference, view.drawn("compared difference"))


@pytest.mark.parametrize(
    "address",
    [{"view": "matter"}, {"view": "patch", "other": "The animal didn't cross the street because it was too wide."}],
)
def test_what_each_head_does(address, tmp_path):
    view = View("what_if", **address)
    same(heatmap(run_lines(view.lines, tmp_path)["result"]), view.drawn("atlas"))


@pytest.mark.parametrize("taken", ["layers", "tokens"])
def test_what_layers_and_tokens_do(taken, tmp_path):
    view = View("what_if", view="matter", taken=taken, text="a black cat sat")
    found = run_lines(view.lines, tmp_path)["result"]
    (bars,) = (chart for chart in view.charts.values())
    same(np.array([found[place] for place in range(len(found))]), array(bars["data"][0]["y"]))


# These draw logarithms, errors or parts of what was computed.
DRAWN_OTHERWISE = {
    *(("softmax", "overflow"), ("softmax", "model"), ("scaling", "depth"), ("word_order", "model")),
    *(("long_range", "gradients"), ("blocks", "sentence"), ("blocks", "model")),
}


@pytest.mark.thorough
@pytest.mark.parametrize(("lesson", "part"), [(lesson, part) for lesson in LESSONS for part in parts(lesson)])
def test_every_experiment_of_the_lessons(lesson, part, tmp_path):
    """Each opens without a complaint, and with a picture of what its lines compute."""
    view = View(lesson, part=part)
    assert not view.app.error
    assert view.charts
    assert view.app.session_state[state.PART] == part
    computed = arrays(run_lines(view.lines, tmp_path)["results"])
    assert computed or (lesson, part) == ("softmax", "model")
    if (lesson, part) not in DRAWN_OTHERWISE:
        traces = [trace for chart in view.charts.values() for trace in chart["data"]]
        drawn = [array(trace[axis]) for trace in traces for axis in ("z", "y") if axis in trace]
        assert any(looks_like(one, shown) for one in computed for shown in drawn), view.lines


def arrays(value):
    """All arrays in what was computed."""
    if isinstance(value, go.Figure):
        return [heatmap(value)]
    if isinstance(value, np.ndarray):
        return [value.astype(float)]
    if isinstance(value, AttentionTrace):
        return [value.weights, value.masked, value.raw]
    if isinstance(value, dict):
        return arrays(list(value.values()))
    parts = [getattr(value, part.name) for part in fields(value)] if is_dataclass(value) else value
    return [found for part in parts for found in arrays(part)] if isinstance(parts, list | tuple) else []


def looks_like(computed, drawn):
    """Whether all of this was drawn, or one row or column of it, or the mean of its rows."""
    rows = [computed, *computed, *computed.T, computed.mean(axis=0)] if computed.ndim > 1 else [computed]
    flat = np.nan_to_num(drawn.ravel())
    same_size = [np.nan_to_num(row.ravel(), neginf=0) for row in rows if row.size == drawn.size > 1]
    return any(np.allclose(row, flat, rtol=1e-4, atol=1e-6) for row in same_size)


def test_what_was_computed_before_or_outside_of_a_page_has_the_same_lines():
    experiments.gradient_reach(16, 1.0, 0.5)
    address = {"part": "gradients", "length": "16", "forget": "0.5"}
    assert "compare_reach(16, forget_bias=0.5)" in View("long_range", **address).lines
    assert View("heads").lines == View("heads").lines
