"""What is fetched early are files that Streamlit really has, and the page names them. A page finds its server at once."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit
from urllib.request import urlopen

from tests.browser.driver import App
from ui.early import SCRIPTS, early_scripts


def test_the_scripts_are_there_with_all_that_they_import():
    names = early_scripts()
    assert names[0].startswith("PlotlyChart.")
    assert len(names) == len(set(names)) > 10
    for name in names:
        head = (SCRIPTS / name).read_text("utf-8")[:4000]
        assert set(re.findall(r"""from["']\./([\w.-]+\.js)["']""", head)) <= set(names), name


def test_the_page_names_them(server):
    with urlopen(f"{server.address}/heads") as answer:
        links = answer.headers["link"]
    for name in early_scripts():
        address = f"/static/js/{name}"
        assert f"<{address}>; rel=modulepreload" in links
    assert urlopen(f"{server.address}{address}").status == 200
    assert urlopen(f"{server.address}/_stcore/health").headers["link"] is None


def test_a_page_finds_its_server_at_once(visit: Callable[..., App]) -> None:
    """Streamlit alone would ask for /heads/_stcore/health first. With a slash at the end, the server is two levels above."""
    app = visit("/")
    asked: list[str] = []
    app.page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    for address in ("/heads", "/softmax/?scores=2%2C+1"):
        app.open(address)
        assert app.page.locator(".js-plotly-plot").count()
        assert [path for path in asked if path.endswith("/health")] == ["/_stcore/health"], address
        asked.clear()
