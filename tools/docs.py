"""The parts of docs/ that are made from the code, each between two marks in its document.

    python -m tools.docs modules            the modules in docs/architecture.md
    python -m tools.docs metrics hosting    several at once

architectures builds every class of transformers, and links runs every page in every way: both take many minutes. paris,
induction and pronoun (docs/what-if.md) run the models.
"""

import argparse
import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path

import numpy as np
from click import Choice

from core import load_model
from core.claims.facts import Annotation, Facts
from core.claims.terms import CONDITIONS, KEYS, read_joined
from core.corpus.__main__ import command as corpus_command
from core.heads.examples import (
    LANGUAGE_MODEL,
    LENGTH,
    SEEDS,
    SENTENCE_MODEL,
    knows_paris,
    needs_previous,
    patch_pronoun,
)
from core.heads.metrics import METRICS
from core.heads.probing import probe_heads
from core.models.passages import Relation
from tools import links
from ui.settings import PREFIX, Settings, read
from ui.views.what_if.worked_examples import EXAMPLES

ROOT = Path(__file__).resolve().parent.parent


def rows_of(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [[*headings], *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


# --- docs/architecture.md


def modules() -> str:
    """A package in bold, and below it what is in it."""
    found = [path for folder in ("core", "ui", "pages") for path in (ROOT / folder).rglob("*.py")]
    paths = sorted((path.parent if path.name == "__init__.py" else path).relative_to(ROOT) for path in found)
    names = [f"`{path}`" if path.suffix else f"**`{path}/`**" for path in paths]
    ideas = [first_sentence(path if path.suffix else path / "__init__.py").replace("|", r"\|") for path in paths]
    return rows_of(("module", "its one idea"), zip(names, ideas, strict=True))


def first_sentence(file: Path) -> str:
    """The first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse((ROOT / file).read_text("utf-8"))) or ""
    found = re.match(r"(.+?[.!?])(?:\s|$)", " ".join(docstring.split("\n\n")[0].split()))
    assert found is not None, f"{file} has no docstring"
    return found[1]


# --- docs/metrics.md


def metrics() -> str:
    rows = []
    for metric in METRICS:
        unit = f" {metric.unit}" if metric.unit else ""
        formula = metric.formula.replace("|", r"\vert ")
        of = (f"0 to {metric.high}{unit}", metric.words, metric.source)
        rows.append((f"**{metric.label}**", f"`{metric.name}`", f"${formula}$", *of))
    return rows_of(("metric", "column", "definition", "range", "what it says", "source"), rows)


# --- docs/architectures.md


def architectures() -> str:
    """As `python -m bench.architectures --write` makes it."""
    from bench.architectures import each, every_class
    from bench.architectures_table import tables

    return tables([vars(found) for found in each(every_class())])


# --- docs/hosting.md


def hosting() -> str:
    public = read(ROOT / "headlight.public.toml", {})
    rows = []
    for setting in fields(Settings):
        name = setting.name
        own, hosted = (_shown(name, getattr(settings, name)) for settings in (Settings(), public))
        rows.append((f"`{name}`", f"`{PREFIX}{name.upper()}`", own, hosted, setting.metadata["words"]))
    return rows_of(("setting", "variable", "own computer", "`headlight.public.toml`", "what it is"), rows)


def _shown(name: str, value: object) -> str:
    if name == "memory":
        return f"{int(str(value)) / 1e9:g} GB"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return str(value) if value not in (None, "") else "none"


# --- docs/claims.md


def claims() -> str:
    """Every condition and set of keys, with a drawing for a text whose tokens and relations are written here."""
    words = ["[CLS]", "The", "old", "cat", "##s", "saw", "the", "cat", "."]
    kinds = ["special", "word", "word", "word", "word part", "word", "word", "word", "punctuation"]
    belongs = np.zeros((len(words), 6), np.bool_)
    for token, word in enumerate([None, 0, 1, 2, 2, 3, 4, 5]):
        belongs[token, word if word is not None else slice(0)] = True
    arcs = [(0, 2, "det"), (1, 2, "amod"), (2, 3, "nsubj"), (4, 5, "det"), (5, 3, "obj")]
    tags = np.array(["DET", "ADJ", "NOUN", "VERB", "DET", "NOUN"])
    facts = Facts(
        np.array([0, 1, 2, 3, 4, 5, 1, 3, 6]),
        np.array(words),
        np.array(["[CLS]", "The", "old", "cats", "cats", "saw", "the", "cat", "."]),
        np.array(kinds),
        np.array([0, 1, 2, 3, 3, 5, 6, 7, 8]),
        Annotation(belongs, [Relation(*arc) for arc in arcs], tags),
    )
    rows = []
    for terms in (CONDITIONS, KEYS):
        for term in terms:
            drawn = np.atleast_2d(read_joined(term.name, terms)(facts))
            picture = "<br>".join("".join("▪" if cell else "▫" for cell in row) for row in drawn if term.by != "head")
            rows.append((f"`{term.name}`", term.words, term.by, picture, term.source))
    return rows_of(("words", "definition", "follows from", "", "source"), rows)


# --- docs/corpus.md


def corpus() -> str:
    return rows_of(("flag", "without it", "what"), corpus_flags())


def corpus_flags() -> list[tuple[str, str, str]]:
    """(flag, what holds without it, what it is) of `run`, and of what `changes` has besides, in words."""
    found = []
    options = {one.name: one for name in ("run", "changes") for one in corpus_command.commands[name].params}
    for option in options.values():
        choices = f": {', '.join(option.type.choices)}" if isinstance(option.type, Choice) else ""
        default = str(option.default).replace(",", ", ") if isinstance(option.default, str | int | float) else ""
        without = "needed" if option.required else default
        found.append((f"`{option.opts[0]}`", without, f"{option.help}{choices}"))  # type: ignore[attr-defined]
    return found


# --- docs/what-if.md


def example(name: str, found: object) -> str:
    """A worked example: what it shows in words, and its numbers."""
    _, (_, _, tell) = EXAMPLES[name]
    told = tell(found)
    return f"{told.words}\n\n{rows_of(told.headings, told.rows)}"


def paris() -> str:
    return example("paris", knows_paris(load_model(LANGUAGE_MODEL)))


def induction() -> str:
    model = load_model(LANGUAGE_MODEL)
    return example("induction", needs_previous(model, probe_heads(model, LENGTH, SEEDS)))


def pronoun() -> str:
    return example("pronoun", patch_pronoun(load_model(SENTENCE_MODEL)))


# Each part: its document, and what makes it.
PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "modules": ("architecture", modules),
    "metrics": ("metrics", metrics),
    "architectures": ("architectures", architectures),
    "hosting": ("hosting", hosting),
    "claims": ("claims", claims),
    "corpus": ("corpus", corpus),
    "links": ("links", lambda: links.table(links.found_on_every_page())),
    "paris": ("what-if", paris),
    "induction": ("what-if", induction),
    "pronoun": ("what-if", pronoun),
}


def document(name: str) -> Path:
    """The document that a part stands in."""
    return ROOT / f"docs/{PARTS[name][0]}.md"


def marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"


def written(name: str) -> str:
    """The part as it stands in its document."""
    begin, end = marks(name)
    text = document(name).read_text("utf-8")
    assert text.count(begin) == text.count(end) == 1, f"{document(name)} does not mark where {name} begins and ends"
    return text.partition(begin)[2].partition(end)[0]


def write(name: str, part: str) -> None:
    begin, end = marks(name)
    before, _, rest = document(name).read_text("utf-8").partition(begin)
    document(name).write_text(f"{before}{begin}{part}{end}{rest.partition(end)[2]}", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=PARTS, metavar="NAME", help=", ".join(PARTS))
    for part in parser.parse_args().names:
        write(part, PARTS[part][1]())
