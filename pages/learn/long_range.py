"""Long range."""

import streamlit as st

st.subheader("Long range", anchor=False)
