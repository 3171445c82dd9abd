"""What is fetched early are files that Streamlit really has, and the page names them."""

import re
from urllib.request import urlopen

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
