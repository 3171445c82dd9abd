"""Precision and device beside a model's name: what the page then computes, says and links to."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from core import capture
from core.models.devices import devices
from core.models.model import Model
from core.units import small_number
from tests.source_files import ROOT
from ui import state
from ui.views.sources.text_fields import SENTENCE

MODEL = "all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def page() -> AppTest:
    """Step by step, as a link in bfloat16 opens it."""
    app = AppTest.from_file(str(ROOT / "ui/shell.py"))
    app.run()
    app.query_params.update({state.SOURCE: "real", state.DTYPE: "bfloat16", state.DEVICE: "cuda:7"})
    app.switch_page("../pages/step_by_step.py").run()
    assert not app.exception, app.exception
    return app


def said(app: AppTest) -> str:
    return "\n".join(element.value for element in (*app.caption, *app.markdown, *app.warning)).replace("\\", "")


def weight(model: Model) -> str:
    """From "it" to "animal", as the formula of the softmax ends with it."""
    return f"{capture(model, SENTENCE).trace(5, 11).weights[10, 2]:.4g}"


def test_a_link_in_bfloat16_opens_in_bfloat16(page: AppTest, minilm: Model, half: dict[str, Model]) -> None:
    text = said(page)
    assert "model in bfloat16, traced in float32" in text
    assert "needs 91 MB of memory in float32, 45 MB in bfloat16 or float16" in text
    assert page.get_by_key(state.DTYPE).value == "bfloat16"
    certificate = capture(half[MODEL], SENTENCE).certificate(5, 11)
    assert certificate.holds
    assert f"largest difference {small_number(certificate.difference)}" in text
    assert small_number(capture(minilm, SENTENCE).certificate(5, 11).difference) not in text


def test_a_device_that_is_not_there_is_said_and_the_rest_is_shown(page: AppTest) -> None:
    assert "cuda:7" not in devices()
    assert "The link asks for something that is not available: Device “cuda:7”" in said(page)


def test_a_link_to_another_page_takes_the_precision_along(page: AppTest) -> None:
    links = [parse_qs(link.proto.query_string) for link in page.get("page_link") if link.proto.query_string]
    assert links
    assert all(link[state.DTYPE] == ["bfloat16"] for link in links if state.MODEL in link)


def test_another_precision_gives_other_numbers(page: AppTest, minilm: Model, half: dict[str, Model]) -> None:
    whole, rounded = weight(minilm), weight(half[MODEL])
    assert whole != rounded
    assert rounded in said(page)
    page.get_by_key(state.DTYPE).set_value("float32").run()
    assert not page.exception, page.exception
    assert whole in said(page)
    assert rounded not in said(page)
    assert "model in bfloat16" not in said(page)
