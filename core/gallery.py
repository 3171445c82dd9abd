"""The numbers that the cards of the gallery say, each measured anew.

Every measure takes the passes that it needs from a `Passes`, which runs each once, and gives the numbers of its claim in their
order there: shares in [0, 1], or in the unit that its docstring names.
"""

from __future__ import annotations

import numpy as np

from .attention.masks import causal, grid
from .attention.sources import toy_sentence
from .attention.trace import Array, AttentionTrace, attend
from .capturing.capture import Capture, capture
from .capturing.edits import Edits
from .capturing.generating import Generation, generate
from .heads.comparing import HeadPair
from .heads.examples import FRANCE, KNOWS_PARIS, LANGUAGE_MODEL, PARIS, PRONOUN_HEAD, SENTENCE_MODEL, TIRED, WIDE
from .heads.metrics import head_metrics
from .heads.patching import patch_effects
from .lessons import blocks, long_range, masking, self_and_cross, softmax, word_order
from .models.loading import load_model
from .models.model import Model

REPEATED = "seven green doors and a cold river seven green doors and a cold river"

# Where each view looks: (layer, head), and (query, key) in its text
IT_AT_ANIMAL = (10, 2)
INDUCTION_HEAD, GREEN_AT_DOORS = (18, 6), (8, 2)
BACK, AHEAD = (0, 2), (1, 8)
PATCHED = (5, 9)
UNSCALED, WAS_AT_ANIMAL = (13, 8), (9, 1)
SHARED_LAYER = 13
TURNED, DIDN_AT_ANIMAL = (13, 8), (2, 1)

SCORES, TEMPERATURE = (1.0, 0.5, 2.5, -0.1), 0.2
ORDER, SHUFFLE = "the dog bites the man", 29
MASKED, FILL = "The cat sat. A dog ran.", -5.0
IN_BLOCKS, BLOCK, BLOCK_WIDTH = "Blocks of keys give the very same result as all keys.", 3, 6
FAR, WIDTH = 64, 576
NEW, IS_AT_FRANCE = 6, (4, 3)
YEAR, EIGHT_AT_SEVEN = slice(0, 4), (3, 20)  # of what a date is written as; the row of 8 writes 7
READ, WRITTEN = "Le chat est sur le tapis.", "The cat is on"
QUERY, KEY, VALUE = [[1, 0], [0, 1]], [[1, 0], [0, 1], [1, 1]], [[1], [2], [3]]


class Passes:
    """Passes of the models that come along: each model is read once, and each text by each of them."""

    def __init__(self) -> None:
        self._models: dict[str, Model] = {}
        self._passes: dict[tuple[str, str], Capture] = {}

    def model(self, name: str) -> Model:
        if name not in self._models:
            self._models[name] = load_model(name)
        return self._models[name]

    def of(self, name: str, text: str) -> Capture:
        if (name, text) not in self._passes:
            self._passes[name, text] = capture(self.model(name), text)
        return self._passes[name, text]


# --- heads of the models


def pronoun(passes: Passes) -> tuple[float]:
    return (float(passes.of(SENTENCE_MODEL, TIRED).trace(*PRONOUN_HEAD).weights[IT_AT_ANIMAL]),)


def induction(passes: Passes) -> tuple[float]:
    return (float(passes.of(LANGUAGE_MODEL, REPEATED).trace(*INDUCTION_HEAD).weights[GREEN_AT_DOORS]),)


def previous(passes: Passes) -> tuple[float]:
    """The mean over all queries that have a token before them."""
    return (float(passes.of(SENTENCE_MODEL, TIRED).trace(*BACK).weights.diagonal(-1).mean()),)


def sink(passes: Passes) -> tuple[float]:
    """The mean over all heads and queries."""
    return (float(head_metrics(passes.of(LANGUAGE_MODEL, TIRED))["sink"].to_numpy().mean()),)


def entropy(passes: Passes) -> tuple[float, float]:
    """The smallest and the largest mean over a head's queries, in nats."""
    found = head_metrics(passes.of(LANGUAGE_MODEL, TIRED))["entropy"].to_numpy()
    return float(found.min()), float(found.max())


def paris(passes: Passes) -> tuple[float, float]:
    """The probability of " Paris", as it is and without the head."""
    model = passes.model(LANGUAGE_MODEL)
    muted = capture(model, FRANCE, edits=Edits(mute_heads={KNOWS_PARIS}))
    return _share(passes.of(LANGUAGE_MODEL, FRANCE), PARIS), _share(muted, PARIS)


def _share(passed: Capture, token: str) -> float:
    return dict(passed.next_tokens(5))[token]


def patching(passes: Passes) -> tuple[float]:
    """How far along the line from one sentence's vector to the other's."""
    found = patch_effects(passes.model(SENTENCE_MODEL), TIRED, WIDE)
    is_patched = (found[["layer", "head"]].to_numpy() == PATCHED).all(axis=1)
    return (float(found["moved"].to_numpy()[is_patched].item()),)


def two_sentences(passes: Passes) -> tuple[float, ...]:
    return tuple(
        float(passes.of(SENTENCE_MODEL, text).trace(*PRONOUN_HEAD).weights[IT_AT_ANIMAL]) for text in (TIRED, WIDE)
    )


def two_heads(passes: Passes) -> tuple[float, float]:
    """How far apart their rows are on average, and how far they can be, in nats."""
    passed = passes.of(SENTENCE_MODEL, TIRED)
    pair = HeadPair.of(passed.head(*BACK), passed.head(*AHEAD))
    return float(pair.overview().row_numbers["divergence"].mean()), float(np.log(2))


def unscaled(passes: Passes) -> tuple[float, float]:
    """With the model's own scale, and with none."""
    trace = passes.of(LANGUAGE_MODEL, TIRED).trace(*UNSCALED)
    return float(trace.weights[WAS_AT_ANIMAL]), float(trace.changed(scale=1.0).weights[WAS_AT_ANIMAL])


def grouped(passes: Passes) -> tuple[int, int]:
    """How many heads of a layer have queries of their own, and how many have keys of their own."""
    passed = passes.of(LANGUAGE_MODEL, TIRED)
    traces = [passed.trace(SHARED_LAYER, head) for head in range(passed.heads("self"))]
    return _different([trace.query for trace in traces]), _different([trace.key for trace in traces])


def _different(arrays: list[Array]) -> int:
    return len({array.tobytes() for array in arrays})


def rotary(passes: Passes) -> tuple[float, int]:
    """The sum over the bands, which is the raw score, and how many bands there are."""
    found = rotary_bands(passes)
    return float(found.parts.sum()), len(found.parts)


def rotary_bands(passes: Passes) -> word_order.Bands:
    layer, head = TURNED
    query, key = DIDN_AT_ANIMAL
    passed = passes.of(LANGUAGE_MODEL, TIRED)
    trace, rotation = passed.trace(layer, head), word_order.rotary_of(passed, layer)
    assert rotation is not None
    return word_order.bands(trace.query[query], trace.key[key], query - key, rotation)


def generation(passes: Passes) -> tuple[float]:
    """In the step that writes the first new token."""
    query, key = IS_AT_FRANCE
    return (float(paris_written(passes).capture_of(0).trace(*KNOWS_PARIS).weights[query, key]),)


def paris_written(passes: Passes) -> Generation:
    return generate(passes.model(LANGUAGE_MODEL), FRANCE, NEW)


def date(passes: Passes) -> tuple[float]:
    """The mean over the four digits of the year: what each row gives to the digit that it writes."""
    passed = date_read(passes)
    found = self_and_cross.looks(aligned(passed).weights, *passed.tokens("cross"))
    share = self_and_cross.mean_share(found[YEAR])
    assert share is not None
    return (share,)


def date_read(passes: Passes) -> Capture:
    return generate(passes.model(self_and_cross.DATES_MODEL), self_and_cross.DATE, 64).capture_of(-1)


def aligned(passed: Capture) -> AttentionTrace:
    return passed.trace(*self_and_cross.ALIGNING_HEAD, "cross")


# --- what holds for any attention


def saturation(_: Passes) -> tuple[float]:
    return (float(softmax.softmax_steps(SCORES, temperature=TEMPERATURE).weights.max()),)


def order(_: Passes) -> tuple[float]:
    """The largest difference between a word's outputs in the two orders."""
    return (word_order.shuffle(ORDER, seed=SHUFFLE).difference,)


def leak(_: Passes) -> tuple[float]:
    """The mean over all queries."""
    return (float(masking.fill(masked_sentence(), FILL).leaked.mean()),)


def masked_sentence() -> AttentionTrace:
    words = toy_sentence(MASKED)
    count = len(words.query_tokens)
    return attend(words.query, words.key, words.value, mask=grid(causal, count, count))


def in_blocks(_: Passes) -> tuple[float]:
    """The largest difference from the direct output, in float64."""
    return (blocks.differences(sentence_in_blocks(), BLOCK)["float64"],)


def sentence_in_blocks() -> AttentionTrace:
    words = toy_sentence(IN_BLOCKS, d_head=BLOCK_WIDTH)
    return attend(words.query, words.key, words.value)


def gradients(_: Passes) -> tuple[float]:
    """By how many powers of ten more gradient arrives through attention than through a recurrent layer."""
    found = long_range.compare_reach(FAR)
    return (float(found["attention"].log10[-1] - found["RNN"].log10[-1]),)


def costs(_: Passes) -> tuple[int]:
    """In tokens."""
    return (long_range.costs([1], WIDTH).crossing,)


def crossing(_: Passes) -> tuple[int, int]:
    """Queries and keys."""
    return self_and_cross.crossing("cross", READ, WRITTEN).trace.shape


def own_matrices(_: Passes) -> tuple[float]:
    return (float(attend(QUERY, KEY, VALUE).weights[0, 0]),)
