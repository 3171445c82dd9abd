"""The claims of the literature, their texts, and what is kept of them for the included models."""

import json

import pandas as pd
import pytest

from core import known_heads
from core.claims.__main__ import main
from core.claims.claim import read_claims
from core.claims.known import CLAIMS, included_texts, known_claims, measured, published
from core.corpus.reading import read_texts
from core.corpus.settings import RunSettings
from core.models.passages import Passage
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


def test_what_is_kept_for_minilm_is_what_is_measured(minilm):
    """With another version of Python the prose is another, and so are the numbers of the claims about it."""
    kept, found = measured(minilm.revision), known_heads(minilm)
    assert kept is not None
    assert kept["name"].tolist() == found["name"].tolist()
    about_sentences = kept["claim"].str.contains("its io|nsubj|its relation")
    assert about_sentences.sum() == 4
    pd.testing.assert_frame_equal(kept[about_sentences], found[about_sentences], rtol=1e-4, check_dtype=False)
    holds = found.set_index("name")["verdict"]
    assert holds[["previous token", "next token", "special tokens", "determiner to its noun"]].eq("holds").all()
    assert measured("others") is None


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


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (("0.2: looks at the previous token, at least 0.5",), 0),
        (("0.2: looks at the previous token, at least 0.5", "0.2: looks at the next token, at least 0.5"), 1),
        (('0.2: when the token is one of "zebra", looks at the previous token, at least 0.5',), 2),
        (("0.2: looks at the cat, at least 0.5",), 3),
        (("44.2: looks at itself, at least 0.5",), 3),
    ],
)
def test_the_command_ends_with_what_it_found(lines, status, tmp_path, capsys):
    (tmp_path / "claims.txt").write_text("\n".join(lines), "utf-8")
    texts = [ROOT.joinpath("docs/corpus.md").read_text("utf-8")[start : start + 400] for start in range(0, 12_000, 400)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    words = [
        "check",
        str(tmp_path / "claims.txt"),
        "--model",
        "all-MiniLM-L6-v2",
        "--data",
        str(tmp_path / "texts.jsonl"),
    ]
    assert main([*words, "--json", str(tmp_path / "out.json")]) == status
    told = capsys.readouterr()
    if status == 3:
        assert "claims: " in told.err
        return
    (rows,) = json.loads((tmp_path / "out.json").read_text("utf-8"))["models"].values()
    assert [row["claim"] for row in rows] == list(lines)
    assert all(f"{line}\n  " in told.out for line in lines)
    assert (rows[0]["chance"] is None) == (status == 2)
