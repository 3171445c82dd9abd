"""The model that comes along: what its card says, measured anew on a sample, and its attention against transformers' own."""

import copy
import math
import re
from random import Random

import numpy as np
import pytest
import torch

from core import Model, capture, load_model
from core.models.tokens import token_texts
from core.models.words import word_starts, word_texts
from tools.training.__main__ import OUT, held_out_dates
from tools.training.dates import DIGITS, HELD_OUT, KNOWN, WrittenDate, draw, split
from tools.training.measuring import alignment, right
from ui.views.sources.heads import opening_head

CARD = (OUT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model("written-dates")


@pytest.fixture(scope="module")
def sample() -> list[WrittenDate]:
    """Held-out dates in known forms, others than those of the card."""
    random = Random("a sample")
    return [draw(random, split()[1], KNOWN) for _ in range(300)]


def row(name: str) -> list[float]:
    """The numbers of a row of the card's tables, shares from 0 to 1."""
    found = re.search(rf"^\| {re.escape(name)} \|(.+)\|$", CARD, re.MULTILINE)
    assert found is not None, name
    cells = [cell.strip() for cell in found[1].split("|")]
    return [float(cell.rstrip("%").replace(",", "")) / (100 if "%" in cell else 1) for cell in cells if cell]


def within_error(measured: float, of: int, said: float) -> bool:
    """Whether a share of so many differs from what is said by no more than chance lets it: four standard errors, and one."""
    return abs(measured - said) <= 4 * math.sqrt(said * (1 - said) / of) + 1 / of


def test_the_files_are_small_and_the_card_names_them(model: Model) -> None:
    assert sum(file.stat().st_size for file in OUT.iterdir()) < 4_000_000
    assert model.revision.removeprefix("sha256 ") in CARD
    assert model.size is not None
    assert f"{sum(weight.numel() for weight in model.network.parameters()):,}" in CARD


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("the 3rd of march 1987", "1987-03-03"),
        ("Sat 21 Nov 2026", "2026-11-21"),
        ("21.11.26", "2026-11-21"),
        ("3/3/1987", "1987-03-03"),
        ("March 3rd, 1987", "1987-03-03"),
    ],
)
def test_it_writes_the_dates_that_it_is_shown_with(model: Model, text: str, answer: str) -> None:
    generated = model.network.generate(**model.tokenizer(text, return_tensors="pt"))
    assert model.tokenizer.decode(generated[0]) == f"<s>{answer}</s>"
    assert model.tokenizer.decode(generated[0], skip_special_tokens=True) == answer


def test_held_out_dates_in_known_forms_are_right(model: Model, sample: list[WrittenDate]) -> None:
    good = np.mean(right(model.network, model.tokenizer, sample))
    assert good >= 0.99
    dates, said = row("known forms")
    assert dates == 250 * len(KNOWN)
    assert within_error(float(good), len(sample), said)


def test_held_out_forms_are_as_right_as_the_card_says(model: Model) -> None:
    fewer = held_out_dates(HELD_OUT, each=40)
    good = np.mean(right(model.network, model.tokenizer, fewer))
    assert within_error(float(good), len(fewer), row("forms held out")[1])


def test_weights_are_those_of_transformers_in_every_layer_head_and_kind(model: Model) -> None:
    passed = capture(model, "the 3rd of march 1987", target="1987-03-03")
    network = copy.deepcopy(model.network)
    network.set_attn_implementation("eager")
    with torch.inference_mode():
        theirs = network(
            input_ids=torch.tensor([passed.input_ids]),
            decoder_input_ids=torch.tensor([passed.target_ids]),
            output_attentions=True,
        )
    by_kind = {
        "encoder": theirs.encoder_attentions,
        "decoder": theirs.decoder_attentions,
        "cross": theirs.cross_attentions,
    }
    assert set(passed.kinds) == set(by_kind)
    for kind, layers in by_kind.items():
        assert (passed.layers(kind), passed.heads(kind)) == (len(layers), 4)
        for layer, weights in enumerate(layers):
            for head in range(4):
                trace = passed.trace(layer, head, kind=kind)
                assert np.abs(trace.weights - weights[0, head].numpy()).max() < 2e-5
                assert trace.scale == pytest.approx(1 / math.sqrt(32))


def test_the_row_that_predicts_a_digit_looks_where_it_comes_from(model: Model, sample: list[WrittenDate]) -> None:
    """The share of the best head, summed here by hand over captured traces, is what is measured and what the card says."""
    fewer = sample[:25]
    measured = alignment(model.network, model.tokenizer, fewer)
    layer, head = opening_head("written-dates")
    shares, uniform = [], []
    for one in fewer:
        passed = capture(model, one.text, target=one.answer)
        rows, keys = passed.tokens("cross")
        assert rows == ("<s>", *one.answer)
        weights = passed.trace(layer, head, kind="cross").weights
        spans = [one.spans[place] for place in DIGITS]
        shares.append([weights[place, slice(*span)].sum() for place, span in zip(DIGITS, spans, strict=True)])
        uniform.append([(stop - start) / len(keys) for start, stop in spans])
    np.testing.assert_allclose(measured.share[layer, head], np.mean(shares, 0), atol=1e-5)
    np.testing.assert_allclose(measured.uniform, np.mean(uniform, 0), atol=1e-5)
    assert f"Best is head {layer}.{head} " in CARD
    by_date = np.mean(shares, 1)
    said = row(f"{layer}.{head}")[0]
    assert abs(by_date.mean() - said) <= 4 * by_date.std() / math.sqrt(len(fewer)) + 0.001
    assert said > 0.6 > 3 * row("uniform")[0]


def test_characters_are_tokens_and_words_can_be_told(model: Model) -> None:
    tokens = token_texts(model.tokenizer, model.tokenizer("3 March")["input_ids"])
    assert tokens == ("3", " ", "M", "a", "r", "c", "h", "</s>")
    starts = word_starts(model.tokenizer, model.tokenizer("3 March")["input_ids"])
    assert word_texts(tokens, starts) == ("3", " March", "</s>")
    assert token_texts(model.tokenizer, model.tokenizer("é")["input_ids"]) == ("<unk>", "</s>")
