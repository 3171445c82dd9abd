"""Every cache. Keys are plain names and frozen requests, never arrays or models; each cache is small and bounded."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np
import pandas as pd
import streamlit as st
from cachetools import LRUCache
from numpy.typing import NDArray

from core import AttentionTrace, Capture, Model, capture, load_model
from core.attention.head import Head, Overview
from core.attention.masks import Predicate
from core.attention.pooling import Pooled
from core.capturing.certifying import Certificate
from core.capturing.edits import Edits
from core.capturing.estimates import (
    estimate,
    in_words,
    kept_bytes,
    measuring_operations,
    passing_bytes,
    reading_operations,
)
from core.capturing.generating import Generating, Generation
from core.capturing.layers import missing_layers as layers_without_attention
from core.capturing.sampling import Sampling
from core.capturing.speeds import Run, Speeds
from core.capturing.weights_only import WeightsOnly, attention_weights
from core.corpus.opened import Listed, open_run, runs_in
from core.corpus.opened import Run as CorpusRun
from core.errors import InputError
from core.exporting.kept_heads import KeptHead
from core.figures.heatmaps.side_by_side import small
from core.heads.comparing import Compared, HeadPair
from core.heads.contributions import HeadContributions, add_up
from core.heads.effects import Effects
from core.heads.examples import (
    INDUCTION_STEPS,
    LANGUAGE_MODEL,
    SENTENCE_MODEL,
    Induction,
    Pronoun,
    Said,
    knows_paris,
    needs_previous,
    patch_pronoun,
)
from core.heads.likeness import (
    RandomPairs,
    head_changes,
    heads_like,
    random_pairs_divergence,
    weight_differences,
)
from core.heads.metrics import head_metrics
from core.heads.patching import Patching
from core.heads.patterns import match_heads
from core.heads.probing import longest, probe_heads
from core.heads.quantities import Taken
from core.heads.thumbnails import thumbnails
from core.heads.views import Seen, Viewed
from core.lessons.long_range import Reach, compare_reach
from core.lessons.long_range import mean_distances as measured_distances
from core.lessons.scaling import (
    Around,
    GradientSweep,
    ModelScores,
    StackGradients,
    Sweep,
    head_gradients,
    model_scores,
    stack_gradients,
    sweep,
)
from core.models.conversion import Report
from core.models.devices import called
from core.models.images import read_image
from core.models.inputs import all_inputs, chat_ids, text_inputs
from core.models.modules import Kind
from core.models.projections import head_weights
from ui import settings
from ui.allowed import places_of
from ui.memory import Memory
from ui.turns import Turns

# --- what is asked for


@dataclass(frozen=True)
class ModelChoice:
    """A model as it is loaded. In another dtype or on another device it gives other numbers: it is another model.

    As text it is its name, with dtype and device where these are not float32 and the CPU.
    """

    name: str
    dtype: str = "float32"
    device: str = "cpu"

    def __str__(self) -> str:
        return called(self.name, self.dtype, self.device)


@dataclass(frozen=True)
class Generated:
    """A target that the model writes by itself: the most probable token again and again, until it ends its text.

    most  tokens, beyond which it is not gone on with
    """

    most: int = 64


Target = str | tuple[int, ...] | Generated | None


@dataclass(frozen=True)
class TextRequest:
    """One pass of one model over one text, or over the image in a file.

    target what the decoder of an encoder-decoder has written: a text, token numbers, or whatever it writes by itself
    keep  how many tokens of a longer text are kept; None: all
    edits what is changed in the pass; None: nothing
    """

    model: ModelChoice
    text: str
    pair: str | None = None
    target: Target = None
    keep: int | None = None
    image: bytes | None = None
    edits: Edits | None = None


@dataclass(frozen=True)
class HeadRequest:
    """One head of one pass."""

    text: TextRequest
    kind: Kind
    layer: int
    head: int


@dataclass(frozen=True)
class KindRequest:
    """All layers and heads of one kind of attention in one pass."""

    text: TextRequest
    kind: Kind


@dataclass(frozen=True)
class LayerRequest:
    """All heads of one layer of one pass."""

    text: TextRequest
    kind: Kind
    layer: int


@dataclass(frozen=True)
class MatchRequest:
    """How well heads match a pattern, by the choices that describe it."""

    of: KindRequest
    pattern: str
    details: str


@dataclass(frozen=True)
class LikenessRequest:
    """All heads of a model beside one of them, over some texts."""

    of: HeadRequest
    texts: tuple[TextRequest, ...]


@dataclass(frozen=True)
class EffectRequest:
    """What becomes of a pass's answer when something is taken away: each head, each layer, or each token as a key.

    token  the number of the next token that is the answer; None: the sentence vector
    """

    of: KindRequest
    taken_away: Literal["heads", "layers", "tokens"]
    token: int | None


@dataclass(frozen=True)
class PatchRequest:
    """What heads do in a pass that return what they do for another text.

    through  (layer, head) of the only later head through which they may act; None: all
    """

    of: KindRequest
    source: str
    through: tuple[int, int] | None = None


@dataclass(frozen=True)
class WritingRequest:
    """What a model writes after a text, or as the answer to it as a message."""

    text: TextRequest
    chat: bool
    sampling: Sampling


@dataclass(frozen=True)
class CorpusRequest:
    """What is looked at of a head over a corpus.

    run       the name of the run's folder
    kept      whether of the strongest queries, or of the sample, which is cut to a range of quantiles
    """

    run: str
    layer: int
    head: int
    metric: str
    kept: Literal["strongest", "spread"]
    quantiles: tuple[float, float] = (0.0, 1.0)


# --- what is kept


class Store:
    """What has been worked out, so many small things, the least recently used forgotten first.

    Unlike Streamlit's caches it lets the work show its progress on the page that asked for it.
    """

    def __init__(self, most: int) -> None:
        self._found: LRUCache = LRUCache(most)
        self._lock = Lock()

    def __contains__(self, request: Hashable) -> bool:
        with self._lock:
            return request in self._found

    def get(self, request: Hashable, work: Callable[[], Any]) -> Any:
        """What is known, or what the work gives. Two sessions that ask at once may both work; neither waits."""
        with self._lock:
            if request in self._found:
                return self._found[request]
        found = work()
        with self._lock:
            self._found[request] = found
        return found


class SharedStore(Store):
    """A store whose work is done once: sessions that ask meanwhile wait for what the first one finds."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._turns: WeakValueDictionary[Hashable, Lock] = WeakValueDictionary()

    def get(self, request: Hashable, work: Callable[[], Any]) -> Any:
        """What is known, or what the work gives. Where it fails, those who wait try for themselves, one by one."""
        with self._lock:
            turn = self._turns.setdefault(request, Lock())  # forgotten with the last session that holds it
        with turn:
            return super().get(request, work)


class LargeStore:
    """Large things that have been worked out. All stores of this kind share one memory, whatever is in them."""

    def __init__(self, memory: Memory, name: str) -> None:
        self._memory, self._name = memory, name

    def __contains__(self, request: Hashable) -> bool:
        return (self._name, request) in self._memory

    def get(self, request: Hashable, work: Callable[[], Any]) -> Any:
        """What is known, or what the work gives, which tells its size by `nbytes`. Two sessions may both work."""
        return self._memory.get((self._name, request), work, lambda found: found.nbytes)


class Growing:
    """An array that is worked out piece by piece, and kept as far as it has come: whoever wants more goes on from there.

    values  NaN where not known yet
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        pieces: Callable[[], Iterator[tuple[int, Any]]],
        *,
        nbytes: int,
        cost: Callable[[int], float] = lambda _: 1,
    ) -> None:
        """
        pieces  gives (place, values[place]) for every place along the first axis, in any order
        nbytes  what working them out holds meanwhile
        cost    of each place, in any unit
        """
        self.values = np.full(shape, np.nan)
        self.nbytes = nbytes
        self._begin: Callable[[], Iterator[tuple[int, Any]]] = pieces
        self._pieces: Iterator[tuple[int, Any]] | None = None
        self._costs = np.array([cost(place) for place in range(shape[0])], dtype=np.float64)
        self._known = np.zeros(shape[0], bool)
        self._lock = Lock()

    @property
    def done(self) -> int:
        return int(self._known.sum())

    @property
    def total(self) -> int:
        return len(self._known)

    @property
    def share(self) -> float:
        """How much of all the work is over."""
        return float(self._costs[self._known].sum() / self._costs.sum())

    def go_on(self) -> bool:
        """Work out one more piece; False if there is none left. Sessions that want the same take turns."""
        with self._lock:
            if self._known.all():
                return False
            if self._pieces is None:
                self._pieces = self._begin()
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self.values[piece[0]] = piece[1]
            self._known[piece[0]] = True
            if self._known.all():
                self._pieces = None  # and with it all that it holds
            return True


class Writing:
    """A text that a model writes, kept as far as it has come: whoever wants more tokens goes on from there."""

    def __init__(self, generating: Generating, *, nbytes: int) -> None:
        """nbytes: of the longest text that it may become"""
        self.generating = generating
        self.nbytes = nbytes
        self.lock = Lock()

    def first(self, new_tokens: int) -> FirstTokens:
        return FirstTokens(self, new_tokens)


class FirstTokens:
    """So many tokens of what a model writes, one a piece; fewer where it ends before."""

    def __init__(self, writing: Writing, new_tokens: int) -> None:
        self._writing, self._most = writing, new_tokens

    @property
    def done(self) -> int:
        return min(self._writing.generating.done, self._most)

    @property
    def total(self) -> int:
        return self._most if self._writing.generating.ended is None else self.done

    @property
    def share(self) -> float:
        return self.done / self._most

    def go_on(self) -> bool:
        """Have one more token written; False if there is none left. Sessions that want the same take turns."""
        with self._writing.lock:
            return self.done < self._most and self._writing.generating.go_on()

    def so_far(self) -> Generation:
        return self._writing.generating.so_far(self._most)


memory = Memory(settings.current().memory)
turns = Turns(memory)

models = SharedStore(2)
passes = LargeStore(memory, "passes")
exposed_weights = LargeStore(memory, "weights")
metrics = Store(16)
probes = Store(4)
thumbnail_grids = Store(4)
matches = Store(16)
views = Store(8)
heads = Store(16)  # of one head all stages, small enough to draw: at most 3 MB
comparisons = Store(8)  # of two heads three pictures: at most 2 MB
likenesses = Store(16)
random_pairs = Store(16)
changes = Store(16)  # of every head, between two passes
continuations = Store(32)
writings = LargeStore(memory, "writings")
full_passes = Store(32)  # of the rows of a text that was written one number
written = Store(32)  # by decoders, for a pass over what they have written themselves
growing = LargeStore(memory, "growing")
patchings = LargeStore(memory, "patchings")
layers_added_up = Store(4)
distances = Store(8)
scores = Store(4)
examples = Store(3)  # all there are, each a few hundred numbers at most
corpus_runs = Store(4)  # of each a few numbers a head, and where its passages lie
corpus_lists = Store(2)  # what each run of a folder says it is
speeds = Speeds()  # of all models, as learned from their runs; bounded by itself


# --- models and their passes

# One head of so long a text holds four arrays of 64 MB; twice the length would need four times as much.
MAX_TOKENS = 4_096
_CHARACTERS = 64  # a token at most: a text with more is not worth the time to count its tokens


def longest_text(page: int | None = None) -> int | None:
    """In tokens, what this host and the page allow; None: whatever the model reads."""
    return min((limit for limit in (settings.current().tokens, page) if limit is not None), default=None)


def check_characters(*texts: str | None) -> None:
    """Raises InputError for a text of so many characters that it is too long for this host however they make tokens."""
    longest = settings.current().tokens
    characters = max(len(text or "") for text in texts)
    if longest is not None and characters > longest * _CHARACTERS:
        raise InputError(
            f"The text has {characters:,} characters; this host reads at most {longest:,} tokens. Shorten it.",
            field="text",
        )


def model(chosen: ModelChoice | str, report: Report | None = None) -> Model:
    """`chosen` is a name where float32 on the CPU will do; `report` is told what takes time, and how much of it is over.

    Raises InputError for one that this host does not load.
    """
    of = ModelChoice(chosen) if isinstance(chosen, str) else chosen
    look_in = places_of(of.name)
    return models.get(of, lambda: load_model(of.name, dtype=of.dtype, device=of.device, look_in=look_in, report=report))


def announced(of: ModelChoice, tokens: int, *, target_tokens: int = 1, measuring: bool = False) -> tuple[float, str]:
    """The seconds that reading so many tokens will take at least, and a sentence about what it takes.

    measuring  whether every head will be measured as well
    """
    expected = estimate(model(of), tokens, speeds, measuring=measuring, target_tokens=target_tokens)
    what = "reading them and measuring every head" if measuring else "reading them"
    return expected.at_least, f"{tokens:,} tokens: {what} takes {in_words(expected)}."


def reading_seconds(pass_: Capture) -> float:
    """About, for one more pass over what has been read; 0 where nothing tells."""
    if not pass_.input_ids:
        return 0.0
    return seconds_to_read(pass_.model, len(pass_.input_ids), max(1, len(pass_.target_ids)))


def seconds_to_read(network: Model, tokens: int, target_tokens: int = 1) -> float:
    """About, for one pass over so many tokens."""
    cost = reading_operations(network, tokens, target_tokens=target_tokens)
    return speeds.seconds(network.label, "reading", cost)[0]


def needed_bytes(of: ModelChoice, tokens: int, target_tokens: int = 1) -> int:
    """What reading so many tokens takes while it runs, with what is kept of it."""
    network = model(of)
    passing = passing_bytes(network, tokens, target_tokens=target_tokens)
    return passing + kept_bytes(network, tokens, target_tokens=target_tokens)


def _limits(request: TextRequest) -> dict[str, Any]:
    """How many tokens are read, and whether a longer text is cut there."""
    edits = request.edits or Edits()
    target = request.target if isinstance(request.target, str) else None
    check_characters(request.text, request.pair, target, edits.mean_over, edits.patch_from)
    for other in (edits.mean_over, edits.patch_from):
        if other:  # edits read it as well
            text_inputs(model(request.model), other, max_tokens=longest_text())
    return {"max_tokens": longest_text(request.keep), "truncate": request.keep is not None}


def captured(request: TextRequest, on_progress: Callable[[int], None] | None = None) -> Capture:
    def read() -> Capture:
        network = model(request.model)
        if request.image is not None:
            image = read_image(request.image)
            return capture(network, image=image, edits=request.edits, on_progress=on_progress)
        target = target_of(request)
        start = turns.clock()
        found = capture(
            network,
            request.text,
            pair=request.pair,
            target=target,
            **_limits(request),
            edits=request.edits,
            on_progress=on_progress,
        )
        seconds = turns.clock() - start
        cost = reading_operations(network, len(found.input_ids), target_tokens=max(1, len(found.target_ids)))
        if request.edits is None:  # they take their own time
            speeds.learn(Run(network.label, "reading", cost, seconds))
        return found

    return passes.get(request, read)


@dataclass(frozen=True)
class Written:
    """What a decoder has written by itself, without the token that ends it.

    has_ended  whether the model ended it; else it was not gone on with
    """

    ids: tuple[int, ...]
    has_ended: bool


def writing(request: TextRequest) -> TextRequest:
    """What names a generated target: an edited pass is over the same one as the pass without edits."""
    return replace(request, edits=None)


def generated(request: TextRequest, on_progress: Callable[[int], None] | None = None) -> Written:
    """The generated target of a request, written by the model as it is, without edits.

    on_progress  called after every token with how many there are; what it raises reaches the caller
    """
    most = request.target.most if isinstance(request.target, Generated) else Generated().most
    limits = [limit - 1 for limit in (model(request.model).max_tokens, longest_text(request.keep)) if limit is not None]

    def write() -> Written:
        from_nothing = _inputs(replace(writing(request), target=None))
        found = Generating(model(request.model), from_nothing).write(min([most, *limits]), on_progress)
        has_ended = found.ended == "end"
        return Written(found.token_ids[:-1] if has_ended else found.token_ids, has_ended)

    return written.get(writing(request), write)


def target_of(request: TextRequest) -> str | tuple[int, ...] | None:
    """What the decoder is given; what it writes by itself is written first, where that is not known yet."""
    return generated(request).ids if isinstance(request.target, Generated) else request.target


def weights_only(request: TextRequest) -> WeightsOnly:
    """What a model exposes that cannot be captured."""

    def read() -> WeightsOnly:
        limits = {name: limit for name, limit in _limits(request).items() if limit is not None}
        return attention_weights(model(request.model), request.text, **limits)

    return exposed_weights.get(request, read)


def taken(request: TextRequest) -> Taken:
    """The pass, or what there is of it."""
    network = model(request.model)
    return captured(request) if network.captures or network.reads_images else weights_only(request)


@st.cache_resource(max_entries=8, show_spinner=False)
def missing_layers(of: ModelChoice) -> tuple[str, ...]:
    return layers_without_attention(model(of))


# --- all heads of a pass

PROBE_LENGTH, PROBE_SEEDS = 50, (0, 1, 2, 3)


def measured(request: KindRequest, on_progress: Callable[[int], None] | None = None) -> pd.DataFrame:
    def measure() -> pd.DataFrame:
        pass_ = taken(request.text)
        start = turns.clock()
        found = head_metrics(pass_, request.kind, on_progress=on_progress)
        seconds = turns.clock() - start
        if pass_.model.captures and request.kind == pass_.kinds[0] and pass_.input_ids:  # what estimates are made of
            speeds.learn(
                Run(pass_.model.label, "measuring", measuring_operations(pass_.model, len(pass_.input_ids)), seconds)
            )
        return found

    return metrics.get(request, measure)


def probe_length(of: ModelChoice) -> int:
    """How many random tokens the probe reads twice: 50, or what a model with a short memory can read."""
    return min(PROBE_LENGTH, longest(model(of)))


def probed(of: ModelChoice, on_progress: Callable[[int], None] | None = None) -> pd.DataFrame:
    return probes.get(of, lambda: probe_heads(model(of), probe_length(of), PROBE_SEEDS, on_progress=on_progress))


def small_pictures(request: KindRequest, on_progress: Callable[[int], None] | None = None) -> Pooled:
    return thumbnail_grids.get(request, lambda: thumbnails(taken(request.text), request.kind, on_progress=on_progress))


def matched(
    request: MatchRequest, pattern: Predicate, on_progress: Callable[[int], None] | None = None
) -> NDArray[np.floating]:
    return matches.get(
        request, lambda: match_heads(captured(request.of.text), pattern, request.of.kind, on_progress=on_progress)
    )


def overview(of: KindRequest, viewed: Viewed, on_progress: Callable[[int], None] | None = None) -> Seen:
    return views.get((of, viewed.view), lambda: viewed.overview(on_progress=on_progress))


def likeness(request: LikenessRequest, on_progress: Callable[[int], None] | None = None) -> pd.DataFrame:
    of = request.of
    return likenesses.get(
        request,
        lambda: heads_like(
            [captured(text) for text in request.texts], of.layer, of.head, of.kind, on_progress=on_progress
        ),
    )


def random_heads(request: KindRequest, on_progress: Callable[[int], None] | None = None) -> RandomPairs:
    return random_pairs.get(
        request, lambda: random_pairs_divergence(captured(request.text), request.kind, on_progress=on_progress)
    )


def changed_heads(
    before: KindRequest, after: KindRequest, on_progress: Callable[[int], None] | None = None
) -> NDArray[np.floating]:
    """[layers, heads] how much the weights of every head differ between two passes."""
    passes = captured(before.text), captured(after.text)
    return changes.get((before, after), lambda: head_changes(*passes, before.kind, on_progress=on_progress))


NEW_TOKENS = 20


def writes_on(request: TextRequest, on_progress: Callable[[int], None] | None = None) -> tuple[int, ...]:
    """The tokens that a model writes after a text."""

    def write() -> tuple[int, ...]:
        writing = Generating(model(request.model), _inputs(request), edits=request.edits)
        return writing.write(NEW_TOKENS, on_progress).token_ids

    return continuations.get(request, write)


# --- a text that is written

MOST_NEW_TOKENS = 200


def written_after(request: WritingRequest) -> Writing:
    """Raises InputError for a model that writes nothing, for texts as `captured` does, and where the memory would not do."""

    def begin() -> Writing:
        network, text = model(request.text.model), request.text
        if request.chat:  # what is cut off its end would be where the answer begins
            limits: dict[str, Any] = _limits(text) | {"truncate": False}
            inputs = all_inputs(network, input_ids=chat_ids(network, text.text), **limits)
        else:
            inputs = all_inputs(network, text.text, **_limits(text))
        generating = Generating(network, inputs, request.sampling, max_tokens=longest_text(MAX_TOKENS))
        read = inputs["input_ids"].shape[1]
        encodes = network.is_encoder_decoder
        tokens, target = (read, MOST_NEW_TOKENS) if encodes else (read + MOST_NEW_TOKENS, 1)
        logits = 4 * MOST_NEW_TOKENS * network.network.config.get_text_config().vocab_size
        nbytes = 2 * kept_bytes(network, tokens, target_tokens=target) + logits
        memory.check(nbytes)
        return Writing(generating, nbytes=nbytes)

    return writings.get(request, begin)


def full_pass_difference(
    request: WritingRequest, generation: Generation, on_progress: Callable[[int], None] | None = None
) -> float:
    """The largest difference of a weight, in any head, between the rows of all steps and one full pass."""

    def compare() -> float:
        whole, steps = generation.full_pass(on_progress), generation.capture_of(-1)
        return max(float(weight_differences(steps, whole, kind).max()) for kind in steps.kinds)

    return full_passes.get((request, len(generation.steps)), compare)


# --- what if something were taken away, or put in from another text


def _inputs(request: TextRequest, text: str | None = None) -> dict:
    """What the model reads; text: instead of the request's."""
    words = request.text if text is None else text
    return all_inputs(model(request.model), words, pair=request.pair, target=target_of(request), **_limits(request))


def effects(request: EffectRequest) -> Growing:
    """Of each head [layers, heads], each layer [layers], or each token [keys]: see `core.heads.effects.Effects`.

    Raises InputError where the memory would not do.
    """
    of, pass_ = request.of, captured(request.of.text)
    layers = pass_.layers(of.kind)

    def pieces() -> Iterator[tuple[int, Any]]:
        asked = Effects(model(of.text.model), _inputs(of.text), request.token, of.kind)
        yield from {"heads": asked.of_heads, "layers": asked.of_layers, "tokens": asked.of_keys}[request.taken_away]()

    shapes = {"heads": (layers, pass_.heads(of.kind)), "layers": (layers,), "tokens": pass_.shape(of.kind)[1:]}

    def above(layer: int) -> float:
        """How many layers have to be computed again."""
        return layers - layer

    cost = {} if request.taken_away == "tokens" else {"cost": above}
    nbytes = 2 * pass_.nbytes
    memory.check(nbytes)
    return growing.get(request, lambda: Growing(shapes[request.taken_away], pieces, nbytes=nbytes, **cost))


def patching(request: KindRequest, source: str) -> Patching:
    """Both passes. Raises InputError where they cannot be compared."""
    text = request.text
    check_characters(source)
    return patchings.get(
        (request, source),
        lambda: Patching(
            model(text.model), text.text, source, target=target_of(text), kind=request.kind, **_limits(text)
        ),
    )


def patch_effects(request: PatchRequest) -> Growing:
    """[layers that can act, heads]: see `core.heads.patching.Patching`."""
    both = patching(request.of, request.source)
    layers = both.layers if request.through is None else request.through[0]
    return growing.get(
        request,
        lambda: Growing(
            (layers, max(both.heads)),
            lambda: both.of_heads(request.through),
            nbytes=both.nbytes,
            cost=lambda layer: both.layers - layer,
        ),
    )


# --- heads over a corpus


def corpora() -> Path | None:
    """The folder of finished runs; None where this host has none."""
    named = settings.current().corpora
    return settings.ROOT / named if named else None  # a whole path stays as it is


def listed_runs(folder: Path) -> list[Listed]:
    """The runs of a folder, as they lie there now. Raises InputError for a folder that cannot be read."""
    try:
        inside = tuple(sorted((one.name, one.stat().st_mtime_ns) for one in os.scandir(folder)))
    except OSError:  # nothing there, or nothing that may be looked at: which of them, `runs_in` says
        return runs_in(folder)
    return corpus_lists.get((str(folder), inside), lambda: runs_in(folder))


def corpus_run(name: str) -> CorpusRun:
    """The run of this name, as it lies there now. Raises InputError as `open_run` does."""
    folder = (corpora() or Path()) / name
    try:
        inside = tuple(sorted((one.name, one.stat().st_mtime_ns, one.stat().st_size) for one in os.scandir(folder)))
    except OSError:  # gone, or a link that leads nowhere: `open_run` says it
        return open_run(folder)
    return corpus_runs.get((str(folder), inside), lambda: open_run(folder))


# --- one head, one layer


@st.cache_resource(max_entries=3, show_spinner=False)
def trace(request: HeadRequest) -> AttentionTrace:
    return captured(request.text).trace(request.layer, request.head, request.kind)


def head(request: HeadRequest) -> Head:
    return captured(request.text).head(request.layer, request.head, request.kind)


def head_overview(request: HeadRequest) -> tuple[Overview, Certificate]:
    """All stages of a head, and the certificate of these very numbers."""
    return heads.get(
        request, lambda: captured(request.text).certified_overview(request.layer, request.head, request.kind)
    )


def kept_overview(kept: KeptHead) -> tuple[Overview, Certificate | None]:
    """The same of a head that a file holds."""
    return heads.get(kept, kept.overview)


def changed_overview(request: HeadRequest, change: Hashable, changed: Head) -> Overview:
    """The same of a head with another scale or mask."""
    return heads.get((request, change), changed.overview)


def compared(
    first: HeadRequest, second: HeadRequest, pair: HeadPair, on_progress: Callable[[int], None] | None = None
) -> Compared:
    """Two heads on the axes that their texts give them."""
    return comparisons.get((first, second), lambda: pair.overview(on_progress=on_progress))


@st.cache_resource(max_entries=64, show_spinner=False)
def certificate(request: HeadRequest) -> Certificate:
    """Of the same head as the page Heads shows it: computed some rows at a time, on texts of any length."""
    return captured(request.text).certificate(request.layer, request.head, request.kind)


def layer_heads(
    request: LayerRequest, on_progress: Callable[[int], None] | None = None
) -> tuple[list[Pooled], HeadContributions]:
    """Each head's weights, small enough to draw, and what it adds to the layer's output."""

    def add() -> tuple[list[Pooled], HeadContributions]:
        pass_, layer, kind = captured(request.text), request.layer, request.kind
        pictures, outputs = [], []
        for head in range(pass_.heads(kind)):  # one trace at a time: those of a long text are large
            trace = pass_.trace(layer, head, kind)
            pictures.append(small(trace.weights, trace.mask))
            outputs.append(trace.output)
            if on_progress is not None:
                on_progress(head + 1)
        return pictures, add_up(outputs, [head_weights(pass_.model, layer, head, kind) for head in range(len(outputs))])

    return layers_added_up.get(request, add)


# --- worked examples of changed heads

INDUCTION_PASSES = 2 * len(PROBE_SEEDS) + INDUCTION_STEPS  # the probe's, which choose the heads, and then the example's


def paris(on_progress: Callable[[int], None] | None = None) -> tuple[Said, ...]:
    return examples.get("paris", lambda: knows_paris(model(LANGUAGE_MODEL), on_progress))


def induction(on_progress: Callable[[int], None] | None = None) -> Induction:
    def measure() -> Induction:
        def further(done: int) -> None:
            if on_progress is not None:
                on_progress(INDUCTION_PASSES - INDUCTION_STEPS + done)

        return needs_previous(model(LANGUAGE_MODEL), probed(ModelChoice(LANGUAGE_MODEL), on_progress), further)

    return examples.get("induction", measure)


def pronoun(on_progress: Callable[[int], None] | None = None) -> Pronoun:
    return examples.get("pronoun", lambda: patch_pronoun(model(SENTENCE_MODEL), on_progress))


# --- the experiments of lessons


@st.cache_resource(max_entries=32, show_spinner="Measuring gradients", show_time=True)
def gradient_reach(length: int, gain: float, forget_bias: float) -> dict[str, Reach]:
    return compare_reach(length, gain=gain, forget_bias=forget_bias)


def mean_distances(
    request: KindRequest, without_first: bool, on_progress: Callable[[int], None] | None = None
) -> NDArray[np.floating]:
    def measure() -> NDArray[np.floating]:
        return measured_distances(
            captured(request.text), request.kind, without_first=without_first, on_progress=on_progress
        )

    return distances.get((request, without_first), measure)


@st.cache_resource(max_entries=12, show_spinner="Measuring random heads", show_time=True)
def scaling_sweep(keys: int, distribution: str, deviation: float) -> Sweep:
    return sweep(keys=keys, distribution=distribution, deviation=deviation)


@st.cache_resource(max_entries=1, show_spinner="Following gradients through random heads", show_time=True)
def gradient_sweep() -> GradientSweep:
    return head_gradients()


@st.cache_resource(max_entries=64, show_spinner="Following gradients through the stack", show_time=True)
def gradients_in_stack(layers: int, width: int, around: Around) -> tuple[StackGradients, StackGradients]:
    """Without and with the scale."""
    unscaled, scaled = (stack_gradients(layers, width=width, around=around, scaled=scaled) for scaled in (False, True))
    return unscaled, scaled


def scores_of_all_heads(request: KindRequest, on_progress: Callable[[int], None] | None = None) -> ModelScores:
    return scores.get(request, lambda: model_scores(captured(request.text), request.kind, on_progress=on_progress))
