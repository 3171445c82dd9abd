"""Headlight: `streamlit run app.py`.

The script that names the pages lies in ui/, away from pages/: beside it, Streamlit would take that folder for its own kind
of multipage app and break the first link opened after a start.
"""

import streamlit as st

app = st.App("ui/shell.py")
