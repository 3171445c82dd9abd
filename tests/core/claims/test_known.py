"""The claims of the literature, their texts, and what is kept of them for the included models."""

import copy
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from core import check_claims, known_heads
from core.__main__ import command as headlight
from core.claims.__main__ import command
from core.claims.checking import ClaimCheck
from core.claims.claim import Claim, read_claims
from core.claims.known import CLAIMS, by_head, included_texts, known_check, known_claims, measured, published
from core.corpus.reading import read_texts
from core.corpus.settings import RunSettings
from core.models.passages import Passage
from tests.depth import thorough
from tests.refusals import exit_status
from tests.source_files import ROOT


def test_the_annotated_sentences_are_those_that_the_reader_of_corpora_reads():
    read = {one.place: one for one in included_texts() if isinstance(one, Passage)}
    assert len(read) == 320
    for name in ("names.conllu", "sentences.conllu"):
        for one in read_texts(str(ROOT / "core/claims/texts"), name, RunSettings()):
            assert read.pop(one.place) == one
    assert not read


def test_known_claims_have_names_and_sources():
    claims = known_claims()
    assert claims == read_claims(CLAIMS.read_text("utf-8"))
    assert all(claim.head == "any head" and claim.name and claim.source for claim in claims)
    assert len({claim.name for claim in claims}) == len(claims)


@thorough
def test_what_is_kept_for_minilm_is_what_is_measured(minilm):
    """By the claims about sentences: with another version of Python the prose is another, and so are the other numbers."""
    claims = [claim for claim in known_claims() if claim.needs_annotation]
    sentences = [one for one in included_texts() if isinstance(one, Passage) and one.place.file == "sentences.conllu"]
    kept, found = measured(minilm.revision), by_head(ClaimCheck(minilm, claims, sentences).finished().sums)
    assert kept is not None
    assert measured("others") is None
    places = [tuple(map(int, head.split("."))) for head in kept["head"]]
    assert places == sorted(places)
    assert len(set(places)) == 72
    kept, found = (table.set_index(["head", "name"]) for table in (kept, found))
    about_sentences = kept["claim"].str.contains("its io|nsubj|its relation")
    there = kept.index[about_sentences & kept.index.isin(found.index)]
    assert len(there) == 4
    pd.testing.assert_frame_equal(kept.loc[there], found.loc[there], rtol=0, atol=1e-4, check_dtype=False)
    assert {*kept.index[kept["verdict"] == "holds"]} >= {
        *(("0.2", "previous token"), ("1.8", "next token"), ("2.8", "determiner to its noun"))
    }


@thorough
def test_what_each_head_does_is_what_a_claim_about_it_says(minilm):
    """A row for each claim that holds and for the largest share, as though each claim had been made about each head."""
    texts = included_texts()[::12]
    found = by_head(known_check(minilm, texts).finished().sums)
    every = [replace(claim, head=f"{layer}.{head}") for claim in known_claims() for layer, head in ((0, 2), (4, 5))]
    said = check_claims(minilm, every, texts)
    for head, rows in said.groupby("head"):
        holds, known = rows["verdict"] == "holds", rows[(rows["queries"] >= 30) & (rows["passages"] >= 8)]
        expected = rows[holds | (rows.index == known["share"].idxmax())]
        ours = found[found["head"] == head]
        assert [str(replace(Claim.read(line), head=head)) for line in sorted(ours["claim"])] == sorted(
            expected["claim"]
        )
        numbers = ["queries", "passages", "share", "low", "high", "null"]
        by_share = [table.sort_values("share")[numbers].to_numpy(float) for table in (ours, expected)]
        np.testing.assert_allclose(*by_share, atol=1e-12)
        assert ours["verdict"].tolist() == sorted(ours["verdict"], reverse=True)
        above = ours.loc[ours["verdict"] == "holds", "null"] - ours.loc[ours["verdict"] == "holds", "share"]
        assert above.is_monotonic_increasing


def test_without_annotated_texts_relations_are_left_out(minilm):
    found = known_heads(minilm, ["The cat saw the dog."] * 2)
    assert len(found) == sum(not claim.needs_annotation for claim in known_claims())
    assert set(found["verdict"]) == {"cannot be said"}


def test_what_is_published_names_known_claims():
    """The figures of facts that others have printed, whatever the name of the folder or account."""
    found = published("openai-community/gpt2")
    assert {"5.5 .932", "7.2 .833"} <= {*found["induction"].partition(" on ")[0].split(", ")}
    assert set(found) <= {claim.name for claim in known_claims()}
    assert "4-bit" in published("SmolLM2-135M-Instruct")[""]
    assert "are ours" in published("another")[""]


# --- the command


def written(folder, lines):
    """The words that test these claims on 24 texts."""
    text = ROOT.joinpath("docs/corpus.md").read_text("utf-8")
    texts = [json.dumps({"text": text[start : start + 150]}) for start in range(0, 3_600, 150)]
    (folder / "claims.txt").write_text("\n".join(lines), "utf-8-sig")  # as Notepad writes it
    (folder / "texts.jsonl").write_text("\n".join(texts), "utf-8")
    return ["check", str(folder / "claims.txt"), "--data", str(folder / "texts.jsonl")]


@thorough
@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (("0.2: looks at the previous token, at least 0.5", "0.2: looks at the next token, at least 0.5"), 1),
        (('0.2: when the token is one of "zebra", looks at the previous token, at least 0.5',), 2),
        (("0.2: looks at the cat, at least 0.5",), 3),
        (("44.2: looks at itself, at least 0.5",), 3),
    ],
)
def test_the_command_ends_with_what_it_found(lines, status, tmp_path, capsys):
    words = [*written(tmp_path, lines), "--model", "all-MiniLM-L6-v2"]
    assert exit_status(command, *words, "--json", str(tmp_path / "out.json")) == status
    told = capsys.readouterr()
    if status == 3:
        assert "claims: " in told.err
        return
    (rows,) = json.loads((tmp_path / "out.json").read_text("utf-8"))["models"].values()
    assert [row["claim"] for row in rows] == list(lines)
    assert all(f"{line}\n  " in told.out for line in lines)
    assert (rows[0]["chance"] is None) == (status == 2)


@pytest.mark.parametrize(
    "words", ["check claims.txt --model M", "check --data D --model M", "check x --passage-tokens many", "known", "no"]
)
def test_a_command_line_that_cannot_be_read_is_not_a_claim_of_which_nothing_can_be_said(words, capsys):
    for door, more in ((command, ()), (headlight, ("claims",))):
        assert exit_status(door, *more, *words.split()) == 3
        assert "Error: " in capsys.readouterr().err
        assert exit_status(door, *more, "check", "--help") == 0
        assert "3 for bad input" in " ".join(capsys.readouterr().out.split())


@pytest.fixture(scope="module")
def copies(minilm, tmp_path_factory):
    """MiniLM in a folder, and a copy of it in which head 0.2 asks for nothing: it attends to all tokens alike."""
    folder = tmp_path_factory.mktemp("copies")
    network = copy.deepcopy(minilm.network)
    attention = network.encoder.layer[0].attention.self
    for name in ("model", "without/model"):
        network.save_pretrained(folder / name)
        minilm.tokenizer.save_pretrained(folder / name)
        with torch.no_grad():
            attention.query.weight[64:96] = attention.query.bias[64:96] = 0
    return str(folder / "model"), str(folder / "without/model")


@thorough
def test_two_models_stand_side_by_side(copies, tmp_path, capsys):
    """As for a copy that is fine-tuned or rounded; each of them has the verdicts that it has alone."""
    lines = ("0.2: looks at the previous token, at least 0.5", "1.8: looks at the next token, at least 0.4")
    words, out = written(tmp_path, lines), tmp_path / "out.json"

    def status(model, *more):
        return exit_status(command, *words, "--model", model, "--json", str(out), *more)

    whole, without = copies
    alone = {}
    for model, expected in ((whole, 0), (without, 1)):
        assert status(model) == expected
        alone |= json.loads(out.read_text("utf-8"))["models"]
    assert status(whole, "--other-model", without) == 1
    assert json.loads(out.read_text("utf-8"))["models"] == alone
    assert [[row["verdict"] for row in alone[model]] for model in copies] == [["holds"] * 2, ["does not hold", "holds"]]
    told = capsys.readouterr().out
    assert f"{lines[0]}\n  {whole}: Holds: 0.2 gives" in told
    assert f"  {without}: Does not hold: 0.2 gives" in told
    assert status(whole, "--other-model", str(tmp_path / "written-dates")) == 3
    assert f"model: {tmp_path / 'written-dates'}: " in capsys.readouterr().err
