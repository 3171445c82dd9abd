"""The steps of a run, which are the same with Ray and without: reading files, measuring passages, and making the tables.

Nothing here knows Ray. To and from the workers of a cluster everything travels as numbers and JSON, since a row of Ray Data is
a row of an Arrow table.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from pyarrow import fs

from ..capturing.capture import Capture, capture, not_captured
from ..capturing.weights_only import attention_weights
from ..errors import InputError
from ..heads.quantities import Pass
from ..installed import versions
from ..models.inputs import all_inputs
from ..models.loading import load_model, load_outline
from ..models.model import Model
from ..models.passages import Passage, PassageByPassage, Problem, counter, cut, faults_of_a_text, text_hash
from ..models.tokens import token_texts
from ..progress import OnProgress, stop_point
from ..threads import one_thread
from .folder import RunFolder, read_passage, save_part
from .reading import open_folder, read_texts
from .settings import Job, RunSettings, versions_that_count
from .tables import LAST, MAP, About, tables
from .tally import ModelHeads, Tally, first_of, tally_bytes

COUNTED = 4096  # passages and problems that are handed on together
# What is known of each passage before it is measured; the hash is that of its text.
CENSUS = np.dtype([("id", np.uint64), ("tokens", np.uint64), ("hash", np.uint64)])
Row = dict[str, Any]

# A model is loaded once a process, whichever of the steps below asks for it.
_outline = lru_cache(maxsize=1)(load_outline)


def passages_of(names: Sequence[str], job: Job, model: Model) -> Iterator[Passage | Problem]:
    """The passages of some files, in their order. model: may come without its weights (`load_outline`)"""
    count = counter(model)
    for name in names:
        for text in read_texts(job.folder, name, job.settings):
            if isinstance(text, Problem):
                yield text
            else:
                yield from cut(text, count, job.settings.passage_tokens)


def count_passages(row: Row, job: Job) -> Iterator[Row]:
    """The passages of some files (names as JSON in "item"): their rows of the census as bytes, and problems."""
    model = _outline(job.model)
    count = counter(model)
    found = passages_of(json.loads(row["item"]), job, model)
    counted = (each if isinstance(each, Problem) else census_row(each, count) for each in found)
    while batch := list(islice(counted, COUNTED)):
        rows = [each for each in batch if not isinstance(each, Problem)]
        problems = [asdict(each) for each in batch if isinstance(each, Problem)]
        yield {"census": np.array(rows, CENSUS).tobytes(), "problems": json.dumps(problems)}


def census_row(passage: Passage, count: Callable[[str], int]) -> tuple[int, int, int]:
    """A passage as a row of CENSUS. count: as in `cut`"""
    return passage.id, count(passage.text), text_hash(passage.text)


def limited(census: NDArray[np.void], most: int | None) -> NDArray[np.void]:
    """The first passages of a sorted census, at most this many tokens (None: all). Ids are as good as random draws."""
    stop = None if most is None else int(np.searchsorted(census["tokens"].cumsum(), most, side="right"))
    return census[:stop]


def corpus_hash(census: NDArray[np.void]) -> str:
    """A hash of all passages: where they stand and what they say."""
    return hashlib.blake2b(np.stack([census["id"], census["hash"]]).tobytes(), digest_size=16).hexdigest()


def read_shards(row: Row, job: Job, wanted: NDArray[np.uint64], most: int) -> Iterator[Row]:
    """The wanted passages of some files, by their sorted ids: `most` of them in each row, as JSON in "shard"."""

    def is_wanted(passage: Passage) -> bool:
        place = int(np.searchsorted(wanted, np.uint64(passage.id)))
        return place < len(wanted) and int(wanted[place]) == passage.id

    every = passages_of(json.loads(row["item"]), job, _outline(job.model))
    passages = (passage for passage in every if isinstance(passage, Passage) and is_wanted(passage))
    while shard := list(islice(passages, most)):
        yield {"shard": json.dumps([asdict(passage) for passage in shard])}


class Measurer:
    """Holds a model, and makes of each shard a tally, which it leaves as a file in `folder`.

    threads  with how many it computes; the same number gives the same last bits
    """

    def __init__(self, job: Job, folder: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self._job, self._failure = job, None
        try:
            self._system, self._folder = open_folder(folder)
            self._check_machine()
            job.settings.require_metrics()
            self._model = load_model(job.model, dtype=job.settings.dtype, device=job.settings.device)
            require_weights(self._model, self._job.revision)
            self._heads = heads_of(job.settings, self._model)
        except InputError as error:
            self._failure = _failed(str(error), error.field)
        except OSError as error:
            self._failure = _failed(f"A worker cannot use {folder!r}: {error}.", "out")

    def _check_machine(self) -> None:
        """Other versions on another machine give other last bits, or do not load the model."""
        if self._system.get_file_info(self._folder).type != fs.FileType.Directory:
            why = f"A worker does not see the folder {self._folder!r}."
            advice = "It has to be one that all machines share, or an address of object storage."
            raise InputError(f"{why} {advice}", field="out")
        require_versions(self._job.versions)

    def __call__(self, rows: Row) -> Row:
        """A batch of one row, {"shard": [JSON]}, to {"failed", "tokens"}; failed: the arguments of an InputError as JSON."""
        if self._failure is not None:
            return self._failure
        tally = Tally(self._job.settings, self._heads)
        measure(map(read_passage, json.loads(rows["shard"][0])), self._model, tally)
        try:
            save_part(tally, self._system, self._folder)
        except OSError as error:
            return _failed(f"A result could not be written: {error}. Make room and start again: it continues.", "out")
        return {"failed": [""], "tokens": [tally.tokens_read]}


def require_versions(wanted: Mapping[str, str]) -> None:
    """Raise InputError (field "address") where this machine has others than the run was started with."""
    here = versions_that_count()
    if other := next((name for name in wanted if wanted[name] != here.get(name)), None):
        why = f"A worker has {other} {here.get(other)}, and the run was started with {wanted[other]}."
        raise InputError(f"{why} All machines need the same versions.", field="address")


def require_weights(model: Model, revision: str) -> None:
    """Raise InputError (field "model") for others: a name or folder may stand for other weights on another machine."""
    if model.revision != revision:
        other = f"other weights of {model.name} ({model.revision})"
        why = f"A worker has {other} than where the run was started ({revision}). All machines need the same."
        raise InputError(why, field="model")


def _failed(message: str, field: str) -> Row:
    return {"failed": [json.dumps({"message": message, "field": field})], "tokens": [0]}


def measure(passages: Iterable[Passage], model: Model, tally: Tally) -> None:
    """Add some passages to a tally. Those on which the model fails are counted and listed."""
    most = tally.settings.passage_tokens
    for passage in passages:
        try:
            with faults_of_a_text(model.name, lambda: take(model, "a", most)):
                taken = take(model, passage.text, most)
            tally.add(passage, taken)
        except InputError as error:
            tally.fail(passage, str(error))


def take(model: Model, text: str, most: int) -> Pass:
    """One pass over a text of at most `most` tokens: all that the model exposes."""
    read = capture if model.captures else attention_weights
    return read(model, text, max_tokens=most)


def heads_of(settings: RunSettings, model: Model) -> ModelHeads:
    """The heads of this model that are measured. Raises InputError (field "heads") for heads that it does not have."""
    taken = take(model, "a", settings.passage_tokens)
    kind = taken.kinds[0]
    if settings.claims and not isinstance(taken, Capture):
        raise not_captured(model)
    layers, heads = taken.layers(kind), taken.heads(kind)
    every = tuple(product(range(layers), range(heads)))
    measured = every if settings.heads is None else settings.heads
    if lacking := [place for place in measured if place not in every]:
        layer, head = lacking[0]
        ranges = f"layers run from 0 to {layers - 1}, heads from 0 to {heads - 1}"
        raise InputError(f"{model.name} has no head {layer}.{head}: {ranges}.", field="heads")
    return ModelHeads(kind, measured, layers, heads, model.revision)


# --- before


def fitted(settings: RunSettings, model: Model) -> RunSettings:
    """The settings with passages that are no longer than the model reads. model: may come without its weights

    Raises InputError (field "model") for a model that reads no texts.
    """
    if model.reads_images:
        raise InputError(f"{model.name} reads images, not texts. Choose another model.", field="model")
    if model.tokenizer is None:
        raise InputError(f"{model.name} came without a tokenizer: it reads no texts.", field="model")
    longest = min(settings.passage_tokens, model.max_tokens or settings.passage_tokens)
    return replace(settings, passage_tokens=longest)


def bytes_kept(settings: RunSettings, model: Model) -> int:
    """About how much a tally takes, in memory and as a file."""
    config = model.text_config
    layers, per_layer = getattr(config, "num_hidden_layers", 12), getattr(config, "num_attention_heads", 12)
    return tally_bytes(settings, len(settings.heads or ()) or layers * per_layer)


def in_order(census: NDArray[np.void], problems: Sequence[Problem], unread: int) -> NDArray[np.void]:
    """The census sorted by id. Raises InputError (field "data" or "column") where it is empty.

    problems, unread  the first of what could not be read, and how much that is in all
    """
    if not len(census):
        why, is_column = "There is no text in it.", any("no column" in problem.why for problem in problems)
        if problems:
            why += f" The first of {unread:,} problems, in {problems[0].place.file}: {problems[0].why}"
        raise InputError(why, field="column" if is_column else "data")
    return census[np.argsort(census["id"])]


# --- after


def finished_tables(tally: Tally, model: Model) -> Iterator[tuple[str, pa.Table]]:
    """All tables of a finished run, `LAST` last. The map of the heads is among them where scikit-learn is installed."""
    tokens_of = {
        number: token_texts(model.tokenizer, all_inputs(model, passage.text)["input_ids"][0].tolist())
        for number, passage in tally.shown_passages.items()
    }
    made: dict[str, pa.Table] = {}
    for name, table in tables(tally, tokens_of):
        stop_point()
        made[name] = table
        if name == LAST and find_spec("sklearn") is not None:
            from .profiles import map_of  # not at the top: the app does without it

            yield MAP, map_of(*(made[part].to_pandas() for part in ("metrics", "classes", "distances"))).table()
        yield name, table


# --- a run in this process, without Ray: a passage at a time, whenever somebody asks for the next. Workers measure passages
# with the same function, and both put the tables together in the same way. So the tables are those that the command makes of
# the same file, to the last bit.

TOLD = 64  # passages between two reports of how many characters are counted


class InProcessRun(PassageByPassage):
    """A run over a file of text, as far as it has come. The last passage counts as read when the tables are there.

    settings  those of the command without any flag; passages are no longer than the model reads
    tokens    how many there are in all passages
    folder    of the tables, once `about` is there
    about     the record of the run; None until it has finished
    nbytes    about how much memory it takes while it is at work
    """

    def __init__(
        self, model: Model, file: Path, folder: Path, most_tokens: int, on_progress: OnProgress | None = None
    ) -> None:
        """Count the tokens of a file, at most so many, and begin a run over it. The folder is made.

        on_progress  called now and then with how many characters have been counted

        Raises InputError: field "model" for a model that reads no texts, "data" for a file without text or with more tokens,
        "out" for a folder that cannot be used.
        """
        self.settings = fitted(RunSettings(dtype=model.dtype), model)
        self._job = Job(model.name, model.revision, str(file.parent), versions_that_count(), self.settings)
        self._model, self._file = model, file
        passages, self._problems, census = self._counted(most_tokens, on_progress)
        super().__init__(passages, self._measure)
        self._corpus = corpus_hash(in_order(census, self._problems, len(self._problems)))
        self._reached = np.concatenate([[0], census["tokens"].cumsum()])  # tokens before each passage
        self.tokens = int(self._reached[-1])
        kept = bytes_kept(self.settings, model)
        self.nbytes = 4 * kept  # it is held several times while it is put in order and written
        self._heads = heads_of(self.settings, model)
        self._place = RunFolder.of(str(folder))
        self._place.begin(self._job.json(self._corpus), kept)
        self.folder = folder
        self.about: About | None = None
        self._began = time.monotonic()
        self._begin()

    def _counted(
        self, most_tokens: int, on_progress: OnProgress | None
    ) -> tuple[list[Passage], list[Problem], NDArray[np.void]]:
        passages, problems, rows, tokens = [], [], [], 0
        count = counter(self._model)
        for found in passages_of([self._file.name], self._job, self._model):
            if isinstance(found, Problem):
                problems.append(found)
                continue
            passages.append(found)
            rows.append(census_row(found, count))
            tokens += rows[-1][1]
            if tokens > most_tokens:  # the rest is not even read: a text may be far longer
                raise InputError(
                    f"The text has more than {most_tokens:,} tokens for {self._model.name}. Shorten it, or run it with the "
                    "command “python -m core.corpus run”, which reads any number.",
                    field="data",
                )
            if on_progress is not None and len(passages) % TOLD == 0:
                on_progress(found.start + len(found.text))
        return passages, problems, np.array(rows, CENSUS)

    def _begin(self) -> None:
        """Begin the tally, with nothing measured."""
        self._tally, self._measured, self.done = Tally(self.settings, self._heads), 0, 0
        self._tally.note(first_of(self._problems), len(self._problems))

    @property
    def share(self) -> float:
        """The share of all tokens that is measured."""
        return float(self._reached[self.done] / self.tokens)

    def _measure(self, passage: Passage, place: int) -> None:
        """Measure a passage; after the last one, write the tables.

        Raises InputError (field "out") where the tables cannot be written; the next call tries it again.
        """
        if place == self._measured:
            try:
                with one_thread():
                    measure([passage], self._model, self._tally)
            except Exception:
                self._begin()  # the passage may be half counted
                raise
            self._measured += 1
        if self._measured == self.total:
            self._finish()

    def _finish(self) -> None:
        about = About.of(
            self._tally,
            self._model,
            data=self._file.name,
            files=1,
            corpus=self._corpus,
            versions=versions("torch", "transformers", "numpy"),
            seconds=time.monotonic() - self._began,
        )
        self._place.finish(finished_tables(self._tally, self._model), about)
        self.about = about
        self.passages = ()
        del self._tally, self._model  # all that is large
