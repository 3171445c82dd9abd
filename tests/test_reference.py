"""The reference of the library, which pdoc writes from its docstrings: every public name, and links that lead somewhere."""

import re

from pdoc.__main__ import cli

import core
from tests.source_files import text


def test_every_public_name_is_described_and_no_link_is_dead(tmp_path) -> None:
    (command,) = re.findall(r"^    pdoc (.+)$", text("docs/index.md"), re.M)
    cli([*command.replace("'", "").split()[:-1], str(tmp_path)])
    assert {file.name for file in tmp_path.iterdir()} == {"core.html", "index.html", "search.js"}
    page = (tmp_path / "core.html").read_text("utf-8")
    assert {name.partition(".")[0] for name in re.findall(r'<section id="([^"]+)"', page)} == {*core.__all__}
    links, there = set(re.findall(r'href="#([^"]+)"', page)), set(re.findall(r'id="([^"]+)"', page))
    assert links - there == set()
