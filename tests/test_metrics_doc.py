"""The table of docs/metrics.md is what core/heads/metrics.py says. `python -m tests.test_metrics_doc --write` renews it."""

import re
import sys
from pathlib import Path

from core.heads.metrics import METRICS

DOC = Path(__file__).parent.parent / "docs" / "metrics.md"
BEGIN, END = "<!-- metrics: begin -->", "<!-- metrics: end -->"


def table() -> str:
    lines = [
        "| metric | column | definition | range | what it says | source |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for metric in METRICS:
        unit = f" {metric.unit}" if metric.unit else ""
        formula = metric.formula.replace("|", r"\vert ")
        lines.append(
            f"| **{metric.label}** | `{metric.name}` | ${formula}$ | 0 to {metric.high}{unit} | {metric.words} "
            f"| {metric.source} |"
        )
    return "\n".join(lines)


def written() -> str:
    return DOC.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()


def test_the_table_is_up_to_date():
    assert written() == table()


def test_every_source_is_listed():
    listed = DOC.read_text(encoding="utf-8").partition("## Sources")[2]
    for metric in METRICS:
        for author, year in re.findall(r"([A-Z]\w+)(?: and \w+| et al\.)? (\d{4})", metric.source):
            assert re.search(rf"{author}.* {year}", listed), (metric.name, author, year)


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    text = DOC.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    DOC.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
