"""The table of settings in docs/hosting.md says what the code says.

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


if __name__ == "__main__" and "--write" in sys.argv:
    DOC.write_text(written(DOC.read_text("utf-8")), "utf-8")
