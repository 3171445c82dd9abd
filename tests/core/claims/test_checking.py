"""Claims tested on real texts: true ones hold and false ones do not, in any order, and as in a run over a corpus."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from core import load_model
from core.claims import checking
from core.claims.checking import ClaimCheck, check_claims
from core.claims.claim import MOST_CLAIMS
from core.claims.shares import COUNTS, SUMS, half_and_group
from core.corpus.opened import open_run
from core.models.passages import Location, Passage, cut
from tests.core.claims.plain import ANNOTATED
from tests.core.claims.test_shares import CLAIMS, bits, sums_of
from tests.core.corpus import made_runs
from tests.core.corpus.plain import passages, reader, settings_of, tallied
from tests.core.tiny_models import WEIGHTS_ONLY, randomised
from tests.depth import thorough
from tests.refusals import refused
from tests.source_files import ROOT

REPEATED = "when the token occurred before, looks at the tokens after its occurrences"
TRUE = (
    "16.0: looks at the previous token, at least 0.6",
    "11.1: looks at the previous token, at least 0.5",
    f"17.3: {REPEATED}, at least 0.3",
    f"17.5: {REPEATED}, at least 0.3",
    f"20.6: {REPEATED}, at least 0.3",
    f"18.6: {REPEATED}, at least 0.3",
    f"any head: {REPEATED}, at least 0.4",
    "18.8: looks at the first token, at least 0.5",
    "1.1: looks at punctuation, at least 0.2",
    "5.6: when the token occurred before, looks at its occurrences, at least 0.3",
)
FALSE = (
    "16.0: looks at the previous token, at least 0.95",
    "16.0: looks at a token at distance 2, at least 0.3",
    f"0.1: {REPEATED}, at least 0.15",
    "11.1: looks at the first token, at least 0.5",
    "17.3: when the token occurred before, looks at its occurrences, at least 0.3",
    "any head: looks at a token at distance 7 to 9, at least 0.5",
    "any head: looks at not itself, at least 1",  # they do, but so does any set of so many keys
)


@pytest.fixture(scope="module")
def documents():
    return [file.read_text(encoding="utf-8")[:4000] for file in sorted((ROOT / "docs").glob("*.md"))]


@thorough
def test_what_is_true_of_smollm_holds_and_what_is_not_does_not(smollm, documents):
    """On pieces of the project's documents, each read twice, as many for looking as for testing."""
    found = {0: [], 1: []}
    for text in documents:
        for piece in cut(Passage(Location("", 1), 0, text), lambda part: len(smollm.tokenizer(part)["input_ids"]), 32):
            twice = f"{piece.text} {piece.text}"
            half = found[half_and_group(twice)[0]]
            if len(half) < 10:
                half.append(twice)
    table = check_claims(smollm, (*TRUE, *FALSE), [*found[0], *found[1]])
    assert table["claim"].tolist() == [*TRUE, *FALSE]
    verdicts = table["verdict"].tolist()
    assert verdicts == ["holds"] * len(TRUE) + ["does not hold"] * len(FALSE), table.to_string()
    assert set(table["passages"]) <= {9, 10}


# --- in whatever way they are tested

LINES = [str(claim) for claim in CLAIMS]


@thorough
def test_the_order_and_the_places_of_the_texts_do_not_matter(minilm, documents):
    texts = [text[:500] for text in documents[:5]]
    lines = [line for line, claim in zip(LINES, CLAIMS, strict=True) if not claim.needs_annotation]
    told = []
    table = check_claims(minilm, lines, texts, max_tokens=32, seed=7, on_progress=told.append)
    pieces = [passage.text for passage in checking.passages_of([minilm], texts, 32)]
    assert told == [*range(1, len(pieces) + 1)]
    assert len(pieces) > 2 * len(texts)
    assert_frame_equal(check_claims(minilm, lines, pieces[::-1], seed=7), table, check_exact=True)
    assert table[["low", "high"]].notna().all(axis=None)


def test_a_tally_of_a_corpus_has_the_same_sums(bert):
    """Of all heads, and of those that it measures."""
    texts = [*passages(6), *ANNOTATED]
    check = ClaimCheck(bert, CLAIMS, texts).finished()
    assert (check.done, check.total, check.share) == (9, 9, 1)
    assert bits(tallied(bert, texts, settings_of(bert, claims=tuple(LINES))).claims) == bits(check.sums)
    some = [(0, 3), (1, 0)]
    part = tallied(bert, texts, settings_of(bert, claims=tuple(LINES), heads=tuple(some))).claims
    assert part.heads.tolist() == [[0, 3], [1, 0]]
    for name in (*COUNTS, *SUMS):
        ours, whole = getattr(part, name), getattr(check.sums, name)
        ours, whole = getattr(ours, "values", ours), getattr(whole, "values", whole)
        np.testing.assert_array_equal(ours, whole if name == "passages" else whole[..., [3, 4]], err_msg=name)


def test_a_run_that_is_opened_has_the_same_verdicts(bert, tmp_path):
    made = made_runs.made_run(tmp_path / "run", bert)
    table = check_claims(bert, made_runs.CLAIMS, made_runs.SENTENCES)
    assert_frame_equal(open_run(made).claims, table, check_exact=True)


def test_threads_and_faults_measure_each_passage_once(bert, monkeypatch):
    texts, add, failed = [*passages(12), *ANNOTATED], checking.add_passage, []

    def fails_once(*given):
        if given[2].text == texts[5].text and not failed:
            failed.append(True)
            raise MemoryError
        add(*given)

    monkeypatch.setattr(checking, "add_passage", fails_once)
    check = ClaimCheck(bert, CLAIMS, texts)
    with pytest.raises(MemoryError):
        check.finished()
    assert check.done == 5
    assert check.table()["claim"].tolist() == LINES
    with ThreadPoolExecutor(4) as threads:
        [*threads.map(lambda _: check.finished(), range(4))]
    assert bits(check.sums) == bits(sums_of(bert, texts))


REFUSED = {
    "no claims": ({"claims": []}, "claims", "no claim to test. Write one"),
    "101 claims": ({"claims": LINES[:1] * (MOST_CLAIMS + 1)}, "claims", "101 claims; at most 100"),
    "no claim": ({"claims": ["0.0 is good"]}, "claim", "is not a claim"),
    "another layer": (
        {"claims": ["2.0: looks at itself, at least 0.1"]},
        "claims",
        r"no head 2\.0; they run from 0\.0 to 1\.3",
    ),
    "relations": ({"claims": LINES[6:7]}, "claims", r"these texts have none\. Test it on a \.conllu file"),
    "no text": ({"texts": [" \n"]}, "text", "There is no text to test on. Write some"),
    "half a character": ({"texts": ["\ud800"]}, "text", "cannot read it"),
    "a sentence too long": ({"texts": ANNOTATED[:1], "max_tokens": 5}, "text", "at most 5 are read"),
    "passages of a token": ({"max_tokens": 1}, "max_tokens", "can have 2 to 512 tokens, not 1"),
    "passages too long": ({"max_tokens": 513}, "max_tokens", "can have 2 to 512 tokens, not 513"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_tested(bert, name):
    changes, field, words = REFUSED[name]
    with refused(field, words):
        check_claims(bert, **{"claims": LINES[:1], "texts": ["the cat"]} | changes)


def test_a_model_that_exposes_only_its_weights():
    model = load_model(randomised(WEIGHTS_ONLY["GPT-J"]()), tokenizer=reader())
    with refused("model", "exposes only its attention weights"):
        check_claims(model, LINES[:1], ["the cat"])
