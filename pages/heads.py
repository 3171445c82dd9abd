"""Any head of any model."""

import streamlit as st

st.title("Heads")
