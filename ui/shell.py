"""Every page in its place."""

import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

st.set_page_config(page_title="Headlight", page_icon=str(ROOT / "ui/icon.png"), layout="wide")
st.html("<style>.stMainBlockContainer { padding-top: 4.2rem; padding-bottom: 3rem; }</style>")
page = st.navigation(
    [
        st.Page(ROOT / "pages/step_by_step.py", title="Step by step", icon=":material/steps:", default=True),
        st.Page(ROOT / "pages/heads.py", title="Heads", icon=":material/grid_on:"),
    ],
    position="top",
)
page.run()
