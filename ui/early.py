"""What a browser may fetch before the page asks for it: the scripts that draw figures and fields.

Streamlit asks for each of them when the first element of its kind is drawn, one after another, and waits each time. Named in
the answer with the page itself, they come while the browser would have nothing to do.
"""

from __future__ import annotations

import re
from pathlib import Path

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SCRIPTS = Path(streamlit.__file__).parent / "static" / "static" / "js"
# What the first page draws, largest first.
DRAWN = (
    "PlotlyChart",
    "rehype-katex",
    "Selectbox",
    "BidiComponent",
    "Checkbox",
    "TextInput",
    "TextArea",
    "ButtonGroup",
)
_HEAD = 2**15  # bytes of a script that hold its imports
_IMPORTED = re.compile(rb"""(?:from|import)\s*["']\./([\w.-]+\.js)["']""")


def early_scripts() -> list[str]:
    """The names of these scripts and of all that they import; none where another version of Streamlit calls them otherwise."""
    found: list[str] = []
    waiting = [script.name for name in DRAWN for script in sorted(SCRIPTS.glob(f"{name}.*.js"))]
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
        self._links = ", ".join(
            f"</static/js/{name}>; rel=modulepreload; fetchpriority=low" for name in early_scripts()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_links(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if self._links and headers.get("content-type", "").startswith("text/html"):
                    headers.append("link", self._links)
            await send(message)

        await self._app(scope, receive, send_with_links)
