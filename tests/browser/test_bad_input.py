"""What cannot be used is said beside its field, nothing typed is lost, and good input works again."""

import io
from urllib.parse import quote

import numpy as np
import pytest

from core import attend, capture
from tests.browser.driver import AS_IT_IS
from ui import state
from ui.views.sources.passes import SENTENCE


@pytest.fixture
def app(go):
    return go("/step_by_step")


def says(app, *words):
    app.until(lambda: any(all(word in alert for word in words) for alert in app.alerts()), f"nobody says {words}")


def test_blank_and_too_long_texts(app, minilm):
    app.write(state.TEXT, "   ")
    says(app, "blank")
    long = "word " * 600
    app.write(state.TEXT, long)
    says(app, "602 tokens", "at most 512")
    assert app.value(state.TEXT) == long
    app.switch(state.TRUNCATE).idle()
    drawn = app.picture(AS_IT_IS)
    assert drawn.values.shape == (256, 256)  # 512 tokens, two a drawn cell
    weights = capture(minilm, long, truncate=True).trace(5, 11).weights
    np.testing.assert_allclose(np.nanmax(drawn.values), weights.max(), rtol=1e-6)
    app.write(state.TEXT, SENTENCE).shows({AS_IT_IS: capture(minilm, SENTENCE).trace(5, 11).weights})


def test_a_model_that_cannot_be_had(app, minilm):
    box = app.widget(state.MODEL).get_by_role("combobox")
    box.click()
    box.fill("nobody/no-such-model")
    box.press("Enter")
    says(app, "nobody/no-such-model")
    assert app.value(state.MODEL) == "nobody/no-such-model"
    assert app.value(state.TEXT) == SENTENCE
    app.choose(state.MODEL, "all-MiniLM-L6-v2").shows({AS_IT_IS: capture(minilm, SENTENCE).trace(5, 11).weights})


def test_addresses_are_shown_as_typed_and_are_no_links(go):
    addresses = "http://example.com/x HTTPS://example.com/?a=b&c=d www.example.com me@example.org mailto:me@example.org"
    app = go(f"/step_by_step?model={quote(addresses)}")
    says(app, repr(addresses))
    assert app.page.get_by_role("alert").locator("a, img").count() == 0


BAD_MATRICES = (
    ("key", "1, 2, 3", ["3 × 2", "1 × 3"]),
    ("value", "1, two", ["two"]),
    ("query", "", ["no numbers"]),
    ("mask", "1, 0", ["(1, 2)", "(3, 4)"]),
)


def test_matrices_that_do_not_fit(go):
    """One after the other on one page, as somebody makes mistakes: each is said, kept, and gone once it is corrected.
    Only this test finds typed text that a message takes away."""
    app = go("/step_by_step?source=My+own+matrices")
    before = app.picture(AS_IT_IS).values
    for field, text, words in BAD_MATRICES:
        good = app.value(state.OWN[field])
        app.write(state.OWN[field], text)
        says(app, *words)
        assert app.value(state.OWN[field]) == text
        app.write(state.OWN[field], good if field != "mask" else "")
        app.shows({AS_IT_IS: before})
        app.until(lambda: not app.alerts(), "what was wrong is still said")


def test_a_mask_that_forbids_a_whole_row(go):
    app = go("/step_by_step?source=My+own+matrices")
    app.write(state.OWN["mask"], "1,1,1,1\n0,0,0,0\n1,0,0,0").idle()
    eye = [[1, 0], [0, 1], [1, 1]]
    mask = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]], bool)
    trace = attend(eye, [*eye, [-1, 1]], [[1, 0], [0, 1], [2, 2], [0, 3]], mask=mask)
    app.shows_trace(trace)
    assert np.array_equal(app.picture(AS_IT_IS).forbidden, ~mask)
    app.choose_place(state.QUERY, 1).idle()
    assert "may not look at" in app.page.locator("body").inner_text()
    assert "nan" not in app.page.locator("body").inner_text().lower()


def test_a_pickle_is_never_opened(go, tmp_path):
    class Payload:
        def __reduce__(self):
            return (open, (str(tmp_path / "opened"), "w"))

    app = go("/step_by_step?source=My+own+matrices")
    stream = io.BytesIO()
    np.save(stream, np.array([[Payload()]], dtype=object), allow_pickle=True)
    app.page.get_by_text("Upload files instead").click()
    app.widget(state.FILES["query"]).locator("input[type=file]").set_input_files(
        {"name": "query.npy", "mimeType": "application/octet-stream", "buffer": stream.getvalue()}
    )
    says(app, "ickled")
    assert not (tmp_path / "opened").exists()
