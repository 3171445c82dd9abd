"""What the server does differently from Streamlit: a visit starts early, messages are answered in order, a host can be full.

- The script that draws figures is half of all that a visit loads. Streamlit asks for it when the first figure is drawn, and
  then waits. Named in the headers of the page itself, it loads while the browser would have nothing to do: the first picture is
  there 0.4 s of 2.5 s earlier. Scripts of fields are too small to matter.
- Opened at the address of a page, Streamlit looks for its server below that page first, and 0.1 s later where it is. A script
  within the page says so at once. It also keeps keys that are pressed before a presented page can react to them.
- The server sends small messages without delay (`send_at_once`): without that, a first visit takes 0.2 s longer.
"""

import gzip
import re
import socket
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, local
from weakref import WeakKeyDictionary

import psutil
import streamlit
import streamlit as st
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import config
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.runtime import exists, get_instance
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import _has_active_trigger_value
from streamlit.runtime.state.common import user_key_from_element_id
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.runtime.state.session_state import SessionState

from ui import settings, state
from ui.lessons import PAGES

_mine = local()
_begin = SafeSessionState.on_script_will_rerun
_look = ScriptRunner._maybe_handle_execution_control_request
_take = AppSession.request_rerun
_forget_values = SessionState._remove_stale_widgets
_WENT: WeakKeyDictionary[AppSession, ClientState] = WeakKeyDictionary()  # where each session last went
SCRIPTS = Path(streamlit.__file__).parent / "static" / "static" / "js"
_OWN = b"<script>" + Path(__file__).with_suffix(".js").read_bytes() + b"</script>"
# Only the server knows where an address of ours ends in a page, and only the browser what a proxy has put before it.
_AT_A_PAGE = b"<script>window.headlight.findServer()</script>"
_OF_PAGES = state.IN_ADDRESS - {*state.HOW}  # names of fields
_PAGES = {file.stem for file in PAGES.rglob("*.py")}
_HEAD = 2**15  # bytes of a script that hold its imports
_IMPORTED = re.compile(rb"""(?:from|import)\s*["']\./([\w.-]+\.js)["']""")


def early_scripts() -> list[str]:
    """Return the names of the script and of all that it imports; none if a version of Streamlit names the script otherwise."""
    names: list[str] = []
    waiting = [script.name for script in sorted(SCRIPTS.glob("PlotlyChart.*.js"))]
    while waiting:
        name = waiting.pop(0)
        if name not in names and (SCRIPTS / name).is_file():
            names.append(name)
            with (SCRIPTS / name).open("rb") as script:
                waiting += [imported.decode() for imported in _IMPORTED.findall(script.read(_HEAD))]
    return names


def send_at_once() -> None:
    """Let this process's listening sockets send small messages without delay. Call it once the server listens.

    asyncio does this only for sockets that it opens itself, and Streamlit opens its own. Without it, the system holds each
    small message until the browser has confirmed the one before, up to 0.04 s. Where the system does not tell which sockets
    there are, nothing changes.
    """
    with suppress(psutil.Error, OSError):
        for connection in psutil.Process().net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                with socket.fromfd(connection.fd, connection.family, connection.type) as listening:
                    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # its connections inherit this


class FetchEarly:
    """Middleware that adds to the page's response the scripts to fetch early, and a script of our own that runs at once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._links = ", ".join(f"</static/js/{name}>; rel=modulepreload" for name in early_scripts())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held: list[Message] = []  # the messages of a page, until all of it is there

        async def send_more(message: Message) -> None:
            starts = message["type"] == "http.response.start"
            if starts and MutableHeaders(scope=message).get("content-type", "").startswith("text/html"):
                held.append(message)
            elif held:
                held.append(message)
                if not message.get("more_body", False):
                    for whole in self._with_more(held, scope["path"]):
                        await send(whole)
            else:
                await send(message)

        await self._app(scope, receive, send_more)

    def _with_more(self, page: list[Message], path: str) -> tuple[Message, Message]:
        start, *parts = page
        body = b"".join(part.get("body", b"") for part in parts)
        headers = MutableHeaders(scope=start)
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
            del headers["content-encoding"]
        below_root = path.strip("/").removeprefix(config.get_option("server.baseUrlPath").strip("/")).strip("/")
        own = _OWN + _AT_A_PAGE if below_root in _PAGES else _OWN
        body = body.replace(b"</head>", own + b"</head>", 1)
        if self._links:
            headers.append("link", self._links)
        if body:  # not if only the headers were requested
            headers["content-length"] = str(len(body))
            del headers["etag"]  # it is that of the page without the script
        return start, {"type": "http.response.body", "body": body, "more_body": False}


def answer_in_order() -> None:
    """Answer what the browser sends in the order in which it was sent: a message waits until the callbacks of the one before
    have ended. Call it before the first visitor.

    Streamlit's "fast reruns" are switched off for that (.streamlit/config.toml): with them, each message starts another thread
    on the same session, which can overtake the one before. Without them one thread answers all, at its next stop point. But
    Streamlit 1.67 looks for newer messages whenever a callback reads the session's state. One that has come ends the callback,
    and is answered after the others: by then a third may have come, and Streamlit takes the second for the newer of both.

    Every message names a page, and the browser names the old one until the new one has begun. What is pressed there, or a
    field or component tells, would lead back to it. So such a message counts for the page that was last gone to. Whoever goes
    to a page sends none of its fields.
    """

    def look(self: ScriptRunner) -> None:
        if not getattr(_mine, "is_undisturbed", False):
            _look(self)

    def take(self: AppSession, client_state: ClientState | None) -> None:
        if client_state is not None:
            went = _WENT.setdefault(self, client_state)
            if not (client_state.page_script_hash and any(map(_is_of_a_page, client_state.widget_states.widgets))):
                _WENT[self] = client_state
            elif went.page_script_hash and went.page_script_hash != client_state.page_script_hash:
                client_state.page_script_hash, client_state.query_string = went.page_script_hash, went.query_string
                client_state.is_history_navigation = went.is_history_navigation
        _take(self, client_state)

    AppSession.request_rerun = take
    SafeSessionState.on_script_will_rerun = undisturbed()(_begin)
    ScriptRunner._maybe_handle_execution_control_request = look


def forget_callbacks() -> None:
    """Let a session forget what fields would call that are no longer on its page. Call it before the first visitor.

    Streamlit 1.67 forgets their values, but keeps their callbacks for as long as the session lives, and with them the passes
    that they use: those of every page that a visitor has seen.
    """

    def forget(self: SessionState, active_widget_ids: frozenset[str]) -> None:
        _forget_values(self, active_widget_ids)
        context = get_script_run_ctx()
        if context is not None and not context.fragment_ids_this_run:  # a fragment is only a part of the page
            known = self._new_widget_state.widget_metadata
            for widget in known.keys() - active_widget_ids:
                # What a component triggers has an id of its own, with the component's in it.
                if not any(active in widget for active in active_widget_ids):
                    del known[widget]

    SessionState._remove_stale_widgets = forget


def sessions() -> set[str]:
    """The sessions that Streamlit knows, some minutes longer than their visitors are there."""
    return {session.id for session in [*_WENT]}


def forget_pages(left: Set[str]) -> bool:
    """Forget what the fields of these sessions would call, whose visitors have left: who comes back in time draws them anew.
    Return whether there were any."""
    known = [session.session_state._new_widget_state.widget_metadata for session in [*_WENT] if session.id in left]
    were_there = any(known)
    for one in known:
        one.clear()
    return were_there


def _is_of_a_page(widget: WidgetState) -> bool:
    """Return whether a message with this widget was sent by a page: the widget is one of its fields, or was pressed."""
    return _has_active_trigger_value(widget) or user_key_from_element_id(widget.id) in _OF_PAGES


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let newer messages wait while this changes several things in the session's state that belong together."""
    _mine.is_undisturbed = True
    try:
        yield
    finally:
        _mine.is_undisturbed = False


# --- how many visitors there may be


IDLE = 900.0  # seconds without a click after which a newcomer who finds no place gets this one


class Visitors:
    """The sessions that have a place, as long as each `is_there`, and when it was last seen. Threads may share it."""

    def __init__(self, is_there: Callable[[str], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._is_there, self._clock = is_there, clock
        self._seen: dict[str, float] = {}
        self._lock = Lock()

    def admit(self, session: str, most: int | None) -> bool:
        """Return whether this session has a place, or gets one of so many; None: of any number."""
        with self._lock:
            self._seen = {name: seen for name, seen in self._seen.items() if name == session or self._is_there(name)}
            if session not in self._seen and most is not None and len(self._seen) >= most:
                idlest = min(self._seen, key=self._seen.__getitem__)
                if self._clock() - self._seen[idlest] < IDLE:
                    return False
                del self._seen[idlest]
            self._seen[session] = self._clock()
            return True


_VISITORS = Visitors(lambda session: exists() and get_instance().is_active_session(session))


def admit() -> None:
    """End the page's run with a few words if there is no place for this visitor."""
    context = get_script_run_ctx()
    if context is None or _VISITORS.admit(context.session_id, settings.current().sessions):
        return
    st.title("Headlight is full")
    st.markdown("As many people as this host can serve are here now. Please come back in a few minutes.")
    st.button("Try again", key=state.TRY_AGAIN)
    st.stop()
