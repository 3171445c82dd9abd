"""Every page in its place."""

import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from core.figures.equation import WIDTH as EQUATION_WIDTH  # noqa: E402
from ui import lessons, links, presenting, shown, state, stores, visitors  # noqa: E402 - only now can it be found
from ui.components.cells import read_cells  # noqa: E402
from ui.components.stage import stage_keys  # noqa: E402
from ui.sharing.dialog import open_dialog  # noqa: E402
from ui.views import scene, talking  # noqa: E402
from ui.views.actions import IN_A_FRAME, STYLE, show_actions  # noqa: E402

embedded = bool(st.context.is_embedded)  # ?embed=true: in a frame on somebody else's page
st.set_page_config(page_title="Headlight", page_icon=str(ROOT / "ui/icon.png"), layout="wide")
# The equation is never narrower than its letters need: on a phone its line scrolls. A badge rather takes two lines than loses
# words.
st.html(
    "<style>.stMainBlockContainer { padding-top: 4.2rem; padding-bottom: 3rem; }"
    f".st-key-{state.EQUATION} {{ overflow-x: auto; scroll-margin-top: 4rem; }}"
    f".st-key-{state.EQUATION} > * {{ min-width: {EQUATION_WIDTH}px; }}"
    ".stApp .stMain .stMarkdownBadge { white-space: normal; }"
    f"[class*=st-key-{state.alike(0)[:-1]}] p {{ text-align: start; }}"  # a list: on a phone its lines are longer than one
    f"{STYLE}{IN_A_FRAME if embedded else ''}</style>"
)
visitors.admit()
GALLERY = st.Page(ROOT / "pages/gallery.py", title="Gallery", icon=":material/gallery_thumbnail:", default=True)
STEPS = st.Page(ROOT / "pages/step_by_step.py", title="Step by step", icon=":material/steps:")
HEADS = st.Page(ROOT / "pages/heads.py", title="Heads", icon=":material/apps:")
EXHIBIT = st.Page(ROOT / "pages/exhibit.py", title="Open a file", icon=":material/folder_open:")
WHAT_IF = st.Page(ROOT / "pages/what_if.py", title="What if", icon=":material/tune:")
GENERATION = st.Page(ROOT / "pages/generation.py", title="Generation", icon=":material/edit_note:")
CORPUS = st.Page(ROOT / "pages/corpus.py", title="Corpus", icon=":material/library_books:")
TALK = st.Page(ROOT / "pages/talk.py", title="Talk", icon=":material/slideshow:")


def lead_on() -> None:
    """The atlas is now the page "Heads"."""
    st.switch_page(HEADS, query_params=links.here())


OLD_ATLAS = st.Page(lead_on, title="Atlas", url_path="atlas", visibility="hidden")
LEARN = [st.Page(lessons.file(name), title=title) for name, title in lessons.LESSONS.items()]
PAGES = [GALLERY, STEPS, HEADS, WHAT_IF, GENERATION, CORPUS, TALK, EXHIBIT, *LEARN]
page = st.navigation({"": [*PAGES[: -len(LEARN)], OLD_ATLAS], "Learn": LEARN}, position="hidden" if embedded else "top")
if (page == GALLERY and links.are_of_old_start()) or (page == HEADS and links.are_of_old_heads()):
    st.switch_page(STEPS, query_params=links.here())
links.read(page.url_path)
state.carry_over(page, goes_back=links.is_going_back(), instead=scene.WRITERS if page == GENERATION else {})
on_page = shown.begin(page.title, page.url_path)
is_for_the_desk = page in (GALLERY, TALK, EXHIBIT)
opens_file = any(key in st.session_state for key in (state.EXHIBIT, state.EXHIBIT_IS_NEW))
stage = None if is_for_the_desk else presenting.begin()
keys = st.container(key=state.STAGE_PLACE, gap=None)  # before the page: it stays while that changes
if stage is not None and state.ON_THE_WAY in st.query_params:
    with keys:
        stage_keys(
            stage, page.url_path, talking.held(), talking.begin(), rehearsing=talking.is_rehearsing(), on_the_way=True
        )
    st.stop()
notes = st.empty()
going = st.session_state.pop(state.GOING, None)
wants_to_share = show_actions(
    page.url_path,
    [one.url_path for one in PAGES],
    going=going,
    can_present=not is_for_the_desk,
    has_pictures=not is_for_the_desk or (page == EXHIBIT and opens_file),
)
if going is not None:
    st.stop()  # the browser is on its way, and would be overtaken by this page's address
with stores.turns.page():
    page.run()
if stage is not None:
    at = talking.begin()
    with keys:
        stage_keys(stage, page.url_path, talking.held(), at, rehearsing=talking.is_rehearsing())
links.write(notes)
read_cells()
if wants_to_share:
    open_dialog(on_page)
