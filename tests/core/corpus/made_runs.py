"""Finished runs over a few sentences, made without a cluster: what a page and its tests open."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import fs

from core import Model
from core.corpus.opened import open_run
from core.corpus.settings import RunSettings
from core.corpus.steps import heads_of, take
from core.corpus.tables import MAP, MAP_METADATA, About, tables, write
from core.corpus.tally import Tally
from core.models.passages import Location, Passage, Problem, Relation
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
CLAIMS = ("any head: looks at the previous token, at least 0.5", "any head: looks at punctuation, at least 0.2")
TOKENS, SAMPLE, STRONGEST = 64, 40, 12
CLUSTERS = ("Previous token 90% (others 10%)", "Entropy, share 80% (others 30%)")  # the second has twice as many heads


def made_run(
    folder: Path,
    model: Model,
    *,
    sentences: tuple[str, ...] = SENTENCES,
    heads: tuple[tuple[int, int], ...] = (),
    claims: tuple[str, ...] = CLAIMS,
) -> Path:
    """The folder, with a run over these sentences in it; heads: those that are looked at, all where none is named."""
    passages = [Passage(Location(FILE, row), 0, text) for row, text in enumerate(sentences, 1)]
    if sentences[1:2] == SENTENCES[1:2] and model.captures:
        passages[1] = replace(passages[1], words=WORDS, relations=RELATIONS)
    settings = RunSettings(by="line", heads=heads or None, passage_tokens=TOKENS, strongest=STRONGEST, sample=SAMPLE)
    settings = replace(settings, claims=claims if model.captures else ())
    tally, tokens_of = Tally(replace(settings, dtype=model.dtype), heads_of(settings, model)), {}
    for passage in passages:
        one = take(model, passage.text, TOKENS)
        tally.add(passage, one)
        tokens_of[passage.id] = token_texts(model.tokenizer, one.input_ids)
    tally.note([Problem(Location("broken.txt", 3), "This is not UTF-8.")])
    said = {"files": 1, "corpus": "0" * 16, "versions": {"headlight": "0.1.0"}, "seconds": 1.0}
    about = About.of(tally, model, data=f"somewhere/{FILE}", **said)
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
    columns = {"layer": layer, "head": head, "x": places % 2 + places / 100, "y": places / 10}
    columns |= {"cluster": np.minimum(places % 3, 1), "alike": alike}
    said = {"clusters": CLUSTERS, "trustworthiness": 0.9, "silhouette": 0.2, "neighbours": 3}
    table = pa.table(columns).replace_schema_metadata({MAP_METADATA: json.dumps(said)})
    write(table, fs.LocalFileSystem(), str(folder / f"{MAP}.parquet"), about)
