"""Why 1/√d_k."""

import streamlit as st

st.subheader("Why 1/√d_k", anchor=False)
