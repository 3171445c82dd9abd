"""Self and cross."""

import streamlit as st

st.subheader("Self and cross", anchor=False)
