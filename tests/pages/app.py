"""Pages in the app's frame, without a browser: opened by an address, changed by their fields, and what they then say."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from numpy.typing import NDArray
from streamlit.testing.v1 import AppTest

from tests.browser.driver import Picture
from tests.core.tiny_models import number_words
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


def saved(folder: Path, network: Any, tokenizer: Any = None) -> str:
    """The folder of this network, with a tokenizer of numbers unless there is another one."""
    for part in (network, tokenizer or number_words()):
        part.save_pretrained(folder)
    return str(folder)


def ran(app: AppTest) -> AppTest:
    for box in app.selectbox:
        if box.key == state.MODEL and box.value not in box.options:
            box.options.append(box.value)  # it was typed, which AppTest does not know of
    app.run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def choose(app: AppTest, key: str, value: object) -> AppTest:
    app.get_by_key(key).set_value(value)
    return ran(app)


def fields(app: AppTest, **values: object) -> AppTest:
    """After one field was changed after the other."""
    for key, value in values.items():
        choose(app, key, value)
    return app


def press(app: AppTest, label: str) -> AppTest:
    next(button for button in app.button if button.label == label).click()
    return ran(app)


def texts(elements: Iterable[Any]) -> str:
    """The texts of these elements, without the backslashes that make them safe."""
    return "\n".join(element.value for element in elements).replace("\\", "")


def words(app: AppTest) -> str:
    return texts((*app.markdown, *app.caption, *app.info, *app.error)).replace(":small[]", "")


def address(app: AppTest, key: str = state.EDITS) -> list[str]:
    return app.session_state[state.ADDRESS].get(key, [])


def links(app: AppTest, **of: str) -> list[dict[str, list[str]]]:
    """What the links say in their addresses that have this label, or lead to this page."""
    found = [link.proto for link in app.get("page_link")]
    chosen = [link for link in found if all(getattr(link, name) == value for name, value in of.items())]
    return [parse_qs(link.query_string, keep_blank_values=True) for link in chosen]


def has(app: AppTest, name: str) -> bool:
    """Whether there is a picture of this name."""
    return any(chart.proto.id.endswith(f"-{state.picture(name)}") for chart in app.get("plotly_chart"))


def figure(app: AppTest, name: str) -> Picture:
    (chart,) = [one.proto for one in app.get("plotly_chart") if one.proto.id.endswith(f"-{state.picture(name)}")]
    spec = json.loads(chart.spec)
    return Picture(spec["data"], spec["layout"])


def drawn(app: AppTest, name: str) -> NDArray:
    """The numbers of a heatmap, or of bars."""
    return figure(app, name).values
