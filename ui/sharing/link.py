"""Sharing a view as a link: the complete address of what a page shows, with a button that copies it."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st

from ui import links, state
from ui.controls.fields import uploaded_file
from ui.in_browser import component_beside
from ui.sharing.exhibit import full_address
from ui.shown import PageContents

LONG = 2_000  # characters: some programs cut longer addresses
LONGEST = 8_000  # characters: some servers refuse longer addresses

_COPY = component_beside(__file__, "buttons")


def show_link(shown: PageContents) -> None:
    """Show the address with a button that copies it, and say what it cannot hold."""
    address = link_to(shown, str(st.context.url or f"/{shown.page}"))
    if len(address) > LONGEST:
        st.warning(
            f"The address of this view would have {len(address):,} characters. Servers refuse more than about {LONGEST:,}. "
            f"Save the view as an exhibit instead.",
            icon=":material/link_off:",
        )
        return
    _COPY(key=state.COPY_LINK, data={"address": address})
    left_out = cannot_hold(shown)
    if left_out:
        st.caption(f"A link cannot hold {left_out}. Save an exhibit to keep this view.")
    if len(address) > LONG:
        st.caption(f"Some programs cut addresses of more than {LONG:,} characters; this one has {len(address):,}.")


def link_to(shown: PageContents, url: str) -> str:
    """Return the view's complete address below its page's `url`, with text, model and head even if they are opening values."""
    address = {name: words for name, words in full_address(shown).items() if any(words) and not links.is_foreign(name)}
    return f"{url.partition('?')[0]}?{urlencode(links.lasting(address), doseq=True)}"


def cannot_hold(shown: PageContents) -> str:
    """Return what the page shows and no address can hold, in words; "" if there is nothing."""
    if shown.of is not None and shown.of.text.image is not None:
        return "the image that you uploaded"
    is_own = links.here().get(state.SOURCE) == ["own"]
    if is_own and any(uploaded_file(key) is not None for key in (*state.FILES.values(), state.ARCHIVE)):
        return "the matrices that you uploaded"
    if shown.of is not None and shown.of.text.model.contents is not None:
        return "the file that you opened"
    return "the exhibit that you opened" if shown.of is None and shown.page == "exhibit" else ""
