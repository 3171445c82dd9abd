"""A small corpus, a tokenizer that makes tokens of all classes of it, what heads do in it by a plain loop, and a job over it.

The loop knows nothing of the tally: weights are those of transformers' own eager code, the rest is NumPy by the definitions.
"""

import random
from dataclasses import dataclass, fields

import numpy as np
import torch
import transformers as t
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from core.corpus import steps
from core.corpus.settings import Job, RunSettings, versions_that_count
from core.corpus.tables import About
from core.corpus.tally import ModelHeads, Tally
from core.models.loading import model_revision
from core.models.passages import Location, Passage
from tests.core.heads.plain import numbers
from tests.core.tiny_models import eager

WORDS = ["the", "cat", "saw", "dog", "barks", "and", "old", "tree", "house", "river", "moon", "walk"]
PARTS = ["##s", "##ed", "##ing", "##er"]
MARKS, NUMBERS = [".", ",", "?"], ["7", "42", "1999"]
VOCABULARY = ["[UNK]", "[CLS]", "[SEP]", *WORDS, *PARTS, *MARKS, *NUMBERS]


def reader() -> t.PreTrainedTokenizerFast:
    """WordPiece over VOCABULARY, with [CLS] and [SEP] around a text."""
    pieces = Tokenizer(WordPiece({piece: number for number, piece in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    pieces.pre_tokenizer = BertPreTokenizer()
    pieces.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return t.PreTrainedTokenizerFast(
        tokenizer_object=pieces, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[UNK]"
    )


def passages(count: int, longest: int = 24) -> list[Passage]:
    """The same ones every time, of 1 to `longest` words, numbers and marks."""
    chance = random.Random(count)
    found = []
    for row in range(1, count + 1):
        units = [
            chance.choice(WORDS) + chance.choice(["", "", "s", "ed"])
            if chance.random() < 0.75
            else chance.choice(MARKS + NUMBERS)
            for _ in range(chance.randint(1, longest))
        ]
        found.append(Passage(Location(f"{row % 3}.txt", row), 7 * row, " ".join(units)))
    return found


def settings_of(model, **others) -> RunSettings:
    """Settings that name the heads: all, unless others are given."""
    config = model.network.config
    heads = [(layer, head) for layer in range(config.num_hidden_layers) for head in range(config.num_attention_heads)]
    return RunSettings(**{"heads": tuple(heads), "passage_tokens": 64, "strongest": 5, "sample": 20, **others})


def job_of(model: str, folder: str = ".", **changes) -> Job:
    """changes: of fields of the job or of its settings"""
    facts = {"revision": model_revision(model), "versions": versions_that_count()}
    of_settings = {field.name for field in fields(RunSettings)} & changes.keys()
    settings = RunSettings(**{name: changes.pop(name) for name in of_settings})
    return Job(model=model, folder=folder, settings=settings, **facts | changes)


def about(**others) -> About:
    """The record of a run of `empty_tally`."""
    said = {"model": "m", "revision": "r", "dtype": "float32", "device": "cpu", "captures": True, "kind": "self"}
    said |= {"layers": 2, "heads": 4, "wanted": 8, "data": "d", "column": "text", "by": "document", "files": 1}
    said |= {"passages": 2, "tokens": 30, "corpus": "0" * 16, "unread": 0, "limit": None, "passage_tokens": 64}
    said |= {"strongest": 5, "sample": 20, "examples_of": ("next", "entropy"), "versions": {"torch": "2"}}
    return About(**said | {"seconds": 1.5} | others)


def empty_tally(settings, layers: int = 2, per_layer: int = 4) -> Tally:
    """A tally of the heads that the settings name."""
    return Tally(settings, ModelHeads("self", settings.heads, layers, per_layer, ""))


def take(model, passage):
    """Read a passage as a run does."""
    return steps.take(model, passage.text, 512)


def tallied(model, texts, settings) -> Tally:
    tally = empty_tally(settings)
    for passage in texts:
        tally.add(passage, take(model, passage))
    return tally


@dataclass
class Query:
    """What all heads do at one query of a passage: weights [heads, keys], numbers by metric [heads]."""

    passage: Passage
    place: int
    draw: int
    of: str  # its class
    keys: list[str]  # their classes
    weights: np.ndarray
    even: np.ndarray  # [keys] what even attention would give
    numbers: dict[str, np.ndarray]


def queries_of(model, texts, *, causal: bool) -> list[Query]:
    """Every query of some passages."""
    tokenizer, found = model.tokenizer, []
    for passage in texts:
        ids = tokenizer(passage.text)["input_ids"]
        with torch.inference_mode():
            layers = eager(model.network, input_ids=torch.tensor([ids])).attentions
        weights = torch.cat(layers, dim=1)[0].numpy().astype(np.float64)  # [heads, queries, keys]
        tokens = tokenizer.convert_ids_to_tokens(ids)
        classes = [class_of(token) for token in tokens]
        for query in range(len(ids)):
            allowed = np.arange(len(ids)) <= (query if causal else len(ids))
            rows = weights[:, query]
            draw, even = splitmix(passage.id, query), allowed / allowed.sum()
            measured = numbers(rows, query, ids, classes, allowed)
            found.append(Query(passage, query, draw, classes[query], classes, rows, even, measured))
    return found


def class_of(token: str) -> str:
    if token.startswith("["):
        return "special"
    if token.startswith("##"):
        return "word part"
    return "punctuation" if token in MARKS else "number" if token in NUMBERS else "word"


def splitmix(seed: int, place: int) -> int:
    """The number after `place` others of the generator splitmix64, as its authors wrote it down."""
    whole = (1 << 64) - 1
    z = (seed + (place + 1) * 0x9E3779B97F4A7C15) & whole
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & whole
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & whole
    return z ^ (z >> 31)
