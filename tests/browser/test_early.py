"""The page names what is fetched early, which the server has. A page finds its server at once."""

from collections.abc import Callable
from urllib.parse import urlsplit
from urllib.request import urlopen

from playwright.sync_api import expect

from tests.browser.driver import App
from ui.serving import early_scripts


def test_the_page_names_them(server):
    with urlopen(f"{server.address}/heads") as answer:
        links = answer.headers["link"]
    for name in early_scripts():
        address = f"/static/js/{name}"
        assert f"<{address}>; rel=modulepreload" in links
    assert urlopen(f"{server.address}{address}").status == 200
    assert urlopen(f"{server.address}/_stcore/health").headers["link"] is None


def test_a_page_finds_its_server_at_once(visit: Callable[..., App]) -> None:
    """Streamlit alone would ask for /softmax/_stcore/health first. With a slash at the end, the server is two levels above."""
    app, asked = visit("/exhibit"), []
    app.page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    expect(app.open("/softmax/?scores=2%2C+1").page.locator(".js-plotly-plot").first).to_be_visible()
    assert [path for path in asked if path.endswith("/health")] == ["/_stcore/health"]
