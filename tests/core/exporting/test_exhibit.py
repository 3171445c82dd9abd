"""Exhibits: what is written comes back to the last bit, whatever the head is; and no file can do harm."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import safetensors.numpy

from core import Edits, InputError, attend, capture, load_model
from core.attention.head import Head
from core.exporting.exhibit import MAX_BYTES, Drawing, Exhibit, KeptHead, Upload, read, write
from core.exporting.tables import tables_of, to_csv
from core.figures.heatmaps.heatmap import Axis, heatmap
from tests.core.captures.test_opening import EDITS
from tests.core.figures.test_chart import DESCRIBED
from tests.core.figures.test_theme import CHARTS
from tests.core.passes import every_head
from tests.core.tiny_models import tiny

IDS = [1, 5, 9, 13, 17, 21, 25]
NASTY = "</script><img src=x onerror=alert(1)> [x](http://evil) $x$ \u202e"


def kept(name="BERT", kind="self", edits=None):
    return KeptHead.of(capture(load_model(tiny(name)), input_ids=IDS, edits=edits), 1, 2, kind)


def exhibit(*heads, **more):
    said = {"page": "heads", "title": "Heads", "address": {"text": ("long " * 9000,)}, "about": {"layer.head": "1.10"}}
    return Exhibit(**said | {"heads": {f"head {place}": head for place, head in enumerate(heads)}} | more)


def again(head):
    return next(iter(read(write(exhibit(head))).heads.values()))


@pytest.mark.parametrize(
    ("name", "edits"),
    # Causal masks and windows, cross-attention, biases of the distance, soft caps, sinks.
    [
        *product(("BERT", "GPT-2", "Mistral", "T5", "Gemma 2", "gpt-oss"), [None]),
        *product(("BERT", "GPT-2"), [EDITS, Edits(softmax="sigmoid")]),
    ],
)
def test_a_head_comes_back_with_all_its_stages_and_its_certificate(name, edits):
    pass_ = capture(load_model(tiny(name)), input_ids=IDS, edits=edits)
    for at in every_head(pass_):
        back = again(KeptHead.of(pass_, *at))
        overview, certificate = back.overview()
        expected, of_the_pass = pass_.certified_overview(*at)
        for key, stage in expected.matrices.items():
            assert np.array_equal(overview.matrices[key].values, stage.values, equal_nan=True), key
            assert np.array_equal(overview.matrices[key].allowed, stage.allowed), key
        assert np.array_equal(overview.row_numbers["output"], expected.row_numbers["output"])
        # A window as long as the text is none.
        assert replace(certificate, mask="") == replace(of_the_pass, mask="")
        whole, trace = back.head.trace(range(back.head.shape[0])), pass_.trace(*at)
        for stage in ("raw", "scaled", "masked", "weights", "output"):
            assert np.array_equal(getattr(whole, stage), getattr(trace, stage)), stage
        for row in range(len(whole.weights)):
            np.testing.assert_allclose(back.head.trace(range(row, row + 1)).output, trace.output[[row]], atol=1e-5)
        assert back.query_tokens == pass_.tokens(at[2])[0]
        assert back.same_as(KeptHead.of(pass_, *at))


def test_a_certificate_notices_what_a_file_has_changed():
    head = kept()
    changed = replace(head, output=head.output * np.float32(1.01))
    assert head.overview()[1].holds
    assert not again(changed).overview()[1].holds
    assert not again(changed).same_as(head)


def test_a_head_of_no_model_has_no_certificate():
    numbers = np.random.default_rng(0)
    trace = attend(*(numbers.normal(size=(5, 3)) for _ in range(3)), bias=numbers.normal(size=(5, 5)))
    head = KeptHead(head=Head.of(trace), query_tokens=tuple("abcde"), key_tokens=tuple("fghij"), says="Numbers.")
    overview, certificate = again(head).overview()
    assert certificate is None
    assert np.array_equal(overview.matrices["weights"].values, trace.weights)
    assert again(head).head.query.dtype == np.float64


def test_a_long_causal_head_costs_what_its_inputs_cost():
    numbers = np.random.default_rng(0)
    query, key, value = (numbers.normal(size=(2048, 16)).astype(np.float32) for _ in range(3))
    slopes = -0.5 * np.abs(np.arange(2048)[:, None] - np.arange(2048)).astype(np.float32)
    trace = attend(query, key, value, mask=np.tri(2048, dtype=bool), bias=slopes)
    head = KeptHead(head=Head.of(trace), query_tokens=("x",) * 2048, key_tokens=("x",) * 2048, says="Numbers.")
    data = write(exhibit(head))
    assert len(data) < 3 * query.nbytes + 200_000
    assert np.array_equal(again(head).head.shaping(range(1000, 1010)).bias, slopes[1000:1010])


def test_everything_else_comes_back_too():
    values = np.array([[0.5, 0.25], [np.nan, 1.0]], np.float32)
    sides = Axis("query", ["<b>", "$x$"]), Axis("key", ["a", "b"])
    chart = heatmap(values, *sides, name="weight", forbidden=values != values)
    drawings, uploads = (Drawing("Weights", NASTY, chart),), {"image": Upload("cat.png", b"\x89PNG")}
    one = exhibit(about={"text": NASTY}, drawings=drawings, uploads=uploads)
    back = read(write(one))
    assert (back.page, back.title, back.address, back.about) == (one.page, one.title, one.address, one.about)
    assert back.uploads["image"].data == b"\x89PNG"
    (drawing,) = back.drawings
    assert drawing.alt == NASTY
    # Drawn as it was, escaped tokens and all.
    assert json.loads(drawing.chart.figure.to_json()) == json.loads(chart.figure.to_json())


@pytest.mark.parametrize(
    "chart",
    [*(draw() for draw in CHARTS.values()), *(chart for chart, _ in DESCRIBED.values())],
    ids=[*CHARTS, *DESCRIBED],
)
def test_a_picture_comes_back_with_what_it_shows(chart):
    (drawing,) = read(write(exhibit(drawings=(Drawing("A picture", "Words.", chart),)))).drawings
    assert drawing.chart.description == chart.description
    assert drawing.chart.strongest() == chart.strongest()
    assert drawing.chart.block == chart.block
    assert to_csv(tables_of(drawing.chart), {}) == to_csv(tables_of(chart), {})
    assert [table.name for table in tables_of(drawing.chart)] == [table.name for table in tables_of(chart)]


def test_a_picture_of_an_earlier_file_says_what_stands_in_it(good):
    said, arrays = parts(good)
    picture = {name: part for name, part in said["pictures"][0].items() if name != "values"}
    (drawing,) = read(packed(said | {"pictures": [picture | {"alt": "Weights. 3 by 3."}]}, arrays)).drawings
    assert (drawing.alt, drawing.chart.description, drawing.chart.strongest()) == ("Weights. 3 by 3.", "", None)


def parts(one):
    arrays = safetensors.numpy.load(write(one))
    return json.loads(arrays["exhibit"].tobytes()), {name: array for name, array in arrays.items() if name != "exhibit"}


def packed(said, arrays):
    text = said if isinstance(said, bytes) else json.dumps(said).encode()
    return safetensors.numpy.save(arrays | {"exhibit": np.frombuffer(text, np.uint8)})


def refused(data):
    with pytest.raises(InputError) as caught:
        read(data)
    assert len(str(caught.value)) < 400  # words, not what the file says
    return str(caught.value)


@pytest.fixture(scope="module")
def good():
    chart = heatmap(np.eye(3), Axis("query", list("abc")), Axis("key", list("abc")), name="weight")
    return exhibit(kept(edits=Edits(block_keys={2})), drawings=(Drawing("Weights", "alt", chart),))


def test_files_that_are_none(good):
    data = write(good)
    assert "is empty" in refused(b"")
    assert "not an exhibit" in refused(b"PK\x03\x04" + b"0" * 100)  # an archive
    assert "not an exhibit" in refused(b"\x80\x04\x95" + b"0" * 100)  # a pickle
    assert "20" in refused(b"0" * (MAX_BYTES + 1))
    for length in (4, 8, 100, len(data) // 2, len(data) - 1):
        refused(data[:length])
    refused(data + b"0")
    refused((2**63).to_bytes(8, "little") + data[8:])  # a header longer than the file
    refused(data[:8] + data[8:2000].replace(b"F32", b"F99") + data[2000:])
    refused(data[:8] + data[8:2000].replace(b'"shape":[7,', b'"shape":[9,') + data[2000:])


PACKED = {"dtype": "f4", "bdata": "AAAAAA=="}  # a single number
# What a file says of itself, of its head, and of what its picture shows, where it is not true: field -> values.
SAID = {
    "format": ["something"],
    "version": [True, "1", 0],
    "page": ["../../etc/passwd", 3],
    "title": ["x" * 2000, "\ud800"],
    "address": [{"text": "no list"}, {"<b>": ["x"]}, {f"a{place}": [] for place in range(1000)}],
    "about": [None, {"model": 3}],
    "heads": [{}],
    "uploads": [[{"field": "image", "name": "x"}]],
}
OF_HEAD = {
    "scale": ["1", None, 1e300],
    "softcap": [-1, True],
    "query_tokens": [["x"], ["x"] * 10_000],
    "key_tokens": [[3] * 7, ["x" * 2000] * 7],
    "mask": ["strange"],
    "bias": ["row"],  # without numbers
    "weighing": ["eval"],
    "origin": [{"name": "m"}, None],  # and yet the model's output
    "says": [3],
}
OF_VALUES = {
    "kind": ["sonnet", "changes", ["cells"]],  # of changes there are two
    "numbers": [None, {"dtype": "f4", "bdata": "AAAA", "shape": "1000000, 1000000"}, PACKED],  # for nine names
    "rows": [None, [], ["a", "b"], ["a", "b", 3]],
    "columns": [["a"], []],
    "headings": [["query"], "query"],
    "x": [PACKED],
    "part": ["x" * 5_000],
    "opening": [None],
    "closing": ["\ud800"],
    "block": [[0, 1], [1], [2**80, 1]],
}
WRONG = [
    (of, {field: value})
    for of, wrong in {"file": SAID, "head": OF_HEAD, "values": OF_VALUES}.items()
    for field, values in wrong.items()
    for value in values
]


@pytest.mark.parametrize(("of", "wrong"), WRONG, ids=[f"{of} {next(iter(wrong))}" for of, wrong in WRONG])
def test_what_a_file_says_is_checked(good, of, wrong):
    said, arrays = parts(good)
    head, picture = said["heads"][0], said["pictures"][0]
    changes = {
        "file": wrong,
        "head": {"heads": [head | wrong]},
        "values": {"pictures": [picture | {"values": [picture["values"][0] | wrong]}]},
    }
    refused(packed(said | changes[of], arrays))


def test_what_a_file_holds_too_much_of_or_no_text_and_rows_that_are_not_there(good):
    said, arrays = parts(good)
    head, picture = said["heads"][0], said["pictures"][0]
    for text in (b"", b"[" * 100_000, b'{"format": NaN}', b"\xff\xfe", [said]):
        refused(packed(text, arrays))
    for wrong in ({"heads": [head] * 50}, {"pictures": [picture] * 50}):
        refused(packed(said | wrong, arrays))
    for values in ("values", {}, [1], [picture["values"][0]] * 501):
        refused(packed(said | {"pictures": [picture | {"values": values}]}, arrays))
    for wrong in ({"dtype": "__class__"}, {"layer": -1}, {"head": 1.5}):
        refused(packed(said | {"heads": [head | {"origin": head["origin"] | wrong}]}, arrays))
    assert "Update Headlight" in refused(packed(said | {"version": 2}, arrays))
    head = kept("GPT-2", edits=Edits(pattern={(1, 2): {2: {1: 1.0}}}))
    said, arrays = parts(exhibit(head))
    assert arrays["head0.instead_weights_rows"].tolist() == [[2]]
    for rows in ([[-1]], [[7]], [[2**40]]):
        refused(packed(said, arrays | {"head0.instead_weights_rows": np.array(rows)}))


def test_arrays_that_are_none_of_a_head(good):
    said, arrays = parts(good)
    query, key, value = (arrays[f"head0.{name}"] for name in ("query", "key", "value"))
    bad = query.copy()
    bad[0, 0] = np.nan
    for name, array in (
        ("query", bad),
        ("query", query.astype(np.int32)),
        ("key", key[:, :3]),
        ("key", key.astype(np.float64)),
        ("value", value[:3]),
        ("mask", arrays["head0.mask"][:2]),
        ("model_output", np.zeros((9000, 3), np.float32)),
        ("model_output", np.full_like(arrays["head0.model_output"], np.inf)),
        ("instead_output", value),  # which rows?
    ):
        refused(packed(said, arrays | {f"head0.{name}": array}))
    refused(packed(said, {name: array for name, array in arrays.items() if name != "head0.key"}))
    many = np.ones((9000, 1), np.float32)
    tokens = {"query_tokens": ["x"] * 9000, "key_tokens": ["x"] * 9000, "mask": "none", "origin": None}
    long = said | {"heads": [said["heads"][0] | tokens]}
    assert "9,000 queries" in refused(packed(long, {f"head0.{name}": many for name in ("query", "key", "value")}))


def figure_of(**wrong):
    return {"data": [{"type": "bar", "x": ["a"], "y": [1]}], "layout": {}} | wrong


@pytest.mark.parametrize(
    "figure",
    [
        {},
        figure_of(data=[{"type": "scatter3d"}]),
        figure_of(data=[{"type": "image", "source": "http://evil/x.png"}]),
        figure_of(layout={"images": [{"source": "http://evil/x.png"}]}),
        figure_of(layout={"images": [{"source": "data:image/svg+xml,<svg onload=alert(1)>"}]}),
        figure_of(layout={"updatemenus": [{"buttons": []}]}),
        figure_of(layout={"sliders": []}),
        figure_of(layout={"mapbox": {"style": "http://evil"}}),
        figure_of(layout={"height": 1e9}),
        figure_of(layout={"xaxis": {"nonsense": 1}}),
        figure_of(data=[{"type": "bar", "x": {"dtype": "f8", "bdata": "!!!"}, "y": [1]}]),
        figure_of(data=[{"type": "bar", "x": {"dtype": "object", "bdata": ""}, "y": [1]}]),
        figure_of(data=[{"type": "heatmap", "z": {"dtype": "f4", "bdata": "AAAA", "shape": "1000000, 1000000"}}]),
        figure_of(data=[{"type": "bar", "y": [1] * 300_000}]),
        figure_of(data=[{"type": "bar", "name": "x" * 5000}]),
        figure_of(data=[{"type": "bar", "meta": json.loads("[" * 50 + "]" * 50)}]),
        figure_of(data=[{"type": "bar"}] * 5000),
        figure_of(layout={"meta": {"rows": 2**80}}),
        figure_of(data=[{"type": "heatmap", "z": [["a", "b"]]}]),
        figure_of(data=[{"type": "heatmap", "z": [[1], [1, 2]]}]),
    ],
)
def test_pictures_that_headlight_does_not_draw(good, figure):
    said, arrays = parts(good)
    refused(packed(said | {"pictures": [{"title": "x", "alt": "x", "figure": figure}]}, arrays))


def test_markup_in_a_picture_is_text(good):
    said, arrays = parts(good)
    template = "<b>%{y}</b><extra></extra>"
    bar = {"type": "bar", "x": ["<a href='http://evil'>x</a>"], "y": [1], "hovertemplate": template}
    note = {"text": "<span style='font-size:900px'>x</span><br><img src=x onerror=alert(1)>"}
    nasty = figure_of(data=[bar], layout={"annotations": [note]})
    back = read(packed(said | {"pictures": [{"title": "x", "alt": "x", "figure": nasty}]}, arrays))
    shown = back.drawings[0].chart.figure
    assert (shown.data[0].x[0], shown.data[0].hovertemplate) == ("&lt;a href='http://evil'>x&lt;/a>", template)
    text = shown.layout.annotations[0].text
    assert text == "&lt;span style='font-size:900px'>x&lt;/span><br>&lt;img src=x onerror=alert(1)>"


def test_what_is_too_large_is_not_written_and_millions_of_lists_are_not_made(good):
    with pytest.raises(InputError, match="at most 20 MB"):
        write(exhibit(uploads={"image": Upload("x", bytes(MAX_BYTES))}))
    # Python holds the interpreter for seconds while it makes them, whatever they are for.
    said, arrays = parts(good)
    assert "its description is too large" in refused(packed(said | {"more": [[]] * 600_000}, arrays))
    with pytest.raises(InputError, match="can be opened again"):
        write(replace(good, about=dict.fromkeys("abc", "[" * 190_000)))


@pytest.mark.thorough
def test_bits_of_a_good_file_turned_at_random(good):
    data, numbers = bytearray(write(good)), np.random.default_rng(5)
    for _ in range(40):
        turned = data.copy()
        for place in numbers.integers(0, len(turned), 3):
            turned[place] ^= 1 << int(numbers.integers(0, 8))
        try:
            read(bytes(turned))
        except InputError:
            continue
