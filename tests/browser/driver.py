"""Headlight in a browser: a server of its own, the page worked by widget keys and roles, its pictures read as numbers.

A page is drawn after a test has acted, and on a busy machine much later. So a test never looks at it once: it waits with
Playwright's `expect`, or with `eventually` for what that cannot say; conftest.py forbids the rest. Whoever works a widget first
waits for the run that answers what was done before (`idle`).
"""

import base64
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar
from urllib.error import URLError
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
import psutil
from numpy.typing import NDArray
from playwright.sync_api import Browser, BrowserContext, Error, Locator, Page, WebSocket, expect, sync_playwright
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from check import find_browser
from core import AttentionTrace
from tests.ended import SLOW_BROWSER, SLOW_SERVER, Ended, within
from tests.source_files import ROOT
from ui import state

BROWSER_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost",  # nothing but this machine is found
    # Pages are too short-lived for scripts to be compiled well: without it they take an eighth less processor time.
    "--js-flags=--no-opt --no-maglev",
)
# Of a browser context: nothing glides or blinks, which would be drawn sixty times a second by the processor.
STILL: dict[str, Any] = {"reduced_motion": "reduce"}
GROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}  # of a page in both colour schemes
# Seconds until what must come is missed; only a failing test waits that long.
PATIENCE = 60.0 * SLOW_BROWSER * SLOW_SERVER
expect.set_options(timeout=1000 * PATIENCE)
address_of: Callable[[Page], str] = Page.url.fget  # conftest.py keeps tests from looking at it once
SLICE = 0.02  # seconds for which a slow server runs until it is held up again
Seen = TypeVar("Seen")

# The stages of a trace by the names of their pictures, spelled out here so that the app's own table is tested too.
STAGES: dict[str, Callable[[AttentionTrace], NDArray]] = {
    "Query": lambda trace: trace.query,
    "Key": lambda trace: trace.key,
    "Value": lambda trace: trace.value,
    "Raw scores": lambda trace: trace.raw,
    "Scaled": lambda trace: trace.scaled,
    "Mask": lambda trace: trace.mask.astype(float),
    "Masked": lambda trace: np.where(trace.mask, trace.masked, np.nan),
    "Softmax": lambda trace: np.where(trace.mask, trace.weights, np.nan),
    "Output": lambda trace: trace.output,
}
AS_IT_IS, CHANGED = "As it is", "Changed"

# Fields in popovers, which are on the page only while these are open.
POPOVERS = dict.fromkeys((state.SCALING, state.MASK, state.MASK_SIZE, state.MASK_GRID), "Scale and mask")
POPOVERS |= dict.fromkeys((state.PAIR, state.TARGET_AS, state.TARGET, state.DTYPE), "More")


# The small pictures of the equation, from the left to the right; that of the key is turned by 90 degrees.
EQUATION = ("Query", "Key", "Raw scores", "Scaled", "Mask", "Masked", "Softmax", "Value", "Output")


# --- the server


class Server:
    """`streamlit run app.py`, as a person starts it, on a free port; torch gets one thread, or what OMP_NUM_THREADS says."""

    running: ClassVar[list["Server"]] = []  # what they say is told where a test fails

    def __init__(self, script: str = "app.py") -> None:
        self.running.append(self)
        self.port = free_port()
        self.address = f"http://localhost:{self.port}"
        self._script = script
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process that writes to it
        environment = {"OMP_NUM_THREADS": "1"} | os.environ | self._environment()
        output = {"stdout": self._log, "stderr": subprocess.STDOUT}
        self._process = subprocess.Popen(self._command(), cwd=ROOT, env=environment, **output)
        if SLOW_SERVER > 1:
            threading.Thread(target=_hold_up, args=[self._process, SLOW_SERVER], daemon=True).start()

    def _command(self) -> tuple[str, ...]:
        options = ("--server.headless", "true", "--server.port", str(self.port))
        return (sys.executable, "-m", "streamlit", "run", self._script, *options)

    def _environment(self) -> dict[str, str]:
        return {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}

    def wait(self) -> Self:
        """Until it answers. The health check starts no session, so the first session is still to come."""
        while self._process.poll() is None:
            with contextlib.suppress(URLError, ConnectionError, TimeoutError):
                urlopen(f"{self.address}/_stcore/health", timeout=5).close()
                return self
            time.sleep(0.1)
        raise AssertionError(f"The server did not start:\n{self.log()}")

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def sessions(self) -> int:
        """How many sessions have begun here."""
        with urlopen(f"{self.address}/_stcore/metrics?families=session_events", timeout=PATIENCE) as answer:
            return int(answer.read().split(b'{type="connect"} ')[1].split()[0])

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def stop(self) -> None:
        self.running.remove(self)
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def free_port() -> int:
    """Below those that the system gives to connections, of which one could take it before a server listens there."""
    with socket.socket() as probe:
        while True:
            with contextlib.suppress(OSError):
                probe.bind(("localhost", port := random.randrange(20_000, 32_000)))
                return port


def _hold_up(process: subprocess.Popen, slow: float) -> None:
    while process.poll() is None:
        time.sleep(SLICE)
        process.send_signal(signal.SIGSTOP)
        time.sleep(SLICE * (slow - 1))
        process.send_signal(signal.SIGCONT)


class Proxy(Server):
    """Caddy with deploy/Caddyfile in front of copies of the app."""

    def __init__(self, copies: Iterable[Server]) -> None:
        self._copies = " ".join(f"127.0.0.1:{copy.port}" for copy in copies)
        self._home = tempfile.TemporaryDirectory()  # Caddy writes there
        super().__init__()

    def _command(self) -> tuple[str, ...]:
        return ("caddy", "run", "--config", "deploy/Caddyfile")

    def _environment(self) -> dict[str, str]:
        home = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), self._home.name)
        return home | {"SITE": f":{self.port}", "COPIES": self._copies}

    def stop(self) -> None:
        super().stop()
        self._home.cleanup()


@contextlib.contextmanager
def running(copies: int) -> Iterator[tuple[Server, list[Server]]]:
    """So many copies of the app: the server that visitors come to, which is a proxy if there are several, and the copies."""
    with contextlib.ExitStack() as running:
        started = [Server() for _ in range(copies)]
        for server in started:
            running.callback(server.stop)
        visited = started[0]
        if copies > 1:
            visited = Proxy(started)
            running.callback(visited.stop)
        for server in (*started, visited):
            server.wait()
        yield visited, started


# --- the browser


class Chromium:
    """A browser without a window. Where it was ended, or has died, it starts anew when the next page is asked for."""

    running: ClassVar[list["Chromium"]] = []

    def __init__(self) -> None:
        self._browser: Browser | None = None
        self._started = contextlib.ExitStack()
        self.running.append(self)

    def new_context(self, **options: Any) -> BrowserContext:
        if self._browser is None or not self._browser.is_connected():
            self.end()
            playwright = self._started.enter_context(sync_playwright())
            self._browser = playwright.chromium.launch(executable_path=find_browser(), args=BROWSER_ARGUMENTS)
            self._started.callback(self._browser.close)
        return self._browser.new_context(**options)

    @property
    def pages(self) -> list[Page]:
        """Those that show something."""
        contexts = [] if self._browser is None else self._browser.contexts
        return [page for context in contexts for page in context.pages if address_of(page) != "about:blank"]

    def has(self, page: Page) -> bool:
        if self._browser is None or not self._browser.is_connected() or page in crashed:
            return False
        return any(page in context.pages for context in self._browser.contexts)

    def end(self) -> None:
        """Whatever it does: it may never answer again. All calls that wait for it fail."""
        drivers = [process for process in psutil.Process().children() if process.name() == "node"]  # Playwright's
        for process in [one for driver in drivers for one in (driver, *driver.children(recursive=True))]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        with contextlib.suppress(Error):
            self._started.close()
        self._browser = None

    def stop(self) -> None:
        self.running.remove(self)
        self._started.close()


# --- pictures

# A chart's data and layout, and where its cells are on the screen; typed arrays as they came or as plain lists.
_READ = """
(keys) => Object.fromEntries(keys.map((key) => {
    const plain = (value) =>
        value === null || typeof value !== "object" ? value
        : value.bdata !== undefined ? { dtype: value.dtype, bdata: value.bdata, shape: value.shape }
        : ArrayBuffer.isView(value) ? Array.from(value)
        : Array.isArray(value) ? value.map(plain)
        : Object.fromEntries(Object.entries(value).map(([name, part]) => [name, plain(part)]));
    const charts = document.querySelectorAll(`.st-key-${key} .js-plotly-plot`);
    if (charts.length !== 1 || !charts[0].layout) return [key, null];
    return [key, { data: plain(charts[0].data), layout: plain(charts[0].layout) }];
}))
"""

# What widgets show; null while one is being drawn.
_VALUES = """
(keys) => Object.fromEntries(keys.flatMap((key) => {
    const widget = document.querySelector(`.st-key-${key}`);
    if (!widget) return [];
    const chosen = widget.querySelector("[role=radio][aria-checked=true]");
    const field = widget.querySelector("input[type=checkbox]") ?? widget.querySelector("input, textarea");
    if (chosen || !field) return [[key, chosen?.innerText ?? null]];
    return [[key, field.type === "checkbox" ? (field.checked ? "True" : "False") : field.value || field.placeholder]];
}))
"""

# The middle of a cell on the screen once nothing lies over it; null while the picture is being drawn anew.
_PLACE = """
([key, row, column]) => {
    const chart = document.querySelector(`.st-key-${key} .js-plotly-plot`);
    if (!chart || !chart._fullLayout || !chart._fullLayout.xaxis) return null;
    const { xaxis, yaxis } = chart._fullLayout;
    const centre = () => {
        const box = chart.getBoundingClientRect();
        return [box.left + xaxis._offset + xaxis.l2p(column), box.top + yaxis._offset + yaxis.l2p(row)];
    };
    const isFree = ([x, y]) => chart.querySelector(".nsewdrag") === document.elementFromPoint(x, y);
    if (!isFree(centre())) chart.scrollIntoView({ block: "center", behavior: "instant" });
    return isFree(centre()) ? centre() : null;
}
"""

# Whether the picture knows which cell the mouse is on, as it tells a person in a box beside the mouse.
_IS_POINTED_AT = """
([key, row, column]) => {
    const chart = document.querySelector(`.st-key-${key} .js-plotly-plot`);
    const isThere = (at) => Math.max(Math.abs(at.y - row), Math.abs(at.x - column)) < 1e-6; // numbers of points are rounded
    return Boolean(chart && chart._hoverdata && chart._hoverdata.some(isThere));
}
"""

# Counts what is asked of the server and which of it is answered: a run of the script that has ended answers all that was asked
# before it began, unless it was broken off for the next one. Messages are protocol buffers. In one to the server,
# `rerun_script` is field 11. In one from it, `new_session` is field 4 and `script_finished` field 6, where 2 says that the run
# was broken off; before them only fields 1 and 2 can stand, each with its length.
# And it keeps the clocks that are about to ring: a slider tells what was chosen 0.2 s later, a window its new size 0.25 s.
_NOTES = """
(() => {
    const SOON = 500;
    let asked = 0, begun = 0, answered = 0;
    const clocks = new Set(), set = window.setTimeout, clear = window.clearTimeout;
    window.setTimeout = (ring, delay, ...given) => {
        if (typeof ring !== "function" || delay > SOON) return set(ring, delay, ...given);
        const clock = set(() => { clocks.delete(clock); ring(...given); }, delay);
        clocks.add(clock);
        return clock;
    };
    window.clearTimeout = (clock) => { clocks.delete(clock); clear(clock); };
    window.later = set;
    window.isAnswered = () => answered === asked && clocks.size === 0;
    window.WebSocket = class extends WebSocket {
        constructor(...address) {
            super(...address);
            this.addEventListener("message", ({ data }) => {
                const bytes = new Uint8Array(data);
                let at = 0;
                while (bytes[at] === 0x0a || bytes[at] === 0x12) {
                    let length = 0, shift = 0;
                    do length |= (bytes[++at] & 0x7f) << shift, shift += 7; while (bytes[at] & 0x80);
                    at += 1 + length;
                }
                if (bytes[at] === 0x22) begun = asked;
                if (bytes[at] === 0x30 && bytes[at + 1] !== 2) answered = begun;
            });
        }
        send(message) {
            if (new Uint8Array(message)[0] === 0x5a) asked += 1;
            super.send(message);
        }
    };
})();
"""

# Comes when the run that answers what was asked last has ended, nothing is left over from an earlier one and every picture is
# drawn, in several frames of the browser, one after the other.
_IDLE = """
() => new Promise((come) => {
    const isQuiet = () => {
        const app = document.querySelector("[data-testid=stApp]");
        return window.isAnswered() && app !== null && app.dataset.testScriptState === "notRunning"
            && app.dataset.testConnectionState === "CONNECTED" && document.querySelector("[data-stale=true]") === null
            && document.querySelector("[class*=st-key-picture_]:not(:has(.js-plotly-plot))") === null;
    };
    const look = (frame) => {
        if (!isQuiet()) window.later(() => look(1), 25);
        else if (frame < 4) requestAnimationFrame(() => look(frame + 1));
        else come(true);
    };
    look(1);
})
"""


# What is cut off or has to be scrolled sideways: the page itself, a picture beyond its edge, a box whose content is wider. The
# text of a field scrolls as one types, a table of numbers in its own frame, and on a phone also rows of buttons.
_CUT = """
() => {
    const room = document.documentElement.clientWidth, cut = [];
    if (document.scrollingElement.scrollWidth > room) cut.push(`the page: ${document.scrollingElement.scrollWidth}`);
    for (const picture of document.querySelectorAll(".js-plotly-plot, .stApp iframe, .stApp canvas, .stApp img")) {
        const right = Math.round(picture.getBoundingClientRect().right);
        if (right > room && !picture.closest(".stDataFrame, .st-key-equation")) cut.push(`a picture: ${right}`);
    }
    for (const box of document.querySelectorAll(room < 600 ? ".stMain, .scroll" : ".stApp *:not(input, textarea)")) {
        const holds = getComputedStyle(box).overflowX !== "visible" && box.clientWidth > 2;
        const isCut = holds && box.scrollWidth > box.clientWidth + 1 && !box.closest(".stDataFrame");
        if (isCut) cut.push(`${box.className}: ${box.innerText?.slice(0, 60)}`);
    }
    return cut;
}
"""


@dataclass(frozen=True)
class Picture:
    """A Plotly figure as the browser holds it."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]

    @property
    def values(self) -> NDArray[np.floating]:
        """The drawn numbers: of a heatmap [rows, columns], NaN where a cell is forbidden or not drawn at all; else of bars."""
        heatmap = next((trace for trace in self.data if trace["type"] == "heatmap"), None)
        return array(self.data[0]["y"]) if heatmap is None else array(heatmap["z"])

    @property
    def places(self) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Where the columns and the rows of the drawn cells are, in the coordinates of the axes."""
        heatmap = next(trace for trace in self.data if trace["type"] == "heatmap")
        return array(heatmap["x"]), array(heatmap["y"])

    @property
    def lines(self) -> dict[str, tuple[NDArray[np.floating], NDArray[np.floating]]]:
        """The (x, y) of each line and row of dots that has a name."""
        named = [trace for trace in self.data if trace["type"] == "scatter" and trace.get("name")]
        return {trace["name"]: (array(trace["x"]), array(trace["y"])) for trace in named}

    @property
    def forbidden(self) -> NDArray[np.bool_]:
        """[rows, columns]: drawn grey."""
        grey = [trace for trace in self.data if trace["type"] == "heatmap" and trace.get("showscale") is False]
        return array(grey[0]["z"]) == 0 if grey else np.zeros(self.values.shape, bool)

    @property
    def pinned(self) -> tuple[float | None, float | None]:
        """(row, column) of the frames one cell wide; None where no row or no column is framed."""
        frames = self.layout.get("shapes", [])
        rows = {(frame["y0"] + frame["y1"]) / 2 for frame in frames if frame["y1"] - frame["y0"] == 1}
        columns = {(frame["x0"] + frame["x1"]) / 2 for frame in frames if frame["x1"] - frame["x0"] == 1}
        assert len(rows) <= 1, f"several rows are framed: {rows}"
        assert len(columns) <= 1, f"several columns are framed: {columns}"
        return next(iter(rows), None), next(iter(columns), None)


def array(value: Any) -> NDArray:
    """An array as Plotly takes it: {dtype, bdata, shape} in base64, or nested lists."""
    if not isinstance(value, dict):
        return np.array(value, dtype=float)
    flat = np.frombuffer(base64.b64decode(value["bdata"]), dtype=np.dtype("<" + value["dtype"]))
    return flat.reshape([int(length) for length in str(value["shape"]).split(",")]) if value.get("shape") else flat


def opacity(colour: str) -> float:
    """Of a colour as a browser writes it: 1 if it names none."""
    parts = [float(part) for part in re.findall(r"[\d.]+", colour)]
    return parts[3] if len(parts) == 4 else 1.0


def difference(picture: Picture | None, expected: NDArray | None) -> str | None:
    """What is wrong with a picture that should show these numbers, or not be there if they are None; None if nothing is."""
    if expected is None:
        return None if picture is None else "is there"
    if picture is None:
        return "is not there"
    drawn = picture.values
    if drawn.shape != expected.shape:
        return f"has the shape {drawn.shape} instead of {expected.shape}"
    if not np.array_equal(np.isnan(drawn), np.isnan(expected)):
        return "has its empty cells in other places"
    if not np.allclose(drawn, expected, rtol=1e-5, atol=1e-5 * np.nanmax(np.abs(expected), initial=0), equal_nan=True):
        return f"is off by {np.nanmax(np.abs(drawn - expected)):.3g}"
    return None


def troubles(pictures: Mapping[str, Picture | None], expected: Mapping[str, NDArray | None]) -> dict[str, str]:
    """What is wrong with each picture, by its name."""
    found = {name: difference(pictures[name], numbers) for name, numbers in expected.items()}
    return {name: trouble for name, trouble in found.items() if trouble is not None}


# --- the page


messages: WeakKeyDictionary[Page, deque[str]] = WeakKeyDictionary()  # the last of each page
crashed: WeakSet[Page] = WeakSet()


def new_page(context: BrowserContext) -> Page:
    context.set_default_timeout(1000 * PATIENCE)
    page = context.new_page()
    if SLOW_BROWSER > 1:
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOW_BROWSER})
    kept = messages[page] = deque(maxlen=30)
    page.on("console", lambda message: kept.append(f"console: {message.text[:500]}"))
    page.on("pageerror", lambda error: kept.append(f"uncaught: {error}"))
    page.on("crash", crashed.add)
    page.on("websocket", partial(_listen, kept))
    return page


def _listen(kept: deque[str], socket: WebSocket) -> None:
    """To what is asked and answered; not to the parts of a page."""

    def keep(words: str, kind: type[BackMsg | ForwardMsg], frame: str | bytes) -> None:
        if isinstance(frame, bytes) and len(frame) < 10_000:  # what is longer is a part, with pictures
            message = kind.FromString(frame)
            name = message.WhichOneof("type")
            if name != "delta":
                kept.append(f"{words} {name} {getattr(message, name) if name == 'script_finished' else ''}")

    socket.on("framesent", partial(keep, "sent", BackMsg))
    socket.on("framereceived", partial(keep, "received", ForwardMsg))


def told_of(page: Page, screenshot: Path) -> str:
    """What a test that has failed leaves behind on a page: its address, its last messages, and a picture of it in a file."""
    lines = [address_of(page), *messages.get(page, ())]
    try:
        with within(10):
            page.screenshot(path=screenshot, timeout=5000)
        lines.append(f"screenshot: {screenshot}")
    except (Error, Ended) as error:
        lines.append(f"no screenshot: {str(error).splitlines()[0]}")
    return "\n".join(lines)


deadlines: list[float] = []  # of the assertions that are waited for now, of which each is made by the one before it
# What is just being drawn has no text, no place and no numbers.
UNDRAWN = (Error, AssertionError, AttributeError, LookupError, TypeError, ValueError)


def eventually(page: Page, look: Callable[[], Seen], expected: object = bool) -> Seen:
    """Look at a page until what is seen is as expected, and return it; at the end of all patience say what was seen last.

    What is called meanwhile waits until the same moment at most, whether it is Playwright or another `eventually`.

    expected  a value, or a function that says whether a value will do
    """
    deadlines.append(deadlines[-1] if deadlines else time.monotonic() + PATIENCE)
    try:
        return _seen(page, look, expected, deadlines[-1])
    finally:
        deadlines.pop()
        _wait_until(page, deadlines[-1] if deadlines else time.monotonic() + PATIENCE)


def _seen(page: Page, look: Callable[[], Seen], expected: object, deadline: float) -> Seen:
    pause = 50.0  # milliseconds; what takes longer is looked at less often, because looking takes time too
    while True:
        _wait_until(page, deadline)
        try:
            seen = look()
            if expected(seen) if callable(expected) else seen == expected:
                return seen
            last = repr(seen)
        except UNDRAWN as error:
            last = f"{type(error).__name__}: {error}"
        if time.monotonic() > deadline:
            wanted = "" if callable(expected) else f", not {expected!r}"
            raise AssertionError(f"last seen: {last[:3000]}{wanted}")
        page.wait_for_timeout(pause)
        pause = min(1.3 * pause, 500.0)


def _wait_until(page: Page, deadline: float) -> None:
    """Playwright gives up then. 0 would mean never."""
    left = max(1.0, 1000 * (deadline - time.monotonic()))
    page.context.set_default_timeout(left)
    expect.set_options(timeout=left)


class App:
    """A page of Headlight, worked as a person does it. Everything that should not happen is noted in `problems`."""

    def __init__(self, context: BrowserContext, server: Server) -> None:
        self.server = server
        self.problems: list[str] = []
        self.sent: list[str | bytes] = []  # messages to the server
        self.settle_in(context)

    def settle_in(self, context: BrowserContext) -> Self:
        """On a page of this browser from now on."""
        self.page = new_page(context)
        self.page.add_init_script(_NOTES)
        self.page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("console", self._console)
        self.page.on("request", lambda request: self._requested(request.url))
        self.page.on("websocket", self._connected)
        return self

    def arrive(self, server: Server) -> Self:
        """Begin as a visitor of this server to whom nothing has happened yet."""
        self.server = server
        self.problems.clear()
        self.sent.clear()
        return self

    def leave(self) -> None:
        """Leave nothing behind for the next visitor."""
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.page.context.clear_cookies()
        self.page.mouse.move(0, 0)
        self.page.goto("about:blank")
        self.forget_history()

    def forget_history(self) -> None:
        """Nothing leads back from here. A browser keeps fifty entries, and then counts no further."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("Page.resetNavigationHistory")
        session.detach()

    def _dialog(self, dialog) -> None:
        self.problems.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def _console(self, message) -> None:
        # On a page below the root, Streamlit first looks for its own endpoints beneath that page. It also asks whether the
        # file of a button that downloads is there, which may be gone with the button by then.
        probing = "404" in message.text and re.search(r"/_stcore/|/media/\w+\.json$", message.location.get("url", ""))
        if message.type == "error" and not probing:
            self.problems.append(f"console: {message.text} ({message.location.get('url')})")

    def _connected(self, socket: WebSocket) -> None:
        self._requested(socket.url)
        socket.on("framesent", lambda frame: self.sent.append(frame))

    def _requested(self, url: str) -> None:
        parts = urlsplit(url.removeprefix("blob:"))
        if parts.scheme != "data" and parts.netloc != f"localhost:{self.server.port}":
            self.problems.append(f"a request left for {url}")

    def open(self, path: str = "/step_by_step") -> Self:
        self.page.goto(self.server.address + path, wait_until="commit")
        expect(self.page.locator("[class*=st-key-]").first).to_be_attached()  # before, nothing runs either
        return self.idle()

    def go(self, path: str) -> Self:
        """To another address in the same session, as the browser's own buttons go: for a fraction of what opening it takes."""
        self.page.evaluate("path => window.headlight.go(new URL(path, location.origin))", path)
        return self.reaches(path)

    def follow(self, link: str, path: str) -> Self:
        """Click a link that leads to another page."""
        self.idle().page.get_by_role("link", name=link, exact=True).first.click()
        return self.reaches(path)

    def reaches(self, path: str) -> Self:
        """Wait until the page of this address is there, whatever the address says of it."""
        self.eventually(lambda: self.here.partition("?")[0], path.partition("?")[0])
        return self.idle()

    def idle(self) -> Self:
        """Wait until everything that was asked of the server is answered, and drawn."""
        self.page.wait_for_function(_IDLE)
        return self

    def finished(self) -> Self:
        """With all that the page has to read: it stops after some seconds, which a busy machine needs for a part of it."""
        while self.idle().eventually(self.button("Continue").count, lambda _: True):
            self.click("Continue")
        return self

    def in_scheme(self, scheme: str) -> Self:
        """On a machine that prefers this colour scheme from now on. The page runs again in it."""
        self.page.emulate_media(color_scheme=scheme)
        expect(self.page.locator(".stApp")).to_have_css("background-color", GROUNDS[scheme])
        return self.idle()

    def reconnected(self) -> Self:
        """Wait until the connection is lost, and until it is there again."""
        for is_or_not in ("!==", "==="):
            connected = f"document.querySelector('.stApp').dataset.testConnectionState {is_or_not} 'CONNECTED'"
            self.page.wait_for_function(connected)
        return self.idle()

    # --- what is seen: each says what is there at this moment, so it is looked at by `eventually`

    def eventually(self, look: Callable[[], Seen], expected: object = bool) -> Seen:
        return eventually(self.page, look, expected)

    def settled(self, look: Callable[[], Seen]) -> Seen:
        """What nobody knows before, once nothing runs: seen twice. It is what something else is compared with later."""
        before: list[Seen] = []

        def is_as_before(seen: Seen) -> bool:
            before.append(seen)
            return before[-2:-1] == [seen]

        return self.eventually(lambda: self.idle() and look(), is_as_before)

    @property
    def here(self) -> str:
        """Path and query of the address, to be opened on another server."""
        return self.page.url.removeprefix(self.server.address)

    @property
    def said(self) -> dict[str, list[str]]:
        """What the address says after its path."""
        return parse_qs(urlsplit(self.page.url).query)

    def alerts(self) -> list[str]:
        """The texts of all boxes that say that something is wrong."""
        return self.page.get_by_role("alert").all_inner_texts()

    # --- what is waited for

    def says(self, *words: str) -> Self:
        """All of these words are on the page."""
        for part in words:
            expect(self.page.locator("body")).to_contain_text(part, use_inner_text=True)
        return self

    def never_says(self, *words: str) -> Self:
        """None of these words are on the page, now that nothing runs."""
        for part in words:
            expect(self.idle().page.locator("body")).not_to_contain_text(part, use_inner_text=True)
        return self

    def complains(self, *words: str) -> Self:
        """One box says that something is wrong, in these words."""
        self.eventually(self.alerts, lambda alerts: any(all(word in alert for word in words) for alert in alerts))
        return self

    def is_well(self) -> Self:
        """No box says that something is wrong, now that nothing runs."""
        expect(self.idle().page.get_by_role("alert")).to_have_count(0)
        return self

    def has(self, key: str, shown: str) -> Self:
        """A widget shows this: typed text, the chosen option, or what stands for an empty choice."""
        self.reached(key).eventually(lambda: self.fields([key]), {key: shown})
        return self

    def fits(self, width: int | None = None, height: int = 844) -> Self:
        """In a window of this size nothing is cut off, and nothing has to be scrolled sideways."""
        if width is not None:
            self.page.set_viewport_size({"width": width, "height": height})
        self.idle().eventually(lambda: self.page.evaluate(_CUT), [])
        return self

    def says_in_address(self, **said: object) -> Self:
        """The address says this of these fields; None: nothing."""
        wanted = {name: None if word is None else [str(word)] for name, word in said.items()}
        self.eventually(lambda: {name: self.said.get(name) for name in wanted}, wanted)
        return self

    def shades(
        self, weights: NDArray[np.floating], among: Locator | None = None, *, pointed: Locator | None = None
    ) -> Self:
        """The background of every token is as strong as its weight is, in units of the strongest.

        pointed  the token that the pointer is on. What is drawn anew under a pointer that rests does not notice it
        """
        tokens = self.page.locator(".token") if among is None else among
        colours = "tokens => tokens.map(token => getComputedStyle(token).backgroundColor)"

        def seen() -> NDArray:
            if pointed is not None:
                pointed.hover()
            shown = np.array([opacity(colour) for colour in tokens.evaluate_all(colours)])
            return shown / shown.max()

        self.eventually(seen, lambda shown: np.allclose(shown, weights / weights.max(), rtol=0, atol=0.02))
        return self

    # --- widgets, by their keys: whoever works one waits until nothing runs, as people do

    def widget(self, key: str) -> Locator:
        return self.page.locator(f".st-key-{key}")

    def reached(self, key: str) -> Self:
        """With the popover open that has this field, if it is in one."""
        return self.unfold(POPOVERS[key]) if key in POPOVERS else self

    def unfold(self, name: str, *, fold: bool = False) -> Self:
        """Open a popover, or close it; a click elsewhere closes it too."""
        button = self.page.get_by_test_id("stPopoverButton").filter(has_text=re.compile(re.escape(name)))

        def is_as_wanted() -> bool:
            if button.get_attribute("aria-expanded") == str(not fold).lower():
                return True
            button.click()
            return False

        self.idle().eventually(is_as_wanted)
        return self.idle()

    def choose(self, key: str, option: object) -> Self:
        """Choose from a select box."""
        box = self.idle().reached(key).widget(key).get_by_role("combobox")
        box.click()
        box.fill(str(option))
        self.page.get_by_role("option", name=str(option), exact=True).click()
        return self

    def press(self, key: str, name: str) -> Self:
        """Press one of the buttons of a segmented control."""
        self.idle().widget(key).get_by_role("radio", name=name, exact=True).click()
        return self

    def toggle(self, key: str, name: str) -> Self:
        """Press one of several pills that can be on together."""
        self.idle().widget(key).get_by_role("button", name=name, exact=True).click()
        return self

    def keys(self, *keys: str) -> Self:
        """Press keys one after the other, without waiting for what comes of them."""
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def press_button(self, key: str) -> Self:
        """Press the button of this key."""
        self.idle().widget(key).get_by_role("button").click()
        return self

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def click(self, name: str) -> Self:
        """Click the button of this name."""
        self.idle().button(name).click()
        return self

    def listed(self, key: str) -> list[list[str]]:
        """The rows of a table that are in sight, as it tells them to those who cannot see it."""
        self.widget(key).scroll_into_view_if_needed()
        rows = self.widget(key).locator("table[role=grid] tbody tr")
        return rows.evaluate_all(
            "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"
        )

    def mark_row(self, key: str, row: int) -> Self:
        """Mark a row of a table in the column before the first one."""
        cells = self.idle().widget(key).locator(".dvn-scroller")
        cells.click(position={"x": 15, "y": 35 + 35 * row + 17})
        return self

    def switch(self, key: str) -> Self:
        """Turn a toggle or a checkbox, which has its label beside it and its input hidden."""
        self.idle().reached(key).widget(key).locator("label").click()
        return self

    def write(self, key: str, text: str) -> Self:
        """Type into a text field and leave it."""
        field = self.idle().reached(key).widget(key).get_by_role("textbox")
        field.fill(text)
        field.press("Control+Enter")
        return self

    def number(self, key: str, number: float) -> Self:
        field = self.idle().reached(key).widget(key).get_by_role("spinbutton")
        field.fill(str(number))
        field.press("Enter")
        return self

    def upload(self, key: str, file: Any) -> Self:
        self.idle().widget(key).locator("input[type=file]").set_input_files(file)
        return self

    def fields(self, keys: Iterable[str]) -> dict[str, str]:
        """What all those of these widgets that are on the page show at this moment."""
        return self.page.evaluate(_VALUES, list(keys))

    def place(self, key: str) -> int | None:
        """The position of the token that a box of tokens shows: 10 of "it (10)" and of "it (10), suggested"."""
        named = re.search(r"\((\d+)\)(, suggested)?$", self.fields([key])[key])
        return None if named is None else int(named[1])

    # --- pictures, by their names

    def pictures(self, names: Iterable[str]) -> dict[str, Picture | None]:
        names = list(names)
        found = self.page.evaluate(_READ, [state.picture(name) for name in names])
        read = [found[state.picture(name)] for name in names]
        return {name: None if chart is None else Picture(**chart) for name, chart in zip(names, read, strict=True)}

    def drawn(self, name: str) -> Picture:
        """The picture of that name: between two runs of the page there may be none."""
        found = self.pictures([name])[name]
        assert found is not None, f"there is no picture {name!r}"
        return found

    def shows(self, expected: Mapping[str, NDArray | None]) -> Self:
        """Wait until every named picture shows these numbers, or is not there if they are None."""
        self.eventually(lambda: troubles(self.pictures(expected), expected), {})
        return self

    def pins(self, picture: str, row: int | None, column: int | None) -> Self:
        """Wait until this cell of a picture is framed."""
        self.eventually(lambda: self.drawn(picture).pinned, (row, column))
        return self

    def equation(self) -> dict[str, Picture]:
        """The small pictures of the equation by their stages, each with the frames that lie on it."""
        whole = self.drawn("equation")
        found = {}
        for place, (stage, trace) in enumerate(zip(EQUATION, whole.data, strict=True), start=1):
            axis = f"x{place if place > 1 else ''}"
            frames = [frame for frame in whole.layout["shapes"] if frame["xref"] == axis]
            found[stage] = Picture([trace], {"shapes": frames})
        return found

    def shows_trace(self, trace: AttentionTrace, *, stages: Iterable[str] = EQUATION) -> Self:
        """Wait until the equation shows these stages of this trace, which is short enough for a cell each."""
        expected = {stage: STAGES[stage](trace).T if stage == "Key" else STAGES[stage](trace) for stage in stages}
        self.eventually(lambda: troubles(self.equation(), expected), {})
        return self

    def click_stage(self, stage: str) -> Self:
        """Click the small picture of a stage."""
        number = EQUATION.index(stage) + 1
        subplot = f".nsewdrag[data-subplot^=x{number if number > 1 else ''}y]"
        box = self.widget(state.picture("equation")).locator(subplot)
        box.scroll_into_view_if_needed()
        box.click()
        return self

    def click_cell(self, picture: str, row: float, column: float, to: tuple[float, float] | None = None) -> Self:
        """Point with the mouse at the middle of a cell, or at a point, and click as soon as the picture says which one that is.

        to  the cell where the mouse is released; None: the same
        """
        key = state.picture(picture)

        def end() -> tuple[float, float] | None:
            """Where the mouse is to be released, once it is on the cell, and the cell has not moved away from it."""
            self.page.mouse.move(*(place := self.page.evaluate(_PLACE, [key, row, column])))
            is_there = self.page.evaluate(_IS_POINTED_AT, [key, row, column])
            released = self.page.evaluate(_PLACE, [key, *(to or (row, column))])
            return released if is_there and self.page.evaluate(_PLACE, [key, row, column]) == place else None

        released = self.eventually(end)
        self.page.mouse.down()  # Plotly covers the page until the release
        if to is not None:
            self.page.mouse.move(*released, steps=3)
        self.page.mouse.up()
        return self

    def ticks(self, picture: str, axis: str) -> list[str]:
        """The tick labels of an axis ("x" columns, "y" rows) as the browser has drawn them; some may be left out for room."""
        labels = self.widget(state.picture(picture)).locator(f".{axis}tick text")
        return [label.strip() for label in labels.all_text_contents()]


# --- visitors

Kind = TypeVar("Kind", bound=App)


class Visits:
    """A page that has shown Headlight before opens an address in half the time, because it keeps the scripts that it has
    compiled. To the server each visit is a session of its own, and what the browser remembers is forgotten in between."""

    def __init__(self, browser: Chromium) -> None:
        self._browser = browser
        self._free: dict[Hashable, list[Any]] = defaultdict(list)

    def forget_pages(self) -> None:
        """Close those that nobody is on: each takes a hundred megabytes."""
        for app in [app for free in self._free.values() for app in free]:
            if self._browser.has(app.page):
                app.page.context.close()
        self._free.clear()

    @contextlib.contextmanager
    def to(self, server: Server, kind: type[Kind] = App) -> Iterator[Callable[..., Kind]]:
        """Opens pages, each as a visitor of its own; in the end nothing may have gone wrong on any of them."""
        used: list[tuple[Kind, list[Kind]]] = []

        def visit(*path: str, at: Server = server, width: int = 1280, height: int = 900, **options: Any) -> Kind:
            free = self._free[kind, tuple(options.items())]
            app = free.pop() if free else kind(self._browser.new_context(**(STILL | options)), at)
            used.append((app, free))
            if not self._browser.has(app.page):
                app.settle_in(self._browser.new_context(**(STILL | options)))
            app.page.set_viewport_size({"width": width, "height": height})
            app.page.emulate_media(color_scheme=options.get("color_scheme", "light"))  # whatever was left
            return app.arrive(at).open(*path)

        yield visit
        problems = [problem for app, _ in used for problem in app.problems]
        for app, free in used:
            if not self._browser.has(app.page):
                continue  # it was ended
            app.leave()
            if SLOW_BROWSER > 1:
                app.page.context.close()  # a page that is slowed down keeps a core busy, even if it is blank
            else:
                free.append(app)
        assert not problems, "\n".join(problems)
