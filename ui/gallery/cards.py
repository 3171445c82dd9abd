"""The start page: links to the main pages, and a card for each view."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import streamlit as st
from streamlit.errors import StreamlitPageNotFoundError

from ui import lessons, links, state
from ui.gallery.views import CARDS, Card

WAYS_IN = (
    (lessons.PAGES / "step_by_step.py", "Type a sentence, see every step", ":material/steps:"),
    (lessons.PAGES / "heads.py", "All heads of a model at once", ":material/apps:"),
    (lessons.file(next(iter(lessons.LESSONS))), "Learn it in eight lessons", ":material/school:"),
)

# The whole card is a link, though only its title is a link element; the picture has its room before it is loaded.
_CARDS = f".st-key-{state.CARDS}"
STYLE = (
    f"{_CARDS} [class*=st-key-{state.CARD}] {{ position: relative; }}"
    f"{_CARDS} [data-testid=stPageLink] a::after {{ content: ''; position: absolute; inset: 0; }}"
    f"{_CARDS} [data-testid=stPageLink] a {{ padding-left: 0; }}"
    f"{_CARDS} h4 {{ font-size: 1.1rem; padding: 0 0 .6rem; }}"
    f"{_CARDS} p {{ line-height: 1.4; }}"
    f"{_CARDS} [class*=st-key-{state.CARD}]:hover {{ border-color: var(--st-primary-color); }}"
    f"{_CARDS} img {{ aspect-ratio: 16 / 9; }}"
)


def show_ways_in() -> None:
    """Show a link to each main page."""
    # A page that runs by itself knows no other pages.
    with st.container(horizontal=True, gap="medium"), suppress(StreamlitPageNotFoundError):
        for page, words, icon in WAYS_IN:
            st.page_link(page, label=words, icon=icon)


def show_cards() -> None:
    """Show all cards in a grid."""
    st.html(f"<style>{STYLE}</style>")
    with st.grid(4, min_column_width=230, key=state.CARDS):
        for card in CARDS:
            with st.container(border=True, key=state.card(card.word), gap="xsmall", height="stretch"):
                _show(card)


def _show(card: Card) -> None:
    st.image(card.picture, width="stretch", alt=card.alt)
    with suppress(StreamlitPageNotFoundError):
        st.page_link(_file(card.page), label=f"**{card.title}**", query_params=links.lasting(card.address))
    st.markdown(f"#### {card.claim}", anchors=False)
    st.markdown(card.sentence)
    st.caption(card.where)


def _file(page: str) -> Path:
    return lessons.file(page) if page in lessons.LESSONS else lessons.PAGES / f"{page}.py"
