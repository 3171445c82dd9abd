"""Headlight's server: `streamlit run app.py`.

The script that names the pages is in ui/, not beside pages/: there, Streamlit would take that folder for its own kind of
multipage app and break the first link opened after a start.
"""

import gc
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

import streamlit as st
from starlette.middleware import Middleware
from streamlit import config

from ui import given, settings
from ui.freed import share_freed
from ui.serving import FetchEarly, answer_in_order, forget_callbacks, send_at_once
from ui.sharing import served
from ui.views.corpus.folders import delete_left

try:
    allowed = settings.current()
except settings.SettingsError as error:
    sys.exit(f"Headlight cannot start. {error}")
config.set_option("server.maxUploadSize", allowed.upload_mb)
share_freed()

# NumPy reads this when it is imported, later. Its threads wait for each other after every small product. That took ten times
# as long when the browser or another session needed a processor too, and gains little on an idle machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@asynccontextmanager
async def start(_: st.App) -> AsyncIterator[None]:
    """Prepare for the first visitor. transformers is imported here: two sessions that import it at once break it."""
    send_at_once()
    answer_in_order()
    forget_callbacks()
    delete_left()
    given.announce()
    import_module("core.models.loading")
    leaving = import_module("ui.leaving")
    gc.freeze()  # everything imported so far stays: scanning it for garbage sometimes cost a visitor a quarter of a second
    with leaving.forgetting():
        yield


app = st.App("ui/shell.py", lifespan=start, middleware=[Middleware(FetchEarly)], routes=served.ROUTES)
