"""What a browser may fetch before the page asks for it: the script that draws figures, which is most of what a visit loads.

Streamlit asks for it when the first figure arrives, after a good deal of waiting in which the browser has nothing to do.
"""

from __future__ import annotations

from pathlib import Path

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SCRIPTS = Path(streamlit.__file__).parent / "static" / "static" / "js"


def early_scripts() -> list[str]:
    """The addresses of the scripts; none where another version of Streamlit calls them otherwise."""
    return [f"/static/js/{script.name}" for script in sorted(_SCRIPTS.glob("PlotlyChart.*.js"))]


class FetchEarly:
    """Adds a line to the answer with the page itself that names what can be fetched meanwhile."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._links = ", ".join(f"<{script}>; rel=modulepreload" for script in early_scripts())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_links(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if self._links and headers.get("content-type", "").startswith("text/html"):
                    headers.append("link", self._links)
            await send(message)

        await self._app(scope, receive, send_with_links)
