"""Many heads."""

import streamlit as st

st.subheader("Many heads", anchor=False)
