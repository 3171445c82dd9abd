"""Masks."""

import streamlit as st

st.subheader("Masks", anchor=False)
