"""The docs for hosts say what the code says: the table of settings in docs/hosting.md, and how to run several copies.

python -m tests.test_hosting_doc --write     writes it anew
"""

from __future__ import annotations

import re
import sys
from dataclasses import fields

from tests.source_files import ROOT
from ui.settings import PREFIX, Settings, read

DOC = ROOT / "docs/hosting.md"
_TABLE = re.compile(r"(\| setting \|.*?\n\| --- [^\n]*\n)(?:\|[^\n]*\n)+")


def table() -> str:
    public = read(ROOT / "headlight.public.toml", {})
    rows = []
    for setting in fields(Settings):
        own, hosted = (_shown(setting.name, getattr(settings, setting.name)) for settings in (Settings(), public))
        variable = f"`{PREFIX}{setting.name.upper()}`"
        rows.append(f"| `{setting.name}` | {variable} | {own} | {hosted} | {setting.metadata['words']} |\n")
    return "".join(rows)


def _shown(name: str, value: object) -> str:
    if name == "memory":
        return f"{int(str(value)) / 1e9:g} GB"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return str(value) if value not in (None, "") else "none"


def written(text: str) -> str:
    return _TABLE.sub(lambda found: found[1] + table(), text)


def test_the_table_is_that_of_the_code() -> None:
    text = DOC.read_text("utf-8")
    assert written(text) == text, "python -m tests.test_hosting_doc --write renews docs/hosting.md"
    for setting in fields(Settings):
        assert f"`{setting.name}`" in text


def test_copies_start_where_the_proxy_looks_for_them_and_with_settings_that_there_are() -> None:
    text = (ROOT / "docs/hosting-containers.md").read_text("utf-8")
    defaults = dict(re.findall(r"\{\$([A-Z]+):(.*?)\}", (ROOT / "deploy/Caddyfile").read_text("utf-8")))
    assert set(defaults) == {"SITE", "COPIES"}
    for variable, default in defaults.items():
        assert f"| `{variable}` | `{default}` |" in text
    [ports] = re.findall(r"for port in ([0-9 ]+); do", text)
    assert [copy.split(":")[1] for copy in defaults["COPIES"].split()] == ports.split()
    given = re.findall(r"(HEADLIGHT_[A-Z]+)=([^\s`]+)", text[text.index("## Several copies") :])
    assert len(given) == 2 * 3  # by hand, and by systemd
    assert set(given[:3]) == set(given[3:])
    assert read(environment=dict(given)).sessions == 16


if __name__ == "__main__" and "--write" in sys.argv:
    DOC.write_text(written(DOC.read_text("utf-8")), "utf-8")
