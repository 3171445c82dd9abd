"""Visitors without a browser: they speak Streamlit's own protocol over its WebSocket, so that only the server is measured.

A visitor opens a page, takes in what the server sends, changes fields, presses buttons and hands over files. Like a browser
one keeps the elements that are on the page, and answers with the ids of its widgets and the address that it came with.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from types import TracebackType
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from streamlit.proto.Alert_pb2 import Alert
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from ui import state

# How each widget sends what somebody chose.
_VALUES = {
    "button_group": "string_array_value",
    "checkbox": "bool_value",
    "multiselect": "string_array_value",
    "number_input": "double_value",
    "selectbox": "string_value",
    "slider": "double_array_value",
    "text_area": "string_value",
    "text_input": "string_value",
}


class Left(Exception):
    """The server has closed the connection."""


@dataclass
class Answer:
    """What has come since the visitor's last act.

    figures     (seconds after the act, the figure as JSON) of each chart by its key, as often as it was drawn
    exceptions  what Streamlit shows of errors that nobody caught
    """

    begun: bool = False
    ended: bool = False
    asked: float = field(default_factory=time.perf_counter)
    figures: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    exceptions: list[str] = field(default_factory=list)

    def figure(self, name: str) -> list[tuple[float, str]]:
        """Of the chart of that name, see `ui.state.picture`."""
        return self.figures.get(state.picture(name), [])


class Visitor:
    """One session in one window: `async with Visitor(address) as visitor`. A browser may refuse cookies."""

    def __init__(self, address: str, *, cookies: bool = True) -> None:
        self._takes_cookies = cookies
        self.answer = Answer()
        self.pages: list[Any] = []  # of the app, as its menu names them
        self._address = address
        self.query = ""  # of the address, as the page last said it
        self._page, self._session, self._run = "", "", 0
        self._elements: dict[tuple[int, ...], tuple[int, Any]] = {}  # by place: in which run it came, and what it is
        self._touched: dict[str, WidgetState] = {}
        self._urls: Any = None
        self._news = asyncio.Event()

    async def __aenter__(self) -> Visitor:
        with await asyncio.to_thread(urlopen, f"{self._address}/_stcore/health", timeout=60) as response:
            cookies = [next(iter(SimpleCookie(line).values())) for line in response.headers.get_all("Set-Cookie", [])]
        self._cookies = "; ".join(f"{cookie.key}={cookie.value}" for cookie in cookies if self._takes_cookies)
        self._token = next(cookie.value for cookie in cookies if cookie.key == "_streamlit_xsrf")
        self._socket: ClientConnection = await connect(
            f"{self._address.replace('http', 'ws', 1)}/_stcore/stream",
            additional_headers={"Cookie": self._cookies},
            subprotocols=["streamlit", self._token],  # type: ignore[list-item]
            origin=self._address,  # type: ignore[arg-type]
            max_size=None,
            open_timeout=60,
            ping_interval=None,
            proxy=None,
        )
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._socket.close()
        await asyncio.gather(self._reader, return_exceptions=True)

    # --- what a visitor does

    async def open(self, page: str = "", query: Mapping[str, str] | str = "") -> Answer:
        """Arrive by a link. A text is taken as the address has it, a mapping is encoded."""
        query = query if isinstance(query, str) else urlencode(query)
        return await self._act(query=query, page=page)

    async def change(self, key: str, value: Any) -> Answer:
        """Choose or type something in a widget, by its key."""
        kind, widget = self.widget(key)
        shown = WidgetState(id=widget.id)
        if _VALUES[kind].endswith("array_value"):
            getattr(shown, _VALUES[kind]).data.extend(value)
        else:
            setattr(shown, _VALUES[kind], value)
        self._touched[widget.id] = shown
        return await self._act()

    async def press(self, button: Any) -> Answer:
        return await self._act(WidgetState(id=button.id, trigger_value=True))

    async def upload(self, key: str, name: str, content: bytes) -> tuple[int, Answer]:
        """Hand a file to an upload field; gives the status of the upload, and what came of it."""
        _, widget = self.widget(key)
        request = BackMsg()
        request.file_urls_request.request_id = "one"
        request.file_urls_request.file_names.append(name)
        request.file_urls_request.session_id = self._session
        self._urls = None
        await self._socket.send(request.SerializeToString())
        await self.until(lambda: self._urls is not None)
        status = await asyncio.to_thread(self._put, self._urls.upload_url, name, content)
        shown = WidgetState(id=widget.id)
        if status < 300:
            info = shown.file_uploader_state_value.uploaded_file_info.add(name=name, size=len(content))
            info.file_id = self._urls.file_id
            info.file_urls.CopyFrom(self._urls)
        self._touched[widget.id] = shown
        return status, await self._act()

    async def until(self, condition: Callable[[], object], patience: float = 120) -> None:
        """Wait for what the server sends. Raises TimeoutError, and Left where it hangs up."""
        async with asyncio.timeout(patience):
            while not condition():
                if self._reader.done():
                    self._reader.result()  # raises what went wrong in it
                    raise Left(f"code {self._socket.close_code} {self._socket.close_reason}")
                self._news.clear()
                await self._news.wait()

    async def finished(self, patience: float = 120) -> Answer:
        await self.until(lambda: self.answer.ended, patience)
        return self.answer

    # --- what is on the page

    def on_page(self, kind: str) -> Iterator[Any]:
        """The elements of a kind, such as "button": those of the run at hand, and once it has ended no others."""
        return (
            getattr(element, kind)
            for run, element in self._elements.values()
            if run == self._run and element.WhichOneof("type") == kind
        )

    def widget(self, key: str) -> tuple[str, Any]:
        """The kind and the element of the widget with this key."""
        for _, element in reversed(self._elements.values()):
            kind = element.WhichOneof("type")
            if key_of(getattr(getattr(element, kind), "id", "")) == key:
                return kind, getattr(element, kind)
        raise KeyError(f"there is no {key!r} on the page")

    def complaints(self) -> list[str]:
        """What the page says is wrong."""
        return [alert.body for alert in self.on_page("alert") if alert.format == Alert.ERROR]

    # --- the protocol

    async def _act(self, *pressed: WidgetState, query: str | None = None, page: str = "") -> Answer:
        """Ask for another run of the page, with everything that has been touched."""
        message = BackMsg()
        asked = message.rerun_script
        if query is None:
            asked.page_script_hash, asked.query_string = self._page, self.query
        else:
            asked.page_name, asked.query_string = page, query
            self.query = query
        asked.widget_states.widgets.extend([*self._touched.values(), *pressed])
        self.answer = Answer()
        await self._socket.send(message.SerializeToString())
        return self.answer

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                assert isinstance(message, bytes)
                self._take(ForwardMsg.FromString(message))
                self._news.set()
        except ConnectionClosed:
            pass
        finally:
            self._news.set()

    def _take(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self._session = message.new_session.initialize.session_id
            self._run += 1
            self.answer.begun = True
        elif kind == "navigation":
            self._page, self.pages = message.navigation.page_script_hash, list(message.navigation.app_pages)
        elif kind == "file_urls_response":
            self._urls = message.file_urls_response.file_urls[0]
        elif not self.answer.begun:
            return  # it belongs to what the visitor did before
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            self._draw(tuple(message.metadata.delta_path), message.delta.new_element)
        elif kind == "script_finished" and message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
            self._elements = {place: one for place, one in self._elements.items() if one[0] == self._run}
            self.answer.ended = True

    def _draw(self, place: tuple[int, ...], element: Any) -> None:
        self._elements.pop(place, None)  # the newest ones come last
        self._elements[place] = (self._run, element)
        kind = element.WhichOneof("type")
        if kind == "plotly_chart":
            drawn = (time.perf_counter() - self.answer.asked, element.plotly_chart.spec)
            self.answer.figures.setdefault(key_of(element.plotly_chart.id), []).append(drawn)
        elif kind == "bidi_component" and key_of(element.bidi_component.id) == state.FOLLOWER:
            self.query = urlencode([*map(tuple, json.loads(element.bidi_component.json)["says"])])
        elif kind == "exception":
            self.answer.exceptions.append(f"{element.exception.type}: {element.exception.message}")
        elif getattr(getattr(element, kind or "", None), "set_value", False):
            self._touched.pop(getattr(element, kind).id, None)  # the page itself has changed it

    def _put(self, path: str, name: str, content: bytes) -> int:
        """Send a file as a form does; gives the status."""
        edge = "----headlight"
        named = name.replace('"', "%22")
        head = f'--{edge}\r\nContent-Disposition: form-data; name="{named}"; filename="{named}"\r\n\r\n'
        request = Request(
            self._address + path,
            head.encode() + content + f"\r\n--{edge}--\r\n".encode(),
            {
                "Content-Type": f"multipart/form-data; boundary={edge}",
                "Cookie": self._cookies,
                "X-Xsrftoken": self._token,
            },
            method="PUT",
        )
        try:
            with urlopen(request, timeout=60) as response:
                return response.status
        except HTTPError as error:
            return error.code


def key_of(widget: str) -> str:
    """The key in a widget's id, which Streamlit writes as $$ID-hash-key."""
    return widget.split("-", 2)[2] if widget.count("-") >= 2 else ""
