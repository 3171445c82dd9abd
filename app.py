"""Headlight: `streamlit run app.py`.

The script that names the pages lies in ui/, away from pages/: beside it, Streamlit would take that folder for its own kind
of multipage app and break the first link opened after a start.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

import streamlit as st
from starlette.middleware import Middleware
from streamlit import config

from ui import settings
from ui.early import FetchEarly
from ui.sharing import plotly_js

try:
    allowed = settings.current()
except settings.SettingsError as error:
    sys.exit(f"Headlight cannot start. {error}")
config.set_option("server.maxUploadSize", allowed.upload_mb)

# NumPy reads this when it is imported, which is later. Its threads wait for each other after every small product; where the
# browser or another session wants a processor too, that took ten times as long, and on an idle machine it gains little.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@asynccontextmanager
async def start(_: st.App) -> AsyncIterator[None]:
    """Read torch and transformers before the first visitor comes: two sessions that import transformers at once break it."""
    import_module("core.models.loading")
    gc.freeze()  # what is there now stays: looking through it for garbage cost a visitor a quarter of a second now and then
    yield


app = st.App("ui/shell.py", lifespan=start, middleware=[Middleware(FetchEarly)], routes=[plotly_js.ROUTE])
