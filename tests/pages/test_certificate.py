"""The certificate under a real head: green and red, with the numbers that decide. No user can provoke a red one."""

import pytest
from streamlit.testing.v1 import AppTest

from core.capturing.certifying import CHECKED, NOT_CHECKED
from core.capturing.rounding import OF_HEADS
from tests.pages.app import ran
from ui.markdown import plain

SAID = {"cells": 1536, "difference": 0.25, "scale": 0.125, "mask": "causal"}
SAID |= {"model": "a_model*", "revision": "sha256 53aa"}


def page(**said: object) -> None:
    from core.capturing.certifying import Certificate
    from ui.views.certificates import show_certificate

    show_certificate(Certificate(**said))


def shown(rounding: float, left_out: int = 0, dtype: str = "float32") -> tuple[str, str, str]:
    """The badge of a certificate with that much rounding, what is behind a click, and what else is seen."""
    app = ran(AppTest.from_function(page, kwargs=SAID | {"rounding": rounding, "left_out": left_out, "dtype": dtype}))
    (badge,), (popover,) = app.markdown, app.get("popover")
    behind = [caption.value for caption in popover.caption]
    seen = [caption.value for caption in app.caption][len(behind) :]
    return badge.value, " · ".join(behind), " · ".join(seen)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_bound_itself_still_agrees_and_anything_above_does_not(dtype):
    within, _, _ = shown(OF_HEADS[dtype], dtype=dtype)
    beyond, _, _ = shown(OF_HEADS[dtype] * 1.001, dtype=dtype)
    assert within.startswith(":green-badge[")
    assert "Agrees with the model: 1,536 output numbers from its Q, K and V, largest difference 0.25" in within
    assert beyond.startswith(":red-badge[")
    assert "Does not agree with the model: 1,536 output numbers from its Q, K and V, largest difference 0.25" in beyond
    assert "4,321 times what rounding explains" in shown(rounding=4321.0)[0]


def test_a_click_tells_what_was_compared_and_the_page_what_was_left_out():
    _, origin, whole = shown(rounding=1.0)
    _, half, partial = shown(rounding=1.0, left_out=3, dtype="bfloat16")
    expected = {
        "model": "a\\_model\\*",
        "revision": "sha256 53aa",
        "precision": "float32",
        "scale": "0\\.125",
        "mask": "causal",
        "checked": plain(CHECKED),
        "not checked": plain(NOT_CHECKED),
    }
    assert origin == " · ".join(f"**{name}** {text}" for name, text in expected.items())
    assert whole == ""
    assert partial == "3 rows with nothing to attend to are left out."
    assert "model in bfloat16, traced in float32" in half
