"""The page "What changed": what it says and draws is what `what_changed` gives for the same models and passages."""

import numpy as np
import pytest
from tokenizers.normalizers import Replace

from core import capture, load_model, rounded_copy, what_changed
from core.corpus.changes import swapped_back
from tests.core.tiny_models import number_words, tiny
from tests.pages.app import choose, drawn, figure, has, opened, saved, words
from tests.ui.sharing.test_as_python import View, run_lines
from ui import state
from ui.views.what_changed import PICTURE, _nats

TWO = "The old bridge was closed. The old bridge was open again.\n\nAnn gave Tom the red book, and Tom gave Ann the blue one."


@pytest.fixture(scope="module")
def table(minilm):
    return what_changed(minilm, rounded_copy(minilm, "Q4_0"), TWO.split("\n\n"))


def page(**said: str):
    return opened("what_changed", **{state.TEXTS: TWO} | said)


def test_all_heads_the_largest_and_a_passage_have_the_numbers_of_core(minilm, table):
    app = page()
    row = table.loc[table["divergence"].idxmax()]
    head = f"{row['layer']:.0f}.{row['head']:.0f}"
    said = words(app).replace("**", "")
    assert f"Head {head} changed most: its attention moved by {row['divergence']:.3f} nats of at most 0.693." in said
    assert f"(noise {_nats(row['noise'])})" in said
    assert f"output {row['output_change']:.1%}" in said
    assert "2 passages, " in said
    np.testing.assert_allclose(drawn(app, PICTURE).ravel(), table["divergence"], rtol=1e-6)
    layer, number = map(int, head.split("."))
    copy, second = rounded_copy(minilm, "Q4_0"), TWO.split("\n\n")[1]
    for name, model in (("base", minilm), ("copy", copy)):
        choose(app, state.PASSAGE, 2)
        part = {"base": "compared first", "copy": "compared second"}[name]
        np.testing.assert_allclose(drawn(app, part), capture(model, second).trace(layer, number).weights, atol=1e-6)
    assert not has(app, "swapped back")  # it predicts no tokens


def test_other_texts_open_their_first_passage():
    app = page(passage="2", query_place="4")
    assert app.get_by_key(state.PASSAGE).value == 2
    app = choose(app, state.TEXTS, "One text alone, and nothing after it.")
    assert "1 passage," in words(app).replace("**", "")
    assert state.PASSAGE not in app.session_state[state.ADDRESS]
    assert "(noise" not in words(app)  # of a single passage it is not known


def test_a_copy_that_predicts_is_measured_with_single_heads_swapped_back(tmp_path):
    """Of the five heads that changed most, with the losses of core."""
    folder, passages = saved(tmp_path, tiny("Llama")), ["5 9 7 9 21 33 40", "8 21 6 50 8 21"]
    base = load_model(folder)
    copy = rounded_copy(base, "Q4_0")
    largest = what_changed(base, copy, passages).nlargest(5, "divergence")[["layer", "head"]].to_numpy()
    first = [(int(layer), int(head)) for layer, head in largest]
    expected = swapped_back(base, copy, passages, first)
    app = page(model=folder, **{state.TEXTS: "\n\n".join(passages)})
    np.testing.assert_allclose(drawn(app, "swapped back").ravel(), expected["change"], atol=1e-6)
    assert np.abs(expected["change"]).max() > 1e-4
    assert [*figure(app, "swapped back").layout["xaxis"]["ticktext"]] == [f"{one}.{other}" for one, other in first]
    assert "The loss goes from " in words(app)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("copied", "words_of"),
    [
        ("SmolLM2-135M-Instruct", "30 of 9: heads of models of different shapes"),
        ("nowhere/at-all", "nowhere/at-all"),
        ("all-MiniLM-L6-v2", "No head changed: 0 nats"),
    ],
)
def test_a_copy_of_another_name(copied, words_of):
    app = page(copy="model", copy_name=copied)
    assert words_of in words(app).replace("**", "")


def test_passages_with_other_tokens_are_said(tmp_path):
    other = number_words()
    other.backend_tokenizer.normalizer = Replace("21", "22")
    one, two = saved(tmp_path / "one", tiny("Llama")), saved(tmp_path / "two", tiny("Llama"), other)
    here = {"model": one, "copy": "model", "copy_name": two}
    three = "5 9 7 9\n\n8 21 6\n\n21"
    said = words(page(**here, texts=three, passage="3"))
    for sentence in (
        "1 passage with other tokens compared where they agree (not at 1 token).",
        "1 passage without a common token left out.",
        "These texts have no token in common",
    ):
        assert sentence in said
    app = page(**here, texts=three, passage="2")
    assert "no token in common" not in words(app)
    assert drawn(app, "compared second").shape == (3, 3)
    assert "no token in common in any passage" in words(page(**here, texts="21"))


@pytest.mark.thorough
def test_its_lines_give_the_same_table(table, tmp_path):
    lines = View("what_changed", **{state.TEXTS: TWO}).lines
    assert run_lines(lines, tmp_path)["results"][0].equals(table)


def test_no_text_and_too_many_are_said_beside_the_field():
    assert "no text" in words(page(texts=" \n\n "))
    assert "100,001 characters; this page reads at most 100,000" in words(page(texts="a" * 100_001))
