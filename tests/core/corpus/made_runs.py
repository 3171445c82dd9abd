"""Finished runs over a few sentences, made without a cluster: what a page and its tests open."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import fs

from core import Model, capture
from core.capturing.weights_only import attention_weights
from core.corpus.about import About
from core.corpus.columns import MAP, MAP_METADATA
from core.corpus.opened import open_run
from core.corpus.settings import RunSettings
from core.corpus.storing import tables, write
from core.corpus.tally import ModelHeads, Tally
from core.corpus.texts import Location, Passage, Problem, Relation
from core.models.tokens import token_texts

FILE = "sentences <b>.txt"
SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "The cat saw the dog, and the dog saw the cat.",
    "In 1987 <b>Ada</b> wrote $x$ *twice*; nobody minded.",
    "A letter came, then another letter, then a letter that nobody had written.",
    "Rain falls.",
)
# Words of the second sentence and what joins them: cat <- saw, dog <- saw.
WORDS, RELATIONS = ((0, 3), (4, 7), (8, 11), (12, 15), (16, 19)), (Relation(1, 2, "nsubj"), Relation(4, 2, "obj"))
TOKENS, SAMPLE, STRONGEST = 64, 40, 12
CLUSTERS = ("Mostly the previous token (90%)", "No single habit")  # the second has twice as many heads


def made_run(
    folder: Path, model: Model, *, sentences: tuple[str, ...] = SENTENCES, heads: tuple[tuple[int, int], ...] = ()
) -> Path:
    """The folder, with a run over these sentences in it; heads: those that are looked at, all where none is named."""
    read = capture if model.captures else attention_weights
    passages = [Passage(Location(FILE, row), 0, text) for row, text in enumerate(sentences, 1)]
    if len(passages) > 1 and model.captures:
        one = passages[1]
        passages[1] = Passage(one.place, 0, one.text, WORDS, RELATIONS)
    taken = [read(model, passage.text) for passage in passages]
    every = tuple((layer, head) for layer in range(taken[0].layers()) for head in range(taken[0].heads()))
    settings = RunSettings(by="line", passage_tokens=TOKENS, strongest=STRONGEST, sample=SAMPLE, dtype=model.dtype)
    shape = taken[0].layers(), taken[0].heads()
    tally = Tally(settings, ModelHeads(taken[0].kinds[0], heads or every, *shape, model.revision))
    for passage, one in zip(passages, taken, strict=True):
        tally.add(passage, one)
    tally.note([Problem(Location("broken.txt", 3), "This is not UTF-8.")])
    about = About.of(
        tally,
        model,
        data=f"somewhere/{FILE}",
        files=1,
        corpus="0" * 16,
        versions={"headlight": "0.1.0"},
        seconds=1.0,
    )
    tokens_of = {
        passage.id: token_texts(model.tokenizer, one.input_ids) for passage, one in zip(passages, taken, strict=True)
    }
    folder.mkdir(parents=True)
    for name, table in tables(tally, tokens_of):
        write(table, fs.LocalFileSystem(), str(folder / f"{name}.parquet"), about)
    return folder


def add_map(folder: Path) -> None:
    """A map of the heads of a run, on which the even ones lie to the left, and those next to a head are like it."""
    run = open_run(folder)
    heads, about = run.heads, run.about
    count = len(heads)
    places = np.arange(count)
    layer, head = np.array(heads).T
    alike = [[int((place + step) % count) for step in (1, 2, 3)] for place in places]
    columns = {
        "layer": layer,
        "head": head,
        "x": places % 2 + places / 100,
        "y": places / 10,
        "cluster": np.minimum(places % 3, 1),
    }
    said = {"clusters": CLUSTERS, "trustworthiness": 0.9, "silhouette": 0.2, "neighbours": 3}
    table = pa.table({**columns, "alike": alike}).replace_schema_metadata({MAP_METADATA: json.dumps(said)})
    write(table, fs.LocalFileSystem(), str(folder / f"{MAP}.parquet"), about)
