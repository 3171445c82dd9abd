"""What the pictures of the gallery's cards are painted of: passes and traces of core. Each pass is run once."""

from core.attention.masks import causal, grid
from core.attention.matrix_files import read_matrix
from core.attention.sources import toy_sentence
from core.attention.trace import AttentionTrace, attend
from core.capturing.capture import Capture, capture
from core.capturing.edits.edits import Edits
from core.capturing.generation.generating import Generation, generate
from core.heads.attribution import logit, logit_attribution
from core.heads.examples import FRANCE, KNOWS_PARIS, LANGUAGE_MODEL, PARIS, TIRED
from core.heads.paths import Path, follow, read_hops
from core.lessons import self_and_cross, word_order
from core.models.loading import load_model
from core.models.model import Model
from ui.gallery import views

DIDN_AT_ANIMAL = (2, 1)  # (query, key)
BLOCK_WIDTH = 6


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


def _probability(capture: Capture, token: str) -> float:
    return dict(capture.next_tokens(5))[token]


def rotary_bands(passes: Passes) -> word_order.Bands:
    layer, head = views.TURNED
    query, key = DIDN_AT_ANIMAL
    capture = passes.of(LANGUAGE_MODEL, TIRED)
    trace, rotation = capture.trace(layer, head), word_order.rotary_of(capture, layer)
    assert rotation is not None
    return word_order.bands(trace.query[query], trace.key[key], query - key, rotation)


def paris_written(passes: Passes) -> Generation:
    return generate(passes.model(LANGUAGE_MODEL), FRANCE, views.NEW)


def date_read(passes: Passes) -> Capture:
    return generate(passes.model(self_and_cross.DATES_MODEL), self_and_cross.DATE, 64).capture_of(-1)


def aligned(capture: Capture) -> AttentionTrace:
    return capture.trace(*self_and_cross.ALIGNING_HEAD, "cross")


def masked_sentence() -> AttentionTrace:
    words = toy_sentence(views.MASKED)
    count = len(words.query_tokens)
    return attend(words.query, words.key, words.value, mask=grid(causal, count, count))


def sentence_in_blocks() -> AttentionTrace:
    words = toy_sentence(views.IN_BLOCKS, d_head=BLOCK_WIDTH)
    return attend(words.query, words.key, words.value)


def typed_matrices() -> AttentionTrace:
    return attend(*(read_matrix(text, field="query") for text in (views.QUERY, views.KEY, views.VALUE)))
