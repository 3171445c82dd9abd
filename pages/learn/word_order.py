"""Word order."""

import streamlit as st

st.subheader("Word order", anchor=False)
