"""Docs and code in step: what one names the other has, and examples give the numbers beside them."""

import ast
import json
import re
import runpy

import numpy as np
import pytest
from pdoc.__main__ import cli
from PIL import Image

import core
from core import Edits, record_pass
from core.attention.stages import STAGES
from core.capturing.answers import pass_with_losses
from core.capturing.edits.kinds import EDIT_KINDS
from core.capturing.edits.lines import VERBS, edits_of
from core.capturing.rounding import OF_SUMS
from core.corpus import tables
from core.exporting import exhibit
from core.heads.examples import LENGTH, SEEDS, knows_paris, patch_pronoun
from core.heads.metrics import METRICS
from core.heads.probing import random_texts
from tests.depth import thorough
from tests.pages.app import go, new
from tests.source_files import ROOT, python_files, text
from tools.docs import PARTS, document, example, written
from tools.links import found_on_every_page, table
from tools.readme_pictures import PLAYING, SHOTS
from ui import links, settings, state, talk
from ui.gallery.views import CARDS
from ui.lessons import LESSONS
from ui.markdown import pieces
from ui.views.step_by_step.tour import STOPS

DOCS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "bench/README.md"]


@pytest.mark.parametrize("name", ["modules", "metrics", "hosting", "claims", "corpus"])
def test_what_is_made_from_the_code_is_up_to_date(name):
    assert written(name) == PARTS[name][1](), f"python -m tools.docs {name} renews {document(name)}"


@pytest.mark.parametrize("name", ["docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md"])
def test_no_file_is_named_that_is_gone(name):
    paths = re.findall(r"`((?:bench|core|docs|pages|tests|tools|ui)/[\w/.]+)`", text(name))
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_numbers_are_made_where_the_map_says():
    """Every function in the second column of "Where a number comes from" is defined in a file of the third."""
    section = text("docs/architecture.md").partition("## Where a number comes from")[2].partition("\n## ")[0]
    rows = [row.strip("| ").split(" | ") for row in section.splitlines() if row.count(" | ") == 2][1:]
    assert len(rows) > 20
    wrong = []
    for _, made, files in rows:
        source = "".join(text(name) for name in re.findall(r"`([\w/]+\.py)`", files + made))
        functions = re.findall(r"(\w+)\([^`]*`", made)
        wrong += [function for function in functions if not re.search(rf"\b(def|class) {function}\b", source)]
    assert wrong == []


def test_recipes_name_what_is_in_the_files():
    """Every "`NAME` in `file`" of "Adding things": NAME is assigned or defined there, at the top level or in a class."""
    section = text("docs/architecture.md").partition("## Adding things")[2].partition("\n## ")[0]
    pairs = re.findall(r"`([A-Za-z_][\w.]*)` in\s+`([\w/]+\.py)`", section)
    assert len(pairs) > 20
    made = r"^ *(?:class |def |.*, )?{}\b *[:(,=]"
    missing = [pair for pair in pairs if not re.search(made.format(pair[0].rpartition(".")[2]), text(pair[1]), re.M)]
    assert missing == []


def test_every_page_is_in_the_menu_and_every_lesson_has_its_experiments():
    in_menu = re.findall(r'"pages/(\w+)\.py"', text("ui/shell.py"))
    assert sorted(in_menu) == sorted(path.stem for path in (ROOT / "pages").glob("*.py"))
    assert sorted(LESSONS) == sorted(path.stem for path in (ROOT / "pages/learn").glob("*.py"))
    assert all((ROOT / f"core/lessons/{name}.py").is_file() for name in LESSONS)


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
    assert re.findall(pattern, " ".join(text(name).split())) == [words.get(count, str(count))]


def test_glossary_explains_every_stage_and_each_word_once():
    words = re.findall(r"^\| \*\*(.+?)\*\*", text("docs/glossary.md"), re.MULTILINE)
    assert {stage.noun for stage in STAGES} | {"softmax"} <= {word.lower() for word in words}
    assert len(words) == len(set(words)) > 100


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: doc.name)
def test_links_lead_somewhere(doc):
    for target in re.findall(r"\]\(([^)]+)\)", doc.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            name, _, anchor = target.partition("#")
            file = doc.parent / name if name else doc
            assert file.exists(), target
            assert not anchor or anchor in anchors(file), target


def anchors(document):
    """The anchors that GitHub gives the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_source_is_listed():
    listed = text("docs/metrics.md").partition("## Sources")[2]
    for metric in METRICS:
        for author, year in re.findall(r"([A-Z]\w+)(?: and \w+| et al\.)? (\d{4})", metric.source):
            assert re.search(rf"{author}.* {year}", listed), (metric.name, author, year)


def test_copies_start_where_the_proxy_looks_for_them_and_with_settings_that_there_are():
    guide = text("docs/hosting-containers.md")
    defaults = dict(re.findall(r"\{\$([A-Z]+):(.*?)\}", text("deploy/Caddyfile")))
    assert set(defaults) == {"SITE", "COPIES"}
    for variable, default in defaults.items():
        assert f"| `{variable}` | `{default}` |" in guide
    [ports] = re.findall(r"for port in ([0-9 ]+); do", guide)
    assert [copy.split(":")[1] for copy in defaults["COPIES"].split()] == ports.split()
    given = re.findall(r"(HEADLIGHT_[A-Z]+)=([^\s`]+)", guide[guide.index("## Several copies") :])
    assert len(given) == 2 * 3  # by hand, and by systemd
    assert set(given[:3]) == set(given[3:])
    assert settings.read(environment=dict(given)).sessions == 16


@thorough
def test_examples_of_attribution_give_what_stands_beside_them(tmp_path):
    """A line with a comment is an expression with its value."""
    lines = [line.partition("  # ") for line in re.findall(r"^    (\S.*)$", text("docs/attribution.md"), re.MULTILINE)]
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
    stated = re.findall(r"^\| (\w+) \|.*\| ([\d.]+) \|$", text("docs/attribution.md"), re.MULTILINE)
    assert len(stated) == 2
    limits = {str(dtype).removeprefix("torch."): limit for dtype, limit in OF_SUMS.items()}
    assert {name: float(limit) for name, limit in stated} == {name: limits[name] for name, _ in stated}


# --- docs/links.md: its table is what the pages themselves say


SHORT_WORD = r"-?[a-z0-9][a-z0-9._-]{0,19}"


@pytest.fixture(scope="module")
def found():
    return found_on_every_page()


@thorough
def test_the_table_is_up_to_date(found):
    """`python -m tools.docs links` renews it.
    Only running every page in every way finds a field that some choice brings and the document does not know."""
    assert written("links") == table(found)


@thorough
def test_every_value_is_a_short_word(found):
    words = {(name, word) for of_page in found.values() for name, one in of_page.items() for word in (name, *one.words)}
    assert [pair for pair in words if not re.fullmatch(SHORT_WORD, pair[1])] == []


@thorough
def test_every_name_that_links_know_is_that_of_a_field(found):
    """And the other way round: a page reads no other name from its address."""
    known = {name for of_page in found.values() for name in of_page}
    of_any_page = {state.EDITS, *state.HOW}  # which are told above the table
    assert known | of_any_page == state.IN_ADDRESS


def test_only_links_reads_and_writes_the_address():
    """Two who write it undo each other's work: Streamlit drops what it has bound itself when the history moves."""
    others = {path.name: text(path) for path in python_files("pages", "ui") if path.name != "links.py"}
    assert [name for name, source in others.items() if "st.query_params" in source or "bind=" in source] == []


# --- docs/what-if.md: its tables are what the page shows; `python -m tools.docs paris induction pronoun` renews them


CLOSE = 0.011  # another machine rounds differently, and a cell has two or three decimals


def assert_same_but_for_rounding(ours, theirs):
    """The same words, and numbers that are close."""
    number = r"−?\d+\.\d+"
    assert re.sub(number, "#", ours) == re.sub(number, "#", theirs)
    both = [[float(found.replace("−", "-")) for found in re.findall(number, text)] for text in (ours, theirs)]
    np.testing.assert_allclose(*both, atol=CLOSE)


@thorough
def test_what_examples_measure(smollm, minilm):
    assert_same_but_for_rounding(written("paris"), example("paris", knows_paris(smollm)))
    assert_same_but_for_rounding(written("pronoun"), example("pronoun", patch_pronoun(minilm)))


@thorough
def test_induction(smollm):
    (line,) = re.findall(r"^\| 16\.0 muted.*$", written("induction"), re.MULTILINE)
    *_, loss, _ = line.strip("| ").split(" | ")
    texts = [random_texts(smollm, LENGTH, seed)[0] for seed in SEEDS]
    muted = Edits(mute_heads={(16, 0)})
    losses = [pass_with_losses(smollm, text.ids, edits=muted, start=text.second + 1)[1] for text in texts]
    assert float(loss) == pytest.approx(np.mean(losses), abs=CLOSE)


def test_every_line_of_the_table_says_the_edits_beside_it():
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", document("paris").read_text("utf-8"), flags=re.M)
    verbs = {line.split()[0] for line, _ in rows}
    assert verbs == {*VERBS}
    assert {type(edit) for line, _ in rows for edit in edits_of(line).each} == {*EDIT_KINDS}
    for line, python in rows:
        assert repr(edits_of(line)).replace("'", '"') == f"Edits({python})"


def test_the_index_lists_every_document():
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", text("docs/index.md")))
    assert listed == {file.name for file in (ROOT / "docs").glob("*.md")} - {"index.md"}


def test_the_table_of_formats_has_their_versions():
    rows = re.findall(r"^\| ([^|]+?) \| [^|]+ \| (\d) \|", text("docs/versions.md"), re.MULTILINE)
    versions = {kind.partition(" (")[0]: int(version) for kind, version in rows}
    assert versions == {
        "recorded pass": record_pass.VERSION,
        "exhibit": exhibit.VERSION,
        "talk": talk.VERSION,
        "run over a corpus": tables.FORMAT,
        "address of a page": links.VERSION,
    }


def test_every_public_name_is_described_and_no_link_is_dead(tmp_path):
    (command,) = re.findall(r"^    pdoc (.+)$", text("docs/index.md"), re.M)
    cli([*command.replace("'", "").split()[:-1], str(tmp_path)])
    assert {file.name for file in tmp_path.iterdir()} == {"core.html", "index.html", "search.js"}
    page = (tmp_path / "core.html").read_text("utf-8")
    assert {name.partition(".")[0] for name in re.findall(r'<section id="([^"]+)"', page)} == {*core.__all__}
    assert all(getattr(core, name).__doc__ for name in core.__all__)
    links, there = set(re.findall(r'href="#([^"]+)"', page)), set(re.findall(r'id="([^"]+)"', page))
    assert links - there == set()


PICTURES = {**SHOTS, "playing": PLAYING}
SHELL = (ROOT / "ui/shell.py").read_text("utf-8")


def menu():
    """The words of the menu: pages, and lists of pages."""
    listed, *others = re.findall(r'^    "(.*)": \[?([^\]\n]*)', SHELL[SHELL.index("menu = {") :], re.MULTILINE)
    pages = dict(re.findall(r'^(\w+) = st\.Page\((?!.*hidden).*title="([^"]+)"', SHELL, re.MULTILINE))
    return [*(pages[name] for name in listed[1].split(", ") if name in pages), *(name for name, _ in others)]


def test_the_readme_shows_each_picture():
    assert set(re.findall(r"\(docs/([\w-]+)\.png\)", (ROOT / "README.md").read_text("utf-8"))) == PICTURES.keys()


@thorough
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_the_words_of_today(name):
    with Image.open(ROOT / f"docs/{name}.png") as picture:
        words, frames = json.loads(picture.text["words"]), getattr(picture, "n_frames", 1)
    assert words["menu"] == menu()
    app = go(new(), PICTURES[name].page or "gallery", **PICTURES[name].address)
    said = [one.value for one in app.markdown if one.value.startswith("#")]
    said += [f"# {one.value}" for one in app.subheader]
    assert len(words["headings"]) > 1
    assert set(words["headings"]) <= {"".join(pieces(one)).strip() for one in said}
    assert (frames > 1) == (name == "playing")
    assert (ROOT / f"docs/{name}.png").stat().st_size < 1_500_000
