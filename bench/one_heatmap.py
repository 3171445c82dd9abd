"""The smallest Streamlit page with a Plotly heatmap: what opening a page of Headlight is measured against."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

st.set_page_config(layout="wide")
st.plotly_chart(go.Figure(go.Heatmap(z=np.eye(16))), theme=None)
