"""Plotly figures from plain arrays and labels. Nothing here knows a model, a page or where the numbers came from."""
