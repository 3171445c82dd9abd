"""The numbers on the cards of the gallery, each measured again.

Each function takes its passes from a `Passes`, which runs each pass once, and returns the numbers of its card in their order:
shares in [0, 1], or numbers in the unit that its docstring names.
"""

from collections.abc import Callable

import numpy as np

from core.attention.masks import causal, grid
from core.attention.matrix_files import read_matrix
from core.attention.sources import toy_sentence
from core.attention.trace import Array, AttentionTrace, attend
from core.capturing.capture import Capture, capture
from core.capturing.edits.edits import Edits
from core.capturing.generation.generating import Generation, generate
from core.heads.attribution import logit, logit_attribution
from core.heads.comparing import HeadPair
from core.heads.effects import patch_effects
from core.heads.examples import FRANCE, KNOWS_PARIS, LANGUAGE_MODEL, PARIS, PRONOUN_HEAD, SENTENCE_MODEL, TIRED, WIDE
from core.heads.metrics import head_metrics
from core.heads.paths import Path, follow, read_hops
from core.lessons import blocks, long_range, masking, self_and_cross, softmax, word_order
from core.models.loading import load_model
from core.models.model import Model
from ui.gallery import views

DIDN_AT_ANIMAL = (2, 1)  # (query, key)
BLOCK_WIDTH = 6
YEAR = slice(0, 4)  # characters of the written date


class Passes:
    """Passes of the offline models: each model is loaded once, and each text is read once by each model."""

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
    """The weight from "it" to "animal"."""
    return (float(passes.of(SENTENCE_MODEL, TIRED).trace(*PRONOUN_HEAD).weights[views.IT_AT_ANIMAL]),)


def induction(passes: Passes) -> tuple[float]:
    """The weight from the second "green" to the first "doors"."""
    return (
        float(passes.of(LANGUAGE_MODEL, views.REPEATED).trace(*views.INDUCTION_HEAD).weights[views.GREEN_AT_DOORS]),
    )


def previous(passes: Passes) -> tuple[float]:
    """The weight on the previous token: the mean over all queries that have one."""
    return (float(passes.of(SENTENCE_MODEL, TIRED).trace(*views.BACK).weights.diagonal(-1).mean()),)


def sink(passes: Passes) -> tuple[float]:
    """The weight on the first token: the mean over all heads and queries."""
    return (float(head_metrics(passes.of(LANGUAGE_MODEL, TIRED))["sink"].to_numpy().mean()),)


def entropy(passes: Passes) -> tuple[float, float]:
    """The smallest and the largest entropy of a head, a mean over its queries, in nats."""
    means = head_metrics(passes.of(LANGUAGE_MODEL, TIRED))["entropy"].to_numpy()
    return float(means.min()), float(means.max())


def paris(passes: Passes) -> tuple[float, float]:
    """The probability of " Paris", without an edit and with the head muted."""
    model = passes.model(LANGUAGE_MODEL)
    muted = capture(model, FRANCE, edits=Edits(mute_heads={KNOWS_PARIS}))
    return _probability(passes.of(LANGUAGE_MODEL, FRANCE), PARIS), _probability(muted, PARIS)


def followed(passes: Passes, view: str) -> Path:
    """The path of a card."""
    card = views.CARDS[view]
    taken = capture(passes.model(LANGUAGE_MODEL), card.address["text"], components=True)
    token = taken.model.tokenizer(card.address["answer"])["input_ids"][0]
    than = taken.model.tokenizer(card.address.get("than", " years"))["input_ids"][0]
    hops = read_hops(card.address["path"]) if "path" in card.address else None
    return follow(taken, hops, logit_attribution(taken, token, than), logit(taken, token, than))


def why(passes: Passes) -> tuple[float, float]:
    """The contribution of the head, and the difference of the two logits by the model's own."""
    path, logits = followed(passes, "why"), passes.of(LANGUAGE_MODEL, FRANCE).logits
    assert path.stops[0].hop.component == str(KNOWS_PARIS)
    paris, rome = (passes.model(LANGUAGE_MODEL).tokenizer(word)["input_ids"][0] for word in (PARIS, " Rome"))
    return path.stops[0].gave, float(logits[paris] - logits[rome])


def circuit(passes: Passes) -> tuple[float, float]:
    """What the head before wrote of the score, and the score above the mean of the other keys."""
    trace = passes.of(LANGUAGE_MODEL, views.CUT_SHORT).trace(*views.INDUCTION_HEAD)
    query, key = views.GREEN_AT_DOORS
    row = trace.scaled[query]
    return followed(passes, "circuit").stops[1].gave, float(row[key] - np.delete(row, key).mean())


def _probability(capture: Capture, token: str) -> float:
    return dict(capture.next_tokens(5))[token]


def patching(passes: Passes) -> tuple[float]:
    """How far patching a head moves the sentence vector, as a share of the way to the other sentence's vector."""
    effects = patch_effects(passes.model(SENTENCE_MODEL), TIRED, WIDE)
    is_patched = (effects[["layer", "head"]].to_numpy() == views.PATCHED).all(axis=1)
    return (float(effects["moved"].to_numpy()[is_patched].item()),)


def two_sentences(passes: Passes) -> tuple[float, ...]:
    """The weight from "it" to "animal" in each sentence."""
    return tuple(
        float(passes.of(SENTENCE_MODEL, text).trace(*PRONOUN_HEAD).weights[views.IT_AT_ANIMAL])
        for text in (TIRED, WIDE)
    )


def two_heads(passes: Passes) -> tuple[float, float]:
    """The mean divergence of their rows, and the largest possible one, in nats."""
    capture = passes.of(SENTENCE_MODEL, TIRED)
    pair = HeadPair.of(capture.head(*views.BACK), capture.head(*views.AHEAD))
    return float(pair.overview().row_numbers["divergence"].mean()), float(np.log(2))


def unscaled(passes: Passes) -> tuple[float, float]:
    """A weight with the model's own scale, and without a scale."""
    trace = passes.of(LANGUAGE_MODEL, TIRED).trace(*views.UNSCALED)
    return float(trace.weights[views.WAS_AT_ANIMAL]), float(trace.changed(scale=1.0).weights[views.WAS_AT_ANIMAL])


def grouped(passes: Passes) -> tuple[int, int]:
    """The number of different queries, and of different keys, in the heads of a layer."""
    capture = passes.of(LANGUAGE_MODEL, TIRED)
    traces = [capture.trace(views.SHARED_LAYER, head) for head in range(capture.heads("self"))]
    return _different([trace.query for trace in traces]), _different([trace.key for trace in traces])


def _different(arrays: list[Array]) -> int:
    return len({array.tobytes() for array in arrays})


def rotary(passes: Passes) -> tuple[float, int]:
    """The sum over the bands, which is the raw score, and the number of bands."""
    bands = rotary_bands(passes)
    return float(bands.parts.sum()), len(bands.parts)


def rotary_bands(passes: Passes) -> word_order.Bands:
    layer, head = views.TURNED
    query, key = DIDN_AT_ANIMAL
    capture = passes.of(LANGUAGE_MODEL, TIRED)
    trace, rotation = capture.trace(layer, head), word_order.rotary_of(capture, layer)
    assert rotation is not None
    return word_order.bands(trace.query[query], trace.key[key], query - key, rotation)


def generation(passes: Passes) -> tuple[float]:
    """The weight from "is" to "France" in the step that writes the first new token."""
    query, key = views.IS_AT_FRANCE
    return (float(paris_written(passes).capture_of(0).trace(*KNOWS_PARIS).weights[query, key]),)


def paris_written(passes: Passes) -> Generation:
    return generate(passes.model(LANGUAGE_MODEL), FRANCE, views.NEW)


def date(passes: Passes) -> tuple[float]:
    """The weight of each row on the digit that it writes: the mean over the four digits of the year."""
    capture = date_read(passes)
    looks = self_and_cross.looks(aligned(capture).weights, *capture.tokens("cross"))
    share = self_and_cross.mean_share(looks[YEAR])
    assert share is not None
    return (share,)


def date_read(passes: Passes) -> Capture:
    return generate(passes.model(self_and_cross.DATES_MODEL), self_and_cross.DATE, 64).capture_of(-1)


def aligned(capture: Capture) -> AttentionTrace:
    return capture.trace(*self_and_cross.ALIGNING_HEAD, "cross")


# --- what holds for any attention


def saturation(_: Passes) -> tuple[float]:
    """The largest weight at a low temperature."""
    return (float(softmax.softmax_steps(views.SCORES, temperature=views.TEMPERATURE).weights.max()),)


def order(_: Passes) -> tuple[float]:
    """The largest difference between a word's outputs in the two orders."""
    return (word_order.shuffle(views.ORDER, seed=views.SHUFFLE).difference,)


def leak(_: Passes) -> tuple[float]:
    """The weight on forbidden keys: the mean over all queries."""
    return (float(masking.fill(masked_sentence(), views.FILL).leaked.mean()),)


def masked_sentence() -> AttentionTrace:
    words = toy_sentence(views.MASKED)
    count = len(words.query_tokens)
    return attend(words.query, words.key, words.value, mask=grid(causal, count, count))


def in_blocks(_: Passes) -> tuple[float]:
    """The largest difference from the direct output, in float64."""
    return (blocks.differences(sentence_in_blocks(), views.BLOCK)["float64"],)


def sentence_in_blocks() -> AttentionTrace:
    words = toy_sentence(views.IN_BLOCKS, d_head=BLOCK_WIDTH)
    return attend(words.query, words.key, words.value)


def gradients(_: Passes) -> tuple[float]:
    """The gradient that arrives through attention divided by that through a recurrent layer, in powers of ten."""
    reach = long_range.compare_reach(views.FAR)
    return (float(reach["attention"].log10[-1] - reach["RNN"].log10[-1]),)


def costs(_: Passes) -> tuple[int]:
    """The length at which attention and a recurrent layer cost the same, in tokens."""
    return (long_range.costs([1], views.WIDTH).crossing,)


def crossing(_: Passes) -> tuple[int, int]:
    """The numbers of queries and keys."""
    return self_and_cross.crossing("cross", views.READ, views.WRITTEN).trace.shape


def own_matrices(_: Passes) -> tuple[float]:
    """The weight of the first query on the first key."""
    return (float(typed_matrices().weights[0, 0]),)


def typed_matrices() -> AttentionTrace:
    return attend(*(read_matrix(text, field="query") for text in (views.QUERY, views.KEY, views.VALUE)))


MEASURE: dict[str, Callable[[Passes], tuple[float, ...]]] = {
    measure.__name__: measure
    for measure in (
        *(
            pronoun,
            induction,
            previous,
            sink,
            entropy,
            paris,
            why,
            circuit,
            patching,
            two_sentences,
            two_heads,
            unscaled,
            grouped,
        ),
        *(rotary, generation, date, saturation, order, leak, in_blocks, gradients, costs, crossing, own_matrices),
    )
}
