"""Headlight in a browser: a server of its own, the page worked by widget keys and roles, its pictures read as numbers."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import BrowserContext, Locator, Page, WebSocket

from core import AttentionTrace
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
)
# Of a browser context: nothing glides or blinks, which would be drawn sixty times a second by the processor.
STILL: dict[str, Any] = {"reduced_motion": "reduce"}
PATIENCE = 60.0  # seconds; only a failing test waits that long
FRAMES = 60  # that a browser draws in a second, where it can

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

    def __init__(self, script: str = "app.py") -> None:
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            self.port = probe.getsockname()[1]
        self.address = f"http://localhost:{self.port}"
        self._script = script
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process that writes to it
        self._process = self._start()

    def _start(self) -> subprocess.Popen:
        environment = {"OMP_NUM_THREADS": "1"} | os.environ | self._environment()
        return subprocess.Popen(self._command(), cwd=ROOT, env=environment, stdout=self._log, stderr=subprocess.STDOUT)

    def _command(self) -> tuple[str, ...]:
        options = ("--server.headless", "true", "--server.port", str(self.port))
        return (sys.executable, "-m", "streamlit", "run", self._script, *options)

    def _environment(self) -> dict[str, str]:
        return {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}

    def start_again(self) -> Server:
        """As somebody does who has changed something: open pages stay, their sessions are gone."""
        self._end()
        self._process = self._start()
        return self.wait()

    def wait(self) -> Server:
        """Until it answers. The health check starts no session, so the first session is still to come."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
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
        self._end()
        self._log.close()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


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

# What a widget shows; null while it is being drawn.
_VALUE = """
(widget) => {
    const chosen = widget.querySelector("[role=radio][aria-checked=true]");
    if (chosen) return chosen.innerText;
    const field = widget.querySelector("input[type=checkbox]") ?? widget.querySelector("input, textarea");
    if (!field) return null;
    if (field.type === "checkbox") return field.checked ? "True" : "False";
    return field.value || field.placeholder;
}
"""
_VALUES = f"""
(keys) => Object.fromEntries(keys.flatMap((key) => {{
    const widget = document.querySelector(`.st-key-${{key}}`);
    return widget ? [[key, ({_VALUE})(widget)]] : [];
}}))
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
    return Boolean(chart && chart._hoverdata && chart._hoverdata.some((at) => at.y === row && at.x === column));
}
"""

# Notes whether the server has answered since the page last sent something: on a busy machine that takes longer than any pause.
_NOTE_ANSWERS = """
window.WebSocket = class extends WebSocket {
    constructor(...address) {
        super(...address);
        this.addEventListener("message", () => { window.isUnanswered = false; });
    }
    send(message) {
        window.isUnanswered = true;
        super.send(message);
    }
};
"""

# The script has ended, nothing is left over from an earlier run and every picture is drawn, and all that for so many frames of
# the browser one after the other: where a machine is busy, frames are late too.
_IDLE = """
(frames) => {
    const app = document.querySelector("[data-testid=stApp]");
    const quiet = !window.isUnanswered && app !== null && app.dataset.testScriptState === "notRunning"
        && app.dataset.testConnectionState === "CONNECTED" && document.querySelector("[data-stale=true]") === null
        && document.querySelector("[class*=st-key-picture_]:not(:has(.js-plotly-plot))") === null;
    window.quietFrames = quiet ? window.quietFrames + 1 || 1 : 0;
    return window.quietFrames > frames;
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


def _in_equation(stage: str, trace: AttentionTrace) -> NDArray:
    return STAGES[stage](trace).T if stage == "Key" else STAGES[stage](trace)


# --- the page


class App:
    """A page of Headlight, worked as a person does it. Everything that should not happen is noted in `problems`."""

    def __init__(self, context: BrowserContext, server: Server) -> None:
        self.server = server
        self.page: Page = context.new_page()
        self.page.add_init_script(_NOTE_ANSWERS)
        self.problems: list[str] = []
        self.sent: list[str | bytes] = []  # messages to the server
        self.page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("console", self._console)
        self.page.on("request", lambda request: self._requested(request.url))
        self.page.on("websocket", self._connected)

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
        # On a page below the root, Streamlit first looks for its own endpoints beneath that page.
        probing = "404" in message.text and "/_stcore/" in message.location.get("url", "")
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
        self.page.locator("[class*=st-key-]").first.wait_for(
            state="attached", timeout=PATIENCE * 1000
        )  # before, nothing runs either
        return self.idle()

    def go(self, path: str) -> Self:
        """To another address in the same session, as the browser's own buttons go: for a fraction of what opening it takes."""
        arrive = "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"
        self.page.evaluate(arrive, path)
        self.until(lambda: self.address.partition("?")[0] == path.partition("?")[0], f"{path} does not open")
        return self.idle()

    def idle(self, calm: float = 0.3) -> Self:
        """Wait until nothing runs any more, and has not for `calm` seconds: a slider tells what is chosen after 0.2."""
        self.page.evaluate("window.quietFrames = 0")
        frames = round(calm * FRAMES)
        self.page.wait_for_function(_IDLE, arg=frames, timeout=PATIENCE * 1000, polling="raf")
        return self

    def reconnected(self) -> Self:
        """Wait until the connection is lost, and until it is there again."""
        for is_or_not in ("!==", "==="):
            connected = f"document.querySelector('.stApp').dataset.testConnectionState {is_or_not} 'CONNECTED'"
            self.page.wait_for_function(connected, timeout=PATIENCE * 1000)
        return self.idle()

    @property
    def address(self) -> str:
        """Path and query of the address, to be opened on another server."""
        return self.page.url.removeprefix(self.server.address)

    # --- widgets, by their keys

    def widget(self, key: str) -> Locator:
        return self.page.locator(f".st-key-{key}")

    def reached(self, key: str) -> App:
        """With the popover open that has this field, if it is in one; a click elsewhere closes it."""
        if (popover := POPOVERS.get(key)) is not None and not self.widget(key).count():
            self.unfold(popover).widget(key).wait_for()
        return self

    def choose(self, key: str, option: object) -> App:
        """Choose from a select box."""
        self.reached(key)
        box = self.widget(key).get_by_role("combobox")
        box.click()
        box.fill(str(option))
        self.page.get_by_role("option", name=str(option), exact=True).click()
        return self

    def choose_place(self, key: str, place: int) -> App:
        """Choose the token at this position from a box of tokens: "it (10)"."""
        box = self.reached(key).widget(key).get_by_role("combobox")
        box.click()
        box.fill(f"({place})")
        self.page.get_by_role("option", name=re.compile(rf"\({place}\)$")).click()
        return self

    def press(self, key: str, name: str) -> App:
        """Press one of the buttons of a segmented control."""
        self.widget(key).get_by_role("radio", name=name, exact=True).click()
        return self

    def toggle(self, key: str, name: str) -> App:
        """Press one of several pills that can be on together."""
        self.widget(key).get_by_role("button", name=name, exact=True).click()
        return self

    def unfold(self, name: str) -> App:
        """Open a popover, or close it."""
        self.page.get_by_test_id("stPopoverButton").filter(has_text=re.compile(re.escape(name))).click()
        return self

    def rows(self, key: str) -> list[list[str]]:
        """The rows of a table that are in sight, as it tells them to those who cannot see it."""
        self.widget(key).scroll_into_view_if_needed()
        return (
            self.widget(key)
            .locator("table[role=grid] tbody tr")
            .evaluate_all("rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))")
        )

    def mark_row(self, key: str, row: int) -> App:
        """Mark a row of a table in the column before the first one."""
        cells = self.widget(key).locator(".dvn-scroller")
        cells.click(position={"x": 15, "y": 35 + 35 * row + 17})
        return self

    def switch(self, key: str) -> App:
        """Turn a toggle or a checkbox, which has its label beside it and its input hidden."""
        self.reached(key)
        self.widget(key).locator("label").click()
        return self

    def write(self, key: str, text: str) -> App:
        """Type into a text field and leave it."""
        self.reached(key)
        field = self.widget(key).get_by_role("textbox")
        field.fill(text)
        field.press("Control+Enter" if field.evaluate("field => field.tagName") == "TEXTAREA" else "Enter")
        return self

    def number(self, key: str, number: float | None) -> App:
        """Type a number; None empties the field."""
        self.reached(key)
        field = self.widget(key).get_by_role("spinbutton")
        field.fill("" if number is None else str(number))
        field.press("Enter")
        return self

    def value(self, key: str) -> str:
        """What a widget shows: typed text, the chosen option, or what stands for an empty choice."""
        return self.widget(key).evaluate(f"widget => ({_VALUE})(widget)")

    def place(self, key: str) -> int | None:
        """The position of the token that a box of tokens shows: 10 of "it (10)" and of "it (10), suggested"."""
        named = re.search(r"\((\d+)\)(, suggested)?$", self.value(key))
        return None if named is None else int(named[1])

    def values(self, keys: Iterable[str]) -> dict[str, str]:
        """What all those of these widgets that are on the page show at this moment."""
        return self.page.evaluate(_VALUES, list(keys))

    # --- pictures, by their names

    def pictures(self, names: Iterable[str]) -> dict[str, Picture | None]:
        names = list(names)
        found = self.page.evaluate(_READ, [state.picture(name) for name in names])
        read = [found[state.picture(name)] for name in names]
        return {name: None if chart is None else Picture(**chart) for name, chart in zip(names, read, strict=True)}

    def picture(self, name: str) -> Picture:
        """The picture of that name, once it is there: between two runs of the page the old and the new one can overlap."""
        found: Picture | None = None

        def is_there() -> bool:
            nonlocal found
            found = self.pictures([name])[name]
            return found is not None

        self.until(is_there, f"there is no picture {name!r}")
        assert found is not None
        return found

    def shows(self, expected: Mapping[str, NDArray | None]) -> App:
        """Wait until every named picture shows these numbers, or is not there if they are None."""
        wrong: dict[str, str] = {}

        def as_expected() -> bool:
            nonlocal wrong
            drawn = self.pictures(expected)
            found = {name: difference(drawn[name], numbers) for name, numbers in expected.items()}
            wrong = {name: trouble for name, trouble in found.items() if trouble is not None}
            return not wrong

        self.until(as_expected, lambda: "; ".join(f"picture {name!r} {trouble}" for name, trouble in wrong.items()))
        return self

    def equation(self) -> dict[str, Picture] | None:
        """The small pictures of the equation by their stages, each with the frames that lie on it; None while there is none."""
        whole = self.pictures(["equation"])["equation"]
        if whole is None:
            return None
        found = {}
        for place, (stage, trace) in enumerate(zip(EQUATION, whole.data, strict=True), start=1):
            axis = f"x{place if place > 1 else ''}"
            frames = [frame for frame in whole.layout["shapes"] if frame["xref"] == axis]
            found[stage] = Picture([trace], {"shapes": frames})
        return found

    def shows_trace(self, trace: AttentionTrace, *, stages: Iterable[str] = EQUATION) -> App:
        """Wait until the equation shows these stages of this trace, which is short enough for a cell each."""
        wrong: dict[str, str] = {}

        def as_expected() -> bool:
            nonlocal wrong
            drawn = self.equation() or {}
            found = {stage: difference(drawn.get(stage), _in_equation(stage, trace)) for stage in stages}
            wrong = {stage: trouble for stage, trouble in found.items() if trouble is not None}
            return not wrong

        self.until(as_expected, lambda: "; ".join(f"{stage!r} {trouble}" for stage, trouble in wrong.items()))
        return self

    def click_stage(self, stage: str) -> App:
        """Click the small picture of a stage."""
        box = self.widget(state.picture("equation")).locator(f".nsewdrag[data-subplot^=x{self._number(stage)}y]")
        box.scroll_into_view_if_needed()
        box.click()
        return self

    @staticmethod
    def _number(stage: str) -> str:
        place = EQUATION.index(stage)
        return str(place + 1) if place else ""

    def click_cell(self, picture: str, row: float, column: float, to: tuple[float, float] | None = None) -> App:
        """Point with the mouse at the middle of a cell and click as soon as the picture says which cell that is.

        to  the cell where the mouse is released; None: the same
        """
        cell = [state.picture(picture), row, column]

        def pointed_at() -> bool:
            place = self.page.evaluate(_PLACE, cell)
            if place is None:
                return False
            self.page.mouse.move(*place)
            return self.page.evaluate(_IS_POINTED_AT, cell)

        self.until(pointed_at, f"cell ({row}, {column}) of {picture!r} cannot be pointed at")
        end = (
            None if to is None else self.page.evaluate(_PLACE, [cell[0], *to])
        )  # Plotly covers the page until the release
        self.page.mouse.down()
        if end is not None:
            self.page.mouse.move(*end, steps=3)
        self.page.mouse.up()
        return self

    def click_near(self, picture: str, x: float, y: float) -> App:
        """Click two pixels beside a point of a picture whose axes are numbers."""
        place = self.page.evaluate(
            """([key, x, y]) => {
                const chart = document.querySelector(`.st-key-${key} .js-plotly-plot`);
                chart.scrollIntoView({ block: "center", behavior: "instant" });
                const { xaxis, yaxis } = chart._fullLayout, box = chart.getBoundingClientRect();
                return [box.left + xaxis._offset + xaxis.l2p(x), box.top + yaxis._offset + yaxis.l2p(y)];
            }""",
            [state.picture(picture), x, y],
        )
        self.page.mouse.click(place[0] + 2, place[1] - 2)
        return self

    def until(self, condition: Callable[[], bool], complaint: Callable[[], str] | str, patience: float = 20) -> None:
        """Wait for a condition; on a busy machine everything takes longer than one thinks."""
        deadline = time.monotonic() + patience
        while not condition():
            if time.monotonic() > deadline:
                said = complaint() if callable(complaint) else complaint
                raise AssertionError(f"{said} (at {self.page.url}; alerts: {self.alerts()})")
            self.page.wait_for_timeout(50)

    def alerts(self) -> list[str]:
        """The texts of all boxes that say that something is wrong."""
        return self.page.get_by_role("alert").all_inner_texts()

    def tokens(self, picture: str, axis: str) -> list[str]:
        """The tick labels of an axis ("x" columns, "y" rows) as the browser has drawn them; some may be left out for room."""
        labels = self.widget(state.picture(picture)).locator(f".{axis}tick text")
        return [label.strip() for label in labels.all_text_contents()]
