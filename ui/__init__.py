"""The code that knows both Streamlit and core: the page registry, shared controls, every widget key and every cache."""
