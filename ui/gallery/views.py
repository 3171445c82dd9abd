"""The views of the gallery: what each card says, the address of its view, and what measures its number anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from core import gallery as measured
from core.gallery import Passes
from core.heads.examples import FRANCE, KNOWS_PARIS, LANGUAGE_MODEL, PRONOUN_HEAD, SENTENCE_MODEL, TIRED, WIDE
from core.lessons.self_and_cross import ALIGNING_HEAD, DATE, DATES_MODEL
from ui import state

PICTURES = Path(__file__).parent / "pictures"


@dataclass(frozen=True)
class View:
    """One card.

    word      its name in the code, and that of its picture
    title     what the card is called
    claim     its number with its unit, to as many digits as every machine measures
    sentence  what there is to see
    where     what it is measured in
    page      the page of the view, as its address calls it
    address   what its address says, every choice in full that the number depends on
    measure   gives the numbers of the claim, in their order there
    alt       what a person who cannot see the picture is told
    """

    word: str
    title: str
    claim: str
    sentence: str
    where: str
    page: str
    address: Mapping[str, str]
    measure: Callable[[Passes], tuple[float, ...]]
    alt: str

    @property
    def picture(self) -> Path:
        return PICTURES / f"{self.word}.png"


def _head(model: str, text: str, place: tuple[int, int], cell: tuple[int, int] | None = None) -> dict[str, str]:
    """A head of a model in an address, and a query and a key of its text."""
    said = {state.MODEL: model, state.TEXT: text, state.LAYER: str(place[0]), state.HEAD: str(place[1])}
    return said if cell is None else said | {state.QUERY: str(cell[0]), state.KEY: str(cell[1])}


def _by(metric: str) -> dict[str, str]:
    """All heads by a metric, measured on the text, in an address."""
    return {state.METRIC: metric, state.MEASURED_ON: "text"}


def _matrix(rows: list[list[int]]) -> str:
    return "\n".join(" ".join(map(str, row)) for row in rows)


def _name(place: tuple[int, int]) -> str:
    return f"{place[0]}.{place[1]}"


VIEWS = (
    View(
        word="pronoun",
        title="Who is “it”?",
        claim="67.3% on “animal”",
        sentence="In the row of “it” one cell is bright: the word that it stands for.",
        where=f"Head {PRONOUN_HEAD} of {SENTENCE_MODEL}",
        page="step_by_step",
        address=_head(SENTENCE_MODEL, TIRED, PRONOUN_HEAD, measured.IT_AT_ANIMAL),
        measure=measured.pronoun,
        alt="Attention weights: the row of “it” is brightest at “animal”.",
    ),
    View(
        word="induction",
        title="What came next last time?",
        claim="75% on “doors”",
        sentence="The text repeats. At the second “green” an induction head looks at what followed the first.",
        where=f"Head {_name(measured.INDUCTION_HEAD)} of {LANGUAGE_MODEL}",
        page="heads",
        address=_head(LANGUAGE_MODEL, measured.REPEATED, measured.INDUCTION_HEAD, measured.GREEN_AT_DOORS)
        | _by("induction"),
        measure=measured.induction,
        alt="Attention weights with a bright stripe, one place after each word's first occurrence.",
    ),
    View(
        word="previous",
        title="One step back",
        claim="100% one token back",
        sentence="A head that knows one thing: the bright line runs just beside the diagonal.",
        where=f"Head {_name(measured.BACK)} of {SENTENCE_MODEL}",
        page="heads",
        address=_head(SENTENCE_MODEL, TIRED, measured.BACK) | _by("previous"),
        measure=measured.previous,
        alt="Attention weights: a bright line one place below the diagonal.",
    ),
    View(
        word="sink",
        title="A place to rest",
        claim="68% on the first token",
        sentence="Heads that find nothing to look for look at the first token: in most places the grid is bright.",
        where=f"The mean of all heads of {LANGUAGE_MODEL}",
        page="heads",
        address=_head(LANGUAGE_MODEL, TIRED, (18, 8)) | _by("sink"),
        measure=measured.sink,
        alt="A grid of all heads, most of them bright: their share on the first token.",
    ),
    View(
        word="paris",
        title="The head that knows Paris",
        claim="77% → 14%",
        sentence="One head is muted, and “The capital of France is” hardly goes on with “Paris”.",
        where=f"Head {KNOWS_PARIS} of {LANGUAGE_MODEL}",
        page="what_if",
        address=_head(LANGUAGE_MODEL, FRANCE, KNOWS_PARIS) | {state.EDITS: f"mute {KNOWS_PARIS}"},
        measure=measured.paris,
        alt="Two bars: the probability of “Paris” with the head, and the much smaller one without it.",
    ),
    View(
        word="generation",
        title="While “Paris” is written",
        claim="90.3% on “France”",
        sentence="The model writes on, step by step. In the first step that head looks back at the country.",
        where=f"Head {KNOWS_PARIS} of {LANGUAGE_MODEL}, from “is”",
        page="generation",
        address=_head(LANGUAGE_MODEL, FRANCE, KNOWS_PARIS)
        | {state.NEW_TOKENS: str(measured.NEW), state.STEP: "1", state.KEY: str(measured.IS_AT_FRANCE[1])},
        measure=measured.generation,
        alt="A row of attention weights for each new token; in the first one “France” is bright.",
    ),
    View(
        word="date",
        title="Reading a date, digit by digit",
        claim="98.2% on its own digit",
        sentence="A model that writes dates anew: while it writes the year, each row looks at the digit it copies.",
        where=f"Head {_name(ALIGNING_HEAD)} of {DATES_MODEL}, cross-attention",
        page="heads",
        address=_head(DATES_MODEL, DATE, ALIGNING_HEAD, measured.EIGHT_AT_SEVEN)
        | {state.KIND: "cross", state.TARGET_AS: "generated"},
        measure=measured.date,
        alt="Attention weights of the characters of 1987-03-03 on “the 3rd of march 1987”: bright steps at the year.",
    ),
    View(
        word="patching",
        title="Patching a pronoun",
        claim="18% of the way",
        sentence="“It” is the animal or, too wide, the street. Here heads give what they give in the other sentence.",
        where=f"Head {_name(measured.PATCHED)} of {SENTENCE_MODEL}, patched",
        page="what_if",
        address=_head(SENTENCE_MODEL, TIRED, measured.PATCHED) | {state.VIEW: "patch", state.SOURCE_TEXT: WIDE},
        measure=measured.patching,
        alt="A grid of all heads, coloured by how far each one, patched, moves the sentence vector.",
    ),
    View(
        word="two_sentences",
        title="Tired, or wide?",
        claim="67% → 56% on “animal”",
        sentence="The same head on two sentences that differ in one word, and where it looks differently.",
        where=f"Head {PRONOUN_HEAD} of {SENTENCE_MODEL}, from “it”",
        page="what_if",
        address=_head(SENTENCE_MODEL, TIRED, PRONOUN_HEAD)
        | {state.VIEW: "compare", state.COMPARE_WITH: "text", state.OTHER_TEXT: WIDE}
        | {state.PLACE_OF_QUERY: str(measured.IT_AT_ANIMAL[0]), state.PLACE_OF_KEY: str(measured.IT_AT_ANIMAL[1])},
        measure=measured.two_sentences,
        alt="The difference of two heads' weights: blue where the second sentence gets less, orange where it gets more.",
    ),
    View(
        word="two_heads",
        title="Two heads side by side",
        claim="0.64 of 0.69 nats apart",
        sentence="One looks a step back, the other a step ahead. Two rows can hardly have less in common.",
        where=f"Heads {_name(measured.BACK)} and {_name(measured.AHEAD)} of {SENTENCE_MODEL}",
        page="what_if",
        address=_head(SENTENCE_MODEL, TIRED, measured.BACK)
        | {state.VIEW: "compare", state.COMPARE_WITH: "head"}
        | {state.OTHER_LAYER: str(measured.AHEAD[0]), state.OTHER_HEAD: str(measured.AHEAD[1])},
        measure=measured.two_heads,
        alt="Two heads' attention weights: a line below the diagonal, and a line above it.",
    ),
    View(
        word="unscaled",
        title="What 1/√d_k is for",
        claim="60% → 100%",
        sentence="Switch the scaling off in a real head, and every row sees a single token.",
        where=f"Head {_name(measured.UNSCALED)} of {LANGUAGE_MODEL}, from “was”",
        page="step_by_step",
        address=_head(LANGUAGE_MODEL, TIRED, measured.UNSCALED, measured.WAS_AT_ANIMAL) | {state.SCALING: "false"},
        measure=measured.unscaled,
        alt="The same head's weights twice: spread over several tokens with scaling, on one a row without it.",
    ),
    View(
        word="grouped",
        title="Nine heads, three keys",
        claim="9 queries, 3 keys",
        sentence="Each head asks a question of its own, and three of them share what they look for it in.",
        where=f"Layer {measured.SHARED_LAYER} of {LANGUAGE_MODEL}",
        page="step_by_step",
        address=_head(LANGUAGE_MODEL, TIRED, (measured.SHARED_LAYER, 8)) | {state.STAGE: "key"},
        measure=measured.grouped,
        alt="Nine small matrices of queries, and below each three of them one of keys.",
    ),
    View(
        word="rotary",
        title="A rotary score in bands",
        claim="50.6 in 32 bands",
        sentence="A score is the sum of what each band adds: slow ones compare content, fast ones tell near from far.",
        where=f"Head {_name(measured.TURNED)} of {LANGUAGE_MODEL}, “didn” at “animal”",
        page="word_order",
        address=_head(LANGUAGE_MODEL, TIRED, measured.TURNED) | {state.PART: "model"},
        measure=measured.rotary,
        alt="Bars, one for each band from fast to slow: what it adds to the score.",
    ),
    View(
        word="entropy",
        title="All heads at once",
        claim="0.00 to 1.63 nats",
        sentence="Some heads look at a single token, others spread out: entropy tells them apart.",
        where=f"All heads of {LANGUAGE_MODEL}",
        page="heads",
        address=_head(LANGUAGE_MODEL, TIRED, (0, 1)) | _by("entropy"),
        measure=measured.entropy,
        alt="A grid of all heads, coloured by the entropy of their attention.",
    ),
    View(
        word="saturation",
        title="Softmax, saturated",
        claim="0.999 on the largest",
        sentence="Divide four scores by a low temperature, and softmax gives everything to one of them.",
        where=f"Temperature {measured.TEMPERATURE:g}",
        page="softmax",
        address={
            state.SCORES: ", ".join(map(str, measured.SCORES)),
            state.TEMPERATURE: f"{measured.TEMPERATURE:g}",
        },
        measure=measured.saturation,
        alt="Four weights at temperature 1, and at 0.2, where one of them is nearly all.",
    ),
    View(
        word="leak",
        title="−5 is not −∞",
        claim="0.017 leaks",
        sentence="Give forbidden keys a low score instead of none at all, and they still get attention.",
        where="An untrained head under a causal mask",
        page="masking",
        address={state.PART: "zero", state.FILL: f"{measured.FILL:g}", state.SENTENCE: measured.MASKED},
        measure=measured.leak,
        alt="Attention weights under a causal mask: where nothing may be, faint colours are left.",
    ),
    View(
        word="order",
        title="Order lost",
        claim="below 10⁻¹² apart",
        sentence="Shuffle the words. Without positions each output moves along with its word and stays what it is.",
        where="An untrained head without positions",
        page="word_order",
        address={state.PART: "shuffle", state.ORDER_TEXT: measured.ORDER, state.ORDER_SEED: str(measured.SHUFFLE)},
        measure=measured.order,
        alt="Attention weights of a sentence and of the same words shuffled: the same colours in other places.",
    ),
    View(
        word="in_blocks",
        title="A few keys at a time",
        claim="below 10⁻¹² apart",
        sentence="Softmax seems to need the whole row. With a running maximum and sum, blocks end with the same output.",
        where="An untrained head, three keys a block",
        page="blocks",
        address={state.SENTENCE: measured.IN_BLOCKS, state.BLOCK_SIZE: str(measured.BLOCK)},
        measure=measured.in_blocks,
        alt="The output after each block of keys, and computed directly: the last two rows are the same.",
    ),
    View(
        word="gradients",
        title="How far back learning reaches",
        claim="19 powers of ten",
        sentence="So much more gradient arrives 63 tokens back through attention than through a recurrent layer.",
        where="Untrained layers of 32 numbers, five seeds",
        page="long_range",
        address={state.PART: "gradients", state.LENGTH: str(measured.FAR)},
        measure=measured.gradients,
        alt="Curves of the gradient by distance: that of the recurrent layers falls steeply, that of attention hardly.",
    ),
    View(
        word="costs",
        title="What attention costs",
        claim="576 tokens",
        sentence="Up to here attention multiplies less than a recurrent layer as wide; beyond, more.",
        where=f"Vectors of {measured.WIDTH} numbers",
        page="long_range",
        address={state.PART: "steps", state.VECTOR_SIZE: str(measured.WIDTH)},
        measure=measured.costs,
        alt="Two lines that cross: the multiplications of attention and of a recurrent layer by the length of a text.",
    ),
    View(
        word="crossing",
        title="From one text into another",
        claim="4 × 7 weights",
        sentence="Cross-attention: queries from the text that is written, keys from the text that is read.",
        where="An untrained block of a decoder",
        page="self_and_cross",
        address={
            state.PART: "three",
            state.BLOCK: "cross",
            state.READ: measured.READ,
            state.WRITTEN: measured.WRITTEN,
        },
        measure=measured.crossing,
        alt="Attention weights, four rows by seven columns.",
    ),
    View(
        word="own_matrices",
        title="Your own numbers",
        claim="40.1% on the first key",
        sentence="Type Q, K and V, or upload them, and see every product on the way to the output.",
        where="Matrices small enough to follow by hand",
        page="step_by_step",
        address={
            state.SOURCE: "own",
            state.OWN["query"]: _matrix(measured.QUERY),
            state.OWN["key"]: _matrix(measured.KEY),
            state.OWN["value"]: _matrix(measured.VALUE),
            state.QUERY: "0",
            state.KEY: "0",
        },
        measure=measured.own_matrices,
        alt="Small matrices with their numbers printed.",
    ),
)
