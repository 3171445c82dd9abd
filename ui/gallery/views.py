"""The cards of the gallery: their words, and the address of each view; and the start page, which shows them. The tests measure
their numbers again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from core.heads.examples import FRANCE, KNOWS_PARIS, LANGUAGE_MODEL, PRONOUN_HEAD, SENTENCE_MODEL, TIRED, WIDE, OneHead
from core.installed import how_to_install_models
from core.lessons.self_and_cross import ALIGNING_HEAD, DATE, DATES_MODEL
from core.models.catalogue import not_installed
from ui import links, state
from ui.lessons import LESSONS

PICTURES = Path(__file__).parent / "pictures"

REPEATED = "seven green doors and a cold river seven green doors and a cold river"
CUT_SHORT = REPEATED.removesuffix(" doors and a cold river")

# The head of each view, and its pair as (query, key)
IT_AT_ANIMAL = (10, 2)
INDUCTION_HEAD, GREEN_AT_DOORS = OneHead(18, 6), (8, 2)
PREVIOUS_HEAD = OneHead(16, 0)
BACK, AHEAD = OneHead(0, 2), OneHead(1, 8)
PATCHED = OneHead(5, 9)
UNSCALED, WAS_AT_ANIMAL = OneHead(13, 8), (9, 1)
SHARED_LAYER = 13
TURNED = OneHead(13, 8)

SCORES, TEMPERATURE = (1.0, 0.5, 2.5, -0.1), 0.2
ORDER, SHUFFLE = "the dog bites the man", 29
MASKED, FILL = "The cat sat. A dog ran.", -5.0
IN_BLOCKS, BLOCK = "Blocks of keys give the very same result as all keys.", 3
FAR, WIDTH = 64, 576
NEW, IS_AT_FRANCE = 6, (4, 3)
EIGHT_AT_SEVEN = (3, 20)  # the row of 8 writes 7
READ, WRITTEN = "Le chat est sur le tapis.", "The cat is on"
QUERY, KEY, VALUE = "1 0\n0 1", "1 0\n0 1\n1 1", "1\n2\n3"


@dataclass(frozen=True)
class Card:
    """A card of the gallery, which leads to a view."""

    title: str
    claim: str  # its number with its unit, with as many digits as all machines agree on
    sentence: str  # what there is to see
    where: str  # the head or experiment in which the number is measured
    page: str  # the page of the view, by its name in addresses
    address: Mapping[str, str]  # the address of the view, with every choice that the number depends on
    alt: str  # the picture in words, for people who cannot see it


def _head(model: str, text: str, place: tuple[int, int], cell: tuple[int, int] | None = None) -> dict[str, str]:
    """Return the address of a head on a text, with a query and a key, if any."""
    address = {state.MODEL: model, state.TEXT: text, state.LAYER: str(place[0]), state.HEAD: str(place[1])}
    return address if cell is None else address | {state.QUERY: str(cell[0]), state.KEY: str(cell[1])}


def _by(metric: str) -> dict[str, str]:
    """Return the address of all heads by a metric, measured on the text."""
    return {state.METRIC: metric, state.MEASURED_ON: "text"}


# By their short names, which their pictures have too
CARDS = {
    "pronoun": Card(
        title="Who is “it”?",
        claim="67.3% on “animal”",
        sentence="In the row of “it” one cell is bright: the word that “it” refers to.",
        where=f"Head {PRONOUN_HEAD} of {SENTENCE_MODEL}",
        page="step_by_step",
        address=_head(SENTENCE_MODEL, TIRED, PRONOUN_HEAD, IT_AT_ANIMAL),
        alt="Attention weights: the row of “it” is brightest at “animal”.",
    ),
    "induction": Card(
        title="What came next last time?",
        claim="75% on “doors”",
        sentence="The text repeats. At the second “green”, an induction head looks at what followed the first “green”.",
        where=f"Head {INDUCTION_HEAD} of {LANGUAGE_MODEL}",
        page="heads",
        address=_head(LANGUAGE_MODEL, REPEATED, INDUCTION_HEAD, GREEN_AT_DOORS) | _by("induction"),
        alt="Attention weights with a bright stripe, one place after each word's first occurrence.",
    ),
    "previous": Card(
        title="One step back",
        claim="100% one token back",
        sentence="This head looks at the previous token: the bright line runs just below the diagonal.",
        where=f"Head {BACK} of {SENTENCE_MODEL}",
        page="heads",
        address=_head(SENTENCE_MODEL, TIRED, BACK) | _by("previous"),
        alt="Attention weights: a bright line one place below the diagonal.",
    ),
    "sink": Card(
        title="Resting on the first token",
        claim="68% on the first token",
        sentence="Heads that find nothing to look for rest on the first token: most of the grid is bright.",
        where=f"The mean of all heads of {LANGUAGE_MODEL}",
        page="heads",
        address=_head(LANGUAGE_MODEL, TIRED, (18, 8)) | _by("sink"),
        alt="A grid of all heads, most of them bright: their share on the first token.",
    ),
    "paris": Card(
        title="The head that knows Paris",
        claim="77% → 14%",
        sentence="Mute one head, and the model hardly continues “The capital of France is” with “Paris”.",
        where=f"Head {KNOWS_PARIS} of {LANGUAGE_MODEL}",
        page="what_if",
        address=_head(LANGUAGE_MODEL, FRANCE, KNOWS_PARIS) | {state.EDITS: f"mute {KNOWS_PARIS}"},
        alt="Two bars: the probability of “Paris” with the head, and the much smaller one without it.",
    ),
    "why": Card(
        title="What wrote “Paris”?",
        claim="3.01 of 7.31",
        sentence="Follow the answer back: one head adds more than any other component, and read it from “France”.",
        where=f"Head {KNOWS_PARIS} of {LANGUAGE_MODEL}, “Paris” rather than “Rome”",
        page="why",
        address={state.MODEL: LANGUAGE_MODEL, state.TEXT: FRANCE, state.ANSWER: " Paris", state.RATHER_THAN: " Rome"},
        alt="A grid of layers by heads: the contribution of one head stands out.",
    ),
    "circuit": Card(
        title="An induction circuit, read",
        claim="10.1 of 10.3",
        sentence="Why does an induction head find “doors”? Nearly all of its score is what one head before wrote there.",
        where=f"Heads {INDUCTION_HEAD} and {PREVIOUS_HEAD} of {LANGUAGE_MODEL}",
        page="why",
        address={state.MODEL: LANGUAGE_MODEL, state.TEXT: CUT_SHORT, state.ANSWER: " doors"}
        | {state.PATH: f"{INDUCTION_HEAD}>2, key {PREVIOUS_HEAD}>1", state.STOP: "1"},
        alt="A path of dots from “doors” over two heads back to the text.",
    ),
    "generation": Card(
        title="While “Paris” is written",
        claim="90.3% on “France”",
        sentence="The model writes token by token. In the first step, the head looks back at the country.",
        where=f"Head {KNOWS_PARIS} of {LANGUAGE_MODEL}, from “is”",
        page="generation",
        address=_head(LANGUAGE_MODEL, FRANCE, KNOWS_PARIS)
        | {state.NEW_TOKENS: str(NEW), state.STEP: "1", state.KEY: str(IS_AT_FRANCE[1])},
        alt="A row of attention weights for each new token; in the first one “France” is bright.",
    ),
    "date": Card(
        title="Reading a date, digit by digit",
        claim="98.2% on its own digit",
        sentence="A model rewrites a date. While it writes the year, each row looks at the digit that it copies.",
        where=f"Head {OneHead(*ALIGNING_HEAD)} of {DATES_MODEL}, cross-attention",
        page="heads",
        address=_head(DATES_MODEL, DATE, ALIGNING_HEAD, EIGHT_AT_SEVEN)
        | {state.KIND: "cross", state.TARGET_AS: "generated"},
        alt="Attention weights of the characters of 1987-03-03 on “the 3rd of march 1987”: bright steps at the year.",
    ),
    "patching": Card(
        title="Patching a pronoun",
        claim="19% of the way",
        sentence="“It” is the tired animal, or the wide street. In turn, each head takes its output from the other sentence.",
        where=f"Head {PATCHED} of {SENTENCE_MODEL}, patched",
        page="what_if",
        address=_head(SENTENCE_MODEL, TIRED, PATCHED) | {state.VIEW: "patch", state.SOURCE_TEXT: WIDE},
        alt="A grid of all heads, coloured by how far each one, patched, moves the sentence vector.",
    ),
    "two_sentences": Card(
        title="Tired, or wide?",
        claim="67% → 56% on “animal”",
        sentence="The same head on two sentences that differ in one word, and the difference of its weights.",
        where=f"Head {PRONOUN_HEAD} of {SENTENCE_MODEL}, from “it”",
        page="what_if",
        address=_head(SENTENCE_MODEL, TIRED, PRONOUN_HEAD)
        | {state.VIEW: "compare", state.COMPARE_WITH: "text", state.OTHER_TEXT: WIDE}
        | {state.PLACE_OF_QUERY: str(IT_AT_ANIMAL[0]), state.PLACE_OF_KEY: str(IT_AT_ANIMAL[1])},
        alt="The difference of two heads' weights: blue where the second sentence gets less, orange where it gets more.",
    ),
    "two_heads": Card(
        title="Two heads side by side",
        claim="0.64 of at most 0.69",
        sentence="One head looks a step back, the other a step ahead: their rows are nearly as far apart as possible.",
        where=f"Heads {BACK} and {AHEAD} of {SENTENCE_MODEL}",
        page="what_if",
        address=_head(SENTENCE_MODEL, TIRED, BACK)
        | {state.VIEW: "compare", state.COMPARE_WITH: "head"}
        | {state.OTHER_LAYER: str(AHEAD[0]), state.OTHER_HEAD: str(AHEAD[1])},
        alt="Two heads' attention weights: a line below the diagonal, and a line above it.",
    ),
    "unscaled": Card(
        title="What 1/√d_k is for",
        claim="60% → 100%",
        sentence="Switch off scaling in a real head, and every row looks at a single token.",
        where=f"Head {UNSCALED} of {LANGUAGE_MODEL}, from “was”",
        page="step_by_step",
        address=_head(LANGUAGE_MODEL, TIRED, UNSCALED, WAS_AT_ANIMAL) | {state.SCALING: "false"},
        alt="The same head's weights twice: spread over several tokens with scaling, on one a row without it.",
    ),
    "grouped": Card(
        title="Nine heads, three keys",
        claim="9 queries, 3 keys",
        sentence="Every head has its own queries; every three heads share keys and values.",
        where=f"Layer {SHARED_LAYER} of {LANGUAGE_MODEL}",
        page="step_by_step",
        address=_head(LANGUAGE_MODEL, TIRED, (SHARED_LAYER, 8)) | {state.STAGE: "key"},
        alt="Nine small matrices of queries, and below each three of them one of keys.",
    ),
    "rotary": Card(
        title="A rotary score in bands",
        claim="50.6 in 32 bands",
        sentence="A score is a sum over bands: slow bands compare content, fast bands distinguish near from far.",
        where=f"Head {TURNED} of {LANGUAGE_MODEL}, “didn” at “animal”",
        page="word_order",
        address=_head(LANGUAGE_MODEL, TIRED, TURNED) | {state.PART: "model"},
        alt="Bars, one for each band from fast to slow: what it adds to the score.",
    ),
    "entropy": Card(
        title="All heads at once",
        claim="0.00 to 1.63 nats",
        sentence="Some heads look at a single token, others at many. Entropy tells them apart.",
        where=f"All heads of {LANGUAGE_MODEL}",
        page="heads",
        address=_head(LANGUAGE_MODEL, TIRED, (0, 1)) | _by("entropy"),
        alt="A grid of all heads, coloured by the entropy of their attention.",
    ),
    "saturation": Card(
        title="Softmax, saturated",
        claim="0.999 on the largest",
        sentence="Divide four scores by a low temperature, and softmax gives all the weight to one of them.",
        where=f"Temperature {TEMPERATURE:g}",
        page="softmax",
        address={state.SCORES: ", ".join(map(str, SCORES)), state.TEMPERATURE: f"{TEMPERATURE:g}"},
        alt="Four weights at temperature 1, and at 0.2, where one of them is nearly all.",
    ),
    "leak": Card(
        title="−5 is not −∞",
        claim="0.017 leaks",
        sentence="Give forbidden keys a low score instead of −∞, and they still get attention.",
        where="An untrained head under a causal mask",
        page="masking",
        address={state.PART: "zero", state.FILL: f"{FILL:g}", state.SENTENCE: MASKED},
        alt="Attention weights under a causal mask: faint colours remain where all weights should be 0.",
    ),
    "order": Card(
        title="Order lost",
        claim="below 10⁻¹² apart",
        sentence="Shuffle the words. Without positions, each output moves with its word and does not change.",
        where="An untrained head without positions",
        page="word_order",
        address={state.PART: "shuffle", state.ORDER_TEXT: ORDER, state.ORDER_SEED: str(SHUFFLE)},
        alt="Attention weights of a sentence and of the same words shuffled: the same colours in other places.",
    ),
    "in_blocks": Card(
        title="A few keys at a time",
        claim="below 10⁻¹² apart",
        sentence="Softmax seems to need the whole row. With a running maximum and sum, blocks of keys give the same output.",
        where="An untrained head, blocks of three keys",
        page="blocks",
        address={state.SENTENCE: IN_BLOCKS, state.BLOCK_SIZE: str(BLOCK)},
        alt="The output after each block of keys, and computed directly: the last two rows are the same.",
    ),
    "gradients": Card(
        title="How far back learning reaches",
        claim="19 powers of ten",
        sentence="That much more gradient reaches 63 tokens back through attention than through a recurrent layer.",
        where="Untrained layers of 32 numbers, five seeds",
        page="long_range",
        address={state.PART: "gradients", state.LENGTH: str(FAR)},
        alt="Curves of the gradient by distance: that of the recurrent layers falls steeply, that of attention hardly.",
    ),
    "costs": Card(
        title="What attention costs",
        claim="576 tokens",
        sentence="In shorter texts attention multiplies less than a recurrent layer of the same width, in longer texts more.",
        where=f"Vectors of {WIDTH} numbers",
        page="long_range",
        address={state.PART: "steps", state.VECTOR_SIZE: str(WIDTH)},
        alt="Two lines that cross: the multiplications of attention and of a recurrent layer by the length of a text.",
    ),
    "crossing": Card(
        title="From one text into another",
        claim="4 × 7 weights",
        sentence="Cross-attention: queries come from the text that is written, keys from the text that is read.",
        where="An untrained block of a decoder",
        page="self_and_cross",
        address={state.PART: "three", state.BLOCK: "cross", state.READ: READ, state.WRITTEN: WRITTEN},
        alt="Attention weights, four rows by seven columns.",
    ),
    "own_matrices": Card(
        title="Your own numbers",
        claim="40.1% on the first key",
        sentence="Type Q, K and V, or upload them, and see every product on the way to the output.",
        where="Matrices small enough to follow by hand",
        page="step_by_step",
        address={state.SOURCE: "own", state.OWN["query"]: QUERY, state.OWN["key"]: KEY, state.OWN["value"]: VALUE}
        | {state.QUERY: "0", state.KEY: "0"},
        alt="Small matrices with their numbers printed.",
    ),
}

# The views with which pages open for somebody who has chosen nothing: page -> address
OPENINGS = {"heads": _head(SENTENCE_MODEL, TIRED, BACK), "corpus": {state.RUN: state.RUN_INCLUDED}}
OPENINGS |= {CARDS[word].page: CARDS[word].address for word in ("paris", "why", "generation")}


def opening_of(page: str) -> Mapping[str, str]:
    """Return the address with which a page opens; empty if it has none, or its model is not installed."""
    address = OPENINGS.get(page, {})
    return {} if address.get(state.MODEL) in not_installed() else address


# --- the start page

WAYS_IN = (
    ("step_by_step", "Type a sentence, see every step", ":material/steps:"),
    ("heads", "All heads of a model at once", ":material/apps:"),
    (next(iter(LESSONS)), "Learn it in nine lessons", ":material/school:"),
)

# The cards by their short names, a group with what belongs together
GROUPS = {
    "Start here": ("pronoun", "induction", "paris", "why"),
    "Language": (
        "generation",
        "circuit",
        "previous",
        "sink",
        "entropy",
        "grouped",
        "date",
        "crossing",
        "order",
        "rotary",
    ),
    "Change": ("patching", "two_sentences", "two_heads", "unscaled"),
    "Theory": ("saturation", "leak", "in_blocks", "gradients", "costs", "own_matrices"),
}


def show_ways_in() -> None:
    """Show a link to each main page."""
    with st.container(horizontal=True, gap="small", key=state.WAYS_IN):
        for way in WAYS_IN:
            links.link_to(*way)


def show_cards() -> None:
    """Show all cards, each group in a grid; less those of models that are not installed, and how to install these."""
    if missing := not_installed():
        how = f"can be installed with `{how_to_install_models()}`. Their views are left out here."
        st.info(f"{' and '.join(missing)} {how}", icon=":material/download:")
    for number, (group, words) in enumerate(GROUPS.items()):
        cards = {word: CARDS[word] for word in words if CARDS[word].address.get(state.MODEL) not in missing}
        if not cards:
            continue
        st.subheader(group, anchor=False)
        with st.grid(4, min_column_width=230, key=state.one_of(state.CARDS, number)):
            for word, card in cards.items():
                with st.container(border=True, key=state.one_of(state.CARD, word), gap="xsmall", height="stretch"):
                    _show(word, card)


def _show(word: str, card: Card) -> None:
    st.image(PICTURES / f"{word}.png", width="stretch", alt=card.alt)
    links.link_to(card.page, f"**{card.title}**", None, links.lasting(card.address))
    st.markdown(f"#### {card.claim}", anchors=False)
    st.markdown(card.sentence)
    st.caption(card.where)
