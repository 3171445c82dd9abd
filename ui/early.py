"""What a browser has before the page asks for it: the script that draws figures, half of all that a visit loads; and keys.

Streamlit asks for that script when the first figure is drawn, and then waits. Named in the answer with the page itself, it
comes while the browser would have nothing to do: the first picture is there .4 s of 2.5 earlier. Scripts of fields are too
small to matter. Keys that somebody presses meanwhile on a page that is presented are kept by a script within the page.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SCRIPTS = Path(streamlit.__file__).parent / "static" / "static" / "js"
_OWN = b"<script>" + Path(__file__).with_suffix(".js").read_bytes() + b"</script>"
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
    """Adds to the answer with the page itself what can be fetched meanwhile, and a script of our own that is there at once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._links = ", ".join(f"</static/js/{name}>; rel=modulepreload" for name in early_scripts())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held: list[Message] = []  # the beginning of a page, until all of it is there

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_page(message):
                held.append(message)
            elif held:
                held.append(message)
                if not message.get("more_body", False):
                    for one in self._with_more(held):
                        await send(one)
            else:
                await send(message)

        await self._app(scope, receive, send_more)

    def _with_more(self, page: list[Message]) -> tuple[Message, Message]:
        start, *parts = page
        body = b"".join(part.get("body", b"") for part in parts)
        headers = MutableHeaders(scope=start)
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
            del headers["content-encoding"]
        body = body.replace(b"</head>", _OWN + b"</head>", 1)
        if self._links:
            headers.append("link", self._links)
        if body:  # and no answer to who asks for the headers alone
            headers["content-length"] = str(len(body))
            del headers["etag"]  # which was that of the page without the script
        return start, {"type": "http.response.body", "body": body, "more_body": False}


def _is_page(start: Message) -> bool:
    return MutableHeaders(scope=start).get("content-type", "").startswith("text/html")
