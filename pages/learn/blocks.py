"""In blocks."""

import streamlit as st

st.subheader("In blocks", anchor=False)
