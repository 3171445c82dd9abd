"""The start page: links to the main pages, and a card for each view."""

from __future__ import annotations

import streamlit as st

from ui import links, state
from ui.gallery.views import CARDS, PICTURES, Card
from ui.lessons import LESSONS

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

# The whole card is a link, though only its title is a link element; the picture has its room before it is loaded. On a phone
# the picture stands beside the words, or the page would be ten screens long.
_CARDS, _CARD = f"[class*=st-key-{state.one_of(state.CARDS, '')}]", f"[class*=st-key-{state.one_of(state.CARD, '')}]"
STYLE = (
    f"{_CARDS} {_CARD} {{ position: relative; }}"
    f"{_CARDS} [data-testid=stPageLink] a::after {{ content: ''; position: absolute; inset: 0; }}"
    f"{_CARDS} [data-testid=stPageLink] a {{ padding-left: 0; }}"
    f"{_CARDS} h4 {{ font-size: 1.1rem; padding: 0 0 .6rem; }}"
    f"{_CARDS} p {{ line-height: 1.4; }}"
    f"{_CARDS} {_CARD}:hover {{ border-color: currentColor; }}"
    f"{_CARDS} img {{ aspect-ratio: 16 / 9; }}"
    f"@media (max-width: 640px) {{ {_CARDS} {_CARD} {{ display: grid; grid-template-columns: 6.5rem 1fr; column-gap: .8rem; }}"
    f"{_CARDS} {_CARD} > :first-child {{ grid-row: 1 / span 4; }} {_CARDS} {_CARD} > :last-child {{ display: none; }} }}"
)


def show_ways_in() -> None:
    """Show a link to each main page."""
    with st.container(horizontal=True, gap="small", key=state.WAYS_IN):
        for way in WAYS_IN:
            links.link_to(*way)


def show_cards() -> None:
    """Show all cards, each group in a grid."""
    st.html(f"<style>{STYLE}</style>")
    for number, (group, words) in enumerate(GROUPS.items()):
        st.subheader(group, anchor=False)
        with st.grid(4, min_column_width=230, key=state.one_of(state.CARDS, number)):
            for word in words:
                with st.container(border=True, key=state.one_of(state.CARD, word), gap="xsmall", height="stretch"):
                    _show(word, CARDS[word])


def _show(word: str, card: Card) -> None:
    st.image(PICTURES / f"{word}.png", width="stretch", alt=card.alt)
    links.link_to(card.page, f"**{card.title}**", None, links.lasting(card.address))
    st.markdown(f"#### {card.claim}", anchors=False)
    st.markdown(card.sentence)
    st.caption(card.where)
