"""The interactive view of arrays: its numbers, read back from the page without its script, and what it says about them."""

import base64
import html
import json
import re
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from core import InputError, view
from core.notebook import view as views
from tests.hostile import TEXTS


def weights(*shape):
    return np.random.default_rng(0).dirichlet(np.full(shape[-1], 0.1), shape[:-1]).astype(np.float32)


def read(page):
    """The data in a page. heads: [layers, heads, rows, columns] as its script decodes them"""
    (data,) = re.findall(r'<script type="text/plain" id="data">\n(.*?)\n</script>', page, re.DOTALL)
    about, _, pictures, largest, *heads = [zlib.decompress(base64.b64decode(line)) for line in data.split("\n")]
    told = json.loads(about)
    shape = len(told["queries"]["text"]), len((told["keys"] or told["queries"])["text"])
    levels = [np.frombuffer(head, np.uint8).reshape(-1, *shape).astype(float) for head in heads]
    numbers = np.array([head[0] if len(head) == 1 else head[0] * 256 + head[1] for head in levels])
    step = np.frombuffer(largest, "<f4")[:, None, None] / told["levels"]
    grid = told["layers"], told["heads"]
    pictures = np.frombuffer(pictures, np.uint8).reshape(*grid, *told["picture"])
    heads, step = (numbers * step).reshape(*grid, *shape), step.reshape(*grid, 1, 1)
    return SimpleNamespace(about=told, pictures=pictures, heads=heads, step=step)


def test_every_weight_is_there_to_half_a_step(tmp_path):
    given = weights(3, 4, 30, 30)
    shown = view(tuple(map(torch.from_numpy, given[:, None])), [f" t{at}" for at in range(30)], head=(2, 1))
    page = read(shown.page)
    assert page.about["levels"] == 65_535
    assert page.step.max() < 1 / 65_000
    assert (np.abs(page.heads - given) <= page.step * 0.501).all()
    assert page.about["head"] == 2 * 4 + 1
    query, key = page.about["cell"]
    assert given[2, 1, query, key] == np.delete(given[2, 1] - np.eye(30), [0, 29], 1)[1:29].max()
    blocks = given.reshape(3, 4, 15, 2, 15, 2).max(axis=(3, 5))
    np.testing.assert_allclose(page.pictures / 255, np.sqrt(blocks), atol=0.5 / 255 + 1e-6)
    assert shown.notes == ()
    assert "2 layers" not in repr(shown)
    shown.save(tmp_path / "view.html")
    assert (tmp_path / "view.html").read_text("utf-8") == shown.page
    (frame,) = re.findall(r'srcdoc="([^"]*)"', shown._repr_html_())
    assert html.unescape(frame) == shown.page


@pytest.mark.parametrize(("length", "levels", "block"), [(40, 255, 1), (90, 255, 3)])
def test_what_does_not_fit_has_fewer_steps_or_is_pooled_and_says_so(monkeypatch, length, levels, block):
    """Random weights can hardly be compressed: here a view may have 64 kB beside its script."""
    monkeypatch.setattr(views, "MAX_BYTES", 2**17 + 2**16)
    given = weights(4, 8, length, length)
    shown = view(given, [f"t{at}" for at in range(length)])
    page = read(shown.page)
    assert len(shown._repr_html_().encode()) <= views.MAX_BYTES
    assert (page.about["levels"], page.about["queries"]["block"]) == (levels, block)
    starts = np.arange(0, length, block)
    largest = np.maximum.reduceat(np.maximum.reduceat(given, starts, axis=2), starts, axis=3)
    assert (np.abs(page.heads - largest) <= page.step * 0.503).all()
    if block > 1:
        assert page.about["queries"]["text"][1] == " ".join(f"t{at}" for at in range(block, 2 * block))
        assert f"{length} × {length} weights of each head are too many" in shown.notes[0]
        assert f"largest of {block} × {block}" in shown.notes[0]


def test_long_texts_are_pooled_before_they_are_kept():
    given = np.zeros((1, 1, 3_000, 20), np.float32)
    given[..., 7] = 1
    given[0, 0, 2_999] = np.eye(20)[13]
    page = read(view(given).page)
    assert (page.about["queries"]["block"], page.about["keys"]["block"]) == (3, 1)
    assert page.heads.shape == (1, 1, 1_000, 20)
    np.testing.assert_allclose(page.heads[0, 0, -1], np.eye(20)[7] + np.eye(20)[13])
    np.testing.assert_allclose(page.heads[0, 0, :-1], np.broadcast_to(np.eye(20)[7], (999, 20)))


def test_rows_that_do_not_sum_to_one_are_named():
    given = weights(2, 3, 6, 6)
    given[1, 2, 4] *= 0.25
    given[0, 1, 2] *= 0.5
    given[0, 0, 1] = 0  # nothing may be attended
    shown = view(given)
    text = " ".join(shown.notes)
    assert "Rows do not sum to 1 in 2 of 6 heads: head 1.2 (0.25 to 1), head 0.1 (0.5 to 1)." in text
    assert "such as a sink" in text
    assert "1 query in head 0.0" in text
    assert "later tokens" not in text
    sums = read(shown.page).about["sums"]
    assert sums.keys() == {"1", "5"}
    np.testing.assert_allclose(sums["5"], [0.25, 1], atol=1e-6)
    scores = view(3 * given)
    assert "Rows that sum to more than 1 are not shares" in " ".join(scores.notes)
    np.testing.assert_allclose(read(scores.page).heads, 3 * given, atol=1e-4)


def test_rounding_in_half_precision_is_no_fault_and_a_causal_model_is_recognised():
    given = torch.from_numpy(weights(2, 3, 40, 40))
    assert view(given.bfloat16()).notes == view(given.half()).notes == ()
    rounded = view(given.bfloat16().float())  # here it is not known that they were rounded
    assert "Rows do not sum to 1 in 6 of 6 heads" in rounded.notes[0]
    given = np.tril(weights(2, 2, 5, 5)) + np.eye(5) * 1e-3
    given /= given.sum(-1, keepdims=True)
    (note,) = view(given).notes
    assert note.startswith("Nothing goes to later tokens. Which pairs are masked is not known")


def test_texts_are_only_in_the_compressed_data():
    tokens = [*TEXTS.values(), "</script><script>alert(1)</script>", "\ud800", "x" * 1_000]
    shown = view(weights(1, 1, len(tokens), len(tokens)), tokens)
    assert "alert" not in shown.page
    assert "evil" not in shown.page
    assert "default-src 'none'" in shown.page
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", shown.page)
    assert max(map(len, read(shown.page).about["queries"]["text"])) < 1_000
    assert re.search(r"\d tokens cut after 100 characters", " ".join(shown.notes))


def test_long_tokens_leave_room_for_the_weights(monkeypatch):
    monkeypatch.setattr(views, "MAX_BYTES", 2**17 + 2**19)
    letters = np.random.default_rng(0).integers(0x10000, 0x1FFFF, (2, 300, 120))
    tokens = [["".join(map(chr, token)) for token in side] for side in letters.tolist()]
    shown = view(np.full((1, 1, 300, 300), 1 / 300, np.float32), tuple(tokens))
    assert len(shown._repr_html_().encode()) <= views.MAX_BYTES
    assert "600 tokens cut after 100 characters" in shown.notes[-1]
    np.testing.assert_allclose(read(shown.page).heads, 1 / 300, rtol=1e-6)


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(InputError, match="Layer 1, head 0: the weight of query 2"):
        view([weights(2, 5, 5), np.full((2, 5, 5), [[0.2], [0.2], [-0.2], [0.2], [0.2]])])
    with pytest.raises(InputError, match="no layer 7"):
        view(weights(2, 2, 3, 3), head=(7, 0))
    with pytest.raises(InputError, match="1 layers × 1,025 heads are too many"):
        view(np.ones((1025, 1, 1)))
