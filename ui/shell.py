"""The frame of every page: it names the pages, runs the one that is open, and handles its address and actions."""

import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from core.figures.heatmaps.side_by_side import WIDTH as EQUATION_WIDTH  # noqa: E402
from ui import lessons, links, presenting, progress, shown, state  # noqa: E402 - found only now
from ui.components.browser import held  # noqa: E402
from ui.components.keys import await_keys, listen  # noqa: E402
from ui.components.pin import read_cells  # noqa: E402
from ui.gallery.views import opening_of  # noqa: E402
from ui.serving import admit  # noqa: E402
from ui.sharing.dialog import keep, open_dialog  # noqa: E402
from ui.turns import TURNS  # noqa: E402
from ui.views import talking  # noqa: E402
from ui.views.sources import text_fields  # noqa: E402

STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
# Without a menu there is no place for buttons, and the page needs no room above it.
IN_A_FRAME = f".st-key-{state.ACTIONS} {{ display: none; }} .stMainBlockContainer {{ padding-top: 1rem; }}"
embedded = bool(st.context.is_embedded)  # ?embed=true: in a frame on another site's page
st.set_page_config(
    page_title="Headlight", page_icon=str(ROOT / "ui/icon.png"), layout="wide", initial_sidebar_state="collapsed"
)
st.html(f"<style>:root {{ --equation: {EQUATION_WIDTH}px; }} {STYLE}{IN_A_FRAME if embedded else ''}</style>")
admit()
GALLERY = st.Page(ROOT / "pages/gallery.py", title="Gallery", icon=":material/gallery_thumbnail:", default=True)
STEPS = st.Page(ROOT / "pages/step_by_step.py", title="Step by step", icon=":material/steps:")
HEADS = st.Page(ROOT / "pages/heads.py", title="Heads", icon=":material/apps:")
CARD = st.Page(ROOT / "pages/head.py", title="Head", icon=":material/badge:")
EXHIBIT = st.Page(ROOT / "pages/exhibit.py", title="Exhibit", icon=":material/folder_open:")
WHY = st.Page(ROOT / "pages/why.py", title="Why", icon=":material/account_tree:")
WHAT_IF = st.Page(ROOT / "pages/what_if.py", title="What if", icon=":material/tune:")
GENERATION = st.Page(ROOT / "pages/generation.py", title="Generation", icon=":material/edit_note:")
CORPUS = st.Page(ROOT / "pages/corpus.py", title="Corpus", icon=":material/library_books:")
CLAIMS = st.Page(ROOT / "pages/claims.py", title="Claims", icon=":material/fact_check:")
CHANGES = st.Page(ROOT / "pages/what_changed.py", title="What changed", icon=":material/difference:")
TALK = st.Page(ROOT / "pages/talk.py", title="Talk", icon=":material/slideshow:")
OLD_ATLAS = st.Page(lambda: None, title="Atlas", url_path="atlas", visibility="hidden")  # now the page "Heads"
LEARN = [st.Page(lessons.file(name), title=title) for name, title in lessons.LESSONS.items()]
PAGES = [GALLERY, STEPS, HEADS, WHY, WHAT_IF, GENERATION, CORPUS, CLAIMS, CHANGES, CARD, TALK, EXHIBIT, *LEARN]
menu = {
    "": [GALLERY, STEPS, HEADS, WHY, WHAT_IF, GENERATION, CORPUS, OLD_ATLAS],
    "Learn": LEARN,
    "More": [CLAIMS, CARD, CHANGES, TALK, EXHIBIT],
}
page = st.navigation(menu, position="hidden" if embedded else "top")
if page == OLD_ATLAS:
    links.lead_on(HEADS.url_path)
elif page == GALLERY and links.asks_for_something():  # it has no fields; formerly Step by step was the start page
    links.lead_on(STEPS.url_path)
is_for_the_desk = page in (GALLERY, TALK, EXHIBIT)
opens_file = any(key in st.session_state for key in (state.EXHIBIT, state.EXHIBIT_IS_NEW))
is_leaving = state.GOING in st.session_state
opening = opening_of(page.url_path)
if not is_leaving:
    came_by_menu = links.read(page.url_path, opening)
    compares_texts = page == WHY and state.LIKE_TEXT in st.session_state[state.CHOSEN]  # with an encoder
    if came_by_menu and page in (GENERATION, WHY) and not compares_texts:
        text_fields.open_with_a_writer()
on_page = shown.begin(page.title, page.url_path)
presentation = None if is_for_the_desk or is_leaving else presenting.begin()
keys = st.container(key=state.STAGE_PLACE, gap=None)  # above the page: it stays while the page changes
if presentation is None:
    with keys:
        await_keys()
notes = st.empty()
wants_to_share = talking.show_actions(
    page.url_path,
    [other.url_path for other in PAGES],
    can_present=not is_for_the_desk,
    has_pictures=not is_for_the_desk or (page == EXHIBIT and opens_file),
)
if is_leaving:
    st.stop()  # the browser goes to another address, which this page's address must not replace
with TURNS.page(), progress.watched():
    page.run()
if presentation is not None:
    index = talking.begin()
    if talking.is_rehearsing() and index is not None:
        keep(on_page, held().views[index])
    with keys:
        listen(presentation, page.url_path, held(), index, rehearsing=talking.is_rehearsing())
links.write(page.url_path, notes, opening, is_whole=bool(on_page.pictures or on_page.lists))
talking.remember(on_page)
read_cells()
if wants_to_share:
    open_dialog(on_page)
with TURNS.page(), progress.watched():
    for work in on_page.later:
        work()
