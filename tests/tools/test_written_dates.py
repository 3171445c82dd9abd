"""The model that comes along: its card, measured anew, its attention against transformers' own, and its training."""

import math
import re
from datetime import date, datetime
from itertools import islice
from random import Random

import numpy as np
import pytest
import torch
from num2words import num2words

from core import capture, load_model
from core.models.tokens import token_texts
from core.models.words import word_starts, word_texts
from tests.core.passes import eager_layers, every_head
from tests.core.tiny_models import eager
from tools.training.__main__ import OUT, held_out_dates
from tools.training.batches import BATCH, batches
from tools.training.dates import DIGITS, HELD_OUT, KNOWN, draw, split, write
from tools.training.measuring import alignment, right
from tools.training.network import make_tokenizer
from ui.views.sources.heads import opening_head

CARD = (OUT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def model():
    return load_model("written-dates")


@pytest.fixture(scope="module")
def sample():
    """Held-out dates in known forms, others than those of the card."""
    random = Random("a sample")
    return [draw(random, split()[1], KNOWN) for _ in range(300)]


def row(name):
    """The numbers of a row of the card's tables, shares from 0 to 1."""
    found = re.search(rf"^\| {re.escape(name)} \|(.+)\|$", CARD, re.MULTILINE)
    assert found is not None, name
    cells = [cell.strip() for cell in found[1].split("|")]
    return [float(cell.rstrip("%").replace(",", "")) / (100 if "%" in cell else 1) for cell in cells if cell]


def within_error(measured, of, said):
    """Whether a share of so many differs from what is said by no more than chance lets it: four standard errors, and one."""
    return abs(measured - said) <= 4 * math.sqrt(said * (1 - said) / of) + 1 / of


def test_the_files_are_small_and_the_card_names_them(model):
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
def test_it_writes_the_dates_that_it_is_shown_with(model, text, answer):
    generated = model.network.generate(**model.tokenizer(text, return_tensors="pt"))
    assert model.tokenizer.decode(generated[0], skip_special_tokens=True) == answer


def test_held_out_dates_and_forms_are_as_right_as_the_card_says(model, sample):
    assert row("known forms")[0] == 250 * len(KNOWN)
    for dates, name in ((sample, "known forms"), (held_out_dates(HELD_OUT, each=40), "forms held out")):
        good = float(np.mean(right(model.network, model.tokenizer, dates)))
        assert within_error(good, len(dates), row(name)[1]), name
        assert good >= 0.99 or name == "forms held out"


def test_weights_are_those_of_transformers_in_every_layer_head_and_kind(model):
    passed = capture(model, "the 3rd of march 1987", target="1987-03-03")
    ids, target = torch.tensor([passed.input_ids]), torch.tensor([passed.target_ids])
    theirs = eager(model.network, input_ids=ids, decoder_input_ids=target)
    assert set(passed.kinds) == {"encoder", "decoder", "cross"}
    for layer, head, kind in every_head(passed):
        trace = passed.trace(layer, head, kind)
        assert np.abs(trace.weights - eager_layers(theirs, kind)[layer][0, head].numpy()).max() < 2e-5
        assert trace.scale == pytest.approx(1 / math.sqrt(32))


def test_the_row_that_predicts_a_digit_looks_where_it_comes_from(model, sample):
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


def test_characters_are_tokens_and_words_can_be_told(model):
    tokens = token_texts(model.tokenizer, model.tokenizer("3 March")["input_ids"])
    assert tokens == ("3", " ", "M", "a", "r", "c", "h", "</s>")
    ids = model.tokenizer("3 March")["input_ids"]
    assert word_texts(model.tokenizer, ids, word_starts(model.tokenizer, ids)) == ("3", " March", "</s>")
    assert token_texts(model.tokenizer, model.tokenizer("é")["input_ids"]) == ("<unk>", "</s>")


ORDINALS = [num2words(number, to="ordinal") for number in range(1, 32)]
PATTERNS = {"yyyy": "%Y", "yy": "%y", "mm": "%m", "m": "%m", "mon": "%b", "month": "%B", "wkd": "%a", "weekday": "%A"}
PATTERNS |= dict.fromkeys(("d", "dd", "dth", "ordinal"), "%d")


def tidy(text):
    return " ".join(text.lower().replace(",", " ").split())


def read(text, form):
    """What strptime makes of it, after ordinals have become numbers and stray commas and blanks are gone."""
    pattern = re.sub(r"\{(\w+)\}", lambda field: PATTERNS[field[1]], tidy(form))
    text = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", tidy(text))
    text = re.sub(r"[a-z]+(-[a-z]+)?", lambda word: number(word[0]), text)
    return datetime.strptime(text, pattern).date()


def number(word):
    return str(ORDINALS.index(word) + 1) if word in ORDINALS else word


@pytest.mark.parametrize("form", [*KNOWN, *HELD_OUT])
def test_every_form_is_read_as_the_day_that_was_written(form):
    random, (dates, _) = Random(form), split()
    for _ in range(100):
        drawn = draw(random, dates, [form])
        day = read(drawn.text, form)
        assert day.isoformat() == drawn.answer, drawn.text
        if "w" in form:
            assert f"{day:%a}".lower() == drawn.text.strip()[:3].lower()
        assert len(drawn.text) <= 63
        digits = [drawn.text[slice(*span)] for span in drawn.spans if span]
        if "{yyyy}" in form:
            assert "".join(digits[:4]) == drawn.answer[:4]
        if "{month}" in form:
            assert digits[4].lower() == digits[5].lower() == f"{day:%B}".lower()


@pytest.mark.parametrize(
    ("form", "text", "parts"),
    [
        ("{yyyy}-{mm}-{dd}", "1987-03-21", "1 9 8 7 0 3 2 1"),
        ("{dd}.{mm}.{yy}", "21.03.87", "87 87 8 7 0 3 2 1"),
        ("the {ordinal} of {month}, {yyyy}", "the twenty-first of March, 1987", "1 9 8 7 March March twenty first"),
        ("{d}/{m}/{yyyy}", "21/3/1987", "1 9 8 7 3 3 2 1"),
    ],
)
def test_each_digit_comes_from_its_characters(form, text, parts):
    made = write(date(1987, 3, 21), form)
    assert made.text == text
    assert [made.text[slice(*made.spans[place])] for place in DIGITS] == parts.split()
    assert made.spans[4] is made.spans[7] is None


def test_the_second_of_two_digits_alike_is_told_from_the_first():
    year = write(date(2011, 1, 1), "{dth} of {month}, {yyyy}").spans[:4]
    assert year == ((16, 17), (17, 18), (18, 19), (19, 20))


def test_no_date_or_form_is_on_both_sides():
    training, held_out = split()
    assert len(training) + len(held_out) == (date(2200, 1, 1) - date(1600, 1, 1)).days
    assert not set(training) & set(held_out)
    assert len(held_out) == pytest.approx(0.1 * len(training + held_out), abs=1)
    assert not set(KNOWN) & set(HELD_OUT)


def test_a_held_out_date_is_never_learned_from():
    tokenizer, (known, held_out) = make_tokenizer(), split()
    seen = [text for batch in islice(batches(tokenizer, 0), 16) for text in tokenizer.batch_decode(batch.wanted)]
    assert len(seen) == 16 * BATCH
    days = {text.removesuffix("</s>") for text in seen}
    assert days <= {day.isoformat() for day in known}
    assert not days & {day.isoformat() for day in held_out}


def test_the_decoder_is_given_what_comes_before_the_character_that_it_shall_write():
    tokenizer = make_tokenizer()
    batch = next(batches(tokenizer, 0))
    given, wanted = (tokenizer.batch_decode(ids) for ids in (batch.decoder_input_ids, batch.wanted))
    assert given[0] == f"<s>{wanted[0].removesuffix('</s>')}"
    assert batch.attention_mask.sum(-1).tolist() == (batch.input_ids != tokenizer.pad_token_id).sum(-1).tolist()
