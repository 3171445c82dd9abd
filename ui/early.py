"""What a browser may fetch before the page asks for it: the script that draws figures, half of all that a visit loads.

Streamlit asks for it when the first figure is drawn, and then waits. Named in the answer with the page itself, it comes while
the browser would have nothing to do: the first picture is there .4 s of 2.5 earlier. Scripts of fields are too small to matter.
"""

from __future__ import annotations

import re
from pathlib import Path

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SCRIPTS = Path(streamlit.__file__).parent / "static" / "static" / "js"
_HEAD = 2**15  # bytes of a script that hold its imports
_IMPORTED = re.compile(rb"""(?:from|import)\s*["']\./([\w.-]+\.js)["']""")


def early_scripts() -> list[str]:
    """The script's name and those of all that it imports; none where another version of Streamlit calls it otherwise."""
    found: list[str] = []
    waiting = [script.name for script in sorted(SCRIPTS.glob("PlotlyChart.*.js"))]
    while waiting:
        name = waiting.pop(0)
        if name not in found and (SCRIPTS / name).is_file():
            found.append(name)
            with (SCRIPTS / name).open("rb") as script:
                waiting += [imported.decode() for imported in _IMPORTED.findall(script.read(_HEAD))]
    return found


class FetchEarly:
    """Adds a line to the answer with the page itself that names what can be fetched meanwhile."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._links = ", ".join(f"</static/js/{name}>; rel=modulepreload" for name in early_scripts())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_links(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if self._links and headers.get("content-type", "").startswith("text/html"):
                    headers.append("link", self._links)
            await send(message)

        await self._app(scope, receive, send_with_links)
