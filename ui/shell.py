"""Every page in its place."""

import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from ui import state  # noqa: E402 - only now can it be found

st.set_page_config(page_title="Headlight", page_icon=str(ROOT / "ui/icon.png"), layout="wide")
st.html("<style>.stMainBlockContainer { padding-top: 4.2rem; padding-bottom: 3rem; }</style>")
LESSONS = {
    "softmax": "Softmax",
    "scaling": "Why 1/√d_k",
    "masking": "Masks",
    "many_heads": "Many heads",
    "self_and_cross": "Self and cross",
    "word_order": "Word order",
    "long_range": "Long range",
    "blocks": "In blocks",
}
page = st.navigation(
    {
        "": [
            st.Page(ROOT / "pages/step_by_step.py", title="Step by step", icon=":material/steps:", default=True),
            st.Page(ROOT / "pages/atlas.py", title="Atlas", icon=":material/apps:"),
            st.Page(ROOT / "pages/heads.py", title="Heads", icon=":material/grid_on:"),
        ],
        "Learn": [st.Page(ROOT / f"pages/learn/{name}.py", title=title) for name, title in LESSONS.items()],
    },
    position="top",
)
state.carry_over(page)
page.run()
