"""Pages in the app's frame, without a browser: opened by an address, changed by their fields, and what they then say."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from streamlit.testing.v1 import AppTest

from tests.source_files import ROOT
from ui import state

MINILM, SMOLLM = "all-MiniLM-L6-v2", "SmolLM2-135M-Instruct"
FRANCE = "The capital of France is"


def opened(page: str = "what_if", **said: object) -> AppTest:
    """A page in a new session, opened with this address. Unless that names a text, it is `FRANCE`."""
    return go(new(), page, **{state.TEXT: FRANCE} | said)


def new() -> AppTest:
    """A session that has opened nothing yet."""
    return AppTest.from_file(str(ROOT / "ui/shell.py"))


def go(app: AppTest, page: str, **said: object) -> AppTest:
    """Another page in the same session, or another address of this one."""
    app.switch_page(f"../pages/{page}.py")
    app.query_params.clear()
    for name, value in said.items():
        app.query_params[name] = value if isinstance(value, list) else str(value)
    return ran(app)


def part(script: Callable, *given: object, **said: object) -> AppTest:
    """A part of a page by itself, opened with this address."""
    app = AppTest.from_function(script, args=given)
    app.query_params.update(said)
    return ran(app)


def ran(app: AppTest) -> AppTest:
    app.run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def choose(app: AppTest, key: str, value: object) -> AppTest:
    app.get_by_key(key).set_value(value)
    return ran(app)


def press(app: AppTest, label: str) -> AppTest:
    next(button for button in app.button if button.label == label).click()
    return ran(app)


def words(app: AppTest) -> str:
    said = "\n".join(part.value for part in (*app.markdown, *app.caption, *app.info, *app.error))
    return said.replace("\\", "").replace(":small[]", "")


def address(app: AppTest, key: str = state.EDITS) -> list[str]:
    return app.session_state[state.ADDRESS].get(key, [])


def picture(app: AppTest, name: str) -> Any:
    (chart,) = [chart.proto for chart in app.get("plotly_chart") if chart.proto.id.endswith(state.picture(name))]
    return chart


def drawn(app: AppTest, name: str) -> NDArray | None:
    """The numbers of a heatmap; None where there is none."""
    charts = [chart for chart in app.get("plotly_chart") if chart.proto.id.endswith(state.picture(name))]
    if not charts:
        return None
    numbers = next(part["z"] for part in json.loads(charts[0].proto.spec)["data"] if part["type"] == "heatmap")
    if isinstance(numbers, list):
        return np.array(numbers, dtype=float)
    flat = np.frombuffer(base64.b64decode(numbers["bdata"]), dtype="<" + numbers["dtype"])
    return flat.reshape([int(size) for size in numbers["shape"].split(",")])


def texts(elements: Any) -> str:
    """The texts of these elements, without the backslashes that make them safe."""
    return "\n".join(element.value for element in elements).replace("\\", "")
