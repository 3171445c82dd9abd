"""The walls of the house: who may import what, what nobody may do, and where each kind of thing lives.

Imports are held by the contracts of import-linter in pyproject.toml, and what ruff can see by ruff: nobody unpickles, evaluates
text as code, or uses Streamlit's caches. Every other rule is a function from source text to the offences in it ("line 3: key
'scale'"), so that it can be shown to fail on a small bad text before it is asked about the real files.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeGuard

import pytest

from tests.source_files import EVERYTHING, PRODUCT, ROOT, called, literal, python_files, text
from ui import state

MOST_LINES = {"program": (PRODUCT, 52_288), "tests": (("tests",), 39_385)}  # CONTRIBUTING.md says where these should go
SAFE = {"allow_pickle": False, "trust_remote_code": False, "weights_only": True, "unsafe_allow_html": False}


# --- the rules


def loosened(source: str) -> list[str]:
    """Options that let code or raw HTML through that came with data: set to anything but their safe values, spelled out."""
    if not any(name in source for name in SAFE):  # most files need not be parsed, which takes longest
        return []
    offences = []
    for node in ast.walk(ast.parse(source)):
        options: list[tuple[str | None, ast.expr]] = []
        if isinstance(node, ast.keyword):
            options = [(node.arg, node.value)]
        elif isinstance(node, ast.Dict):
            options = list(zip(map(literal, node.keys), node.values, strict=True))
        for name, value in options:
            if name in SAFE and not (isinstance(value, ast.Constant) and value.value is SAFE[name]):
                offences.append(f"line {value.lineno}: {name}")
    return offences


def literal_keys(source: str) -> list[str]:
    """Widget keys and session-state keys that are spelled where they are used instead of in ui/state.py."""
    offences = []
    for node in ast.walk(ast.parse(source)):
        spelled: list[ast.expr] = []
        if isinstance(node, ast.Call):
            spelled = [word.value for word in node.keywords if word.arg == "key"]
            positional = called(node) == "form" or (is_session_state(node.func) and called(node) != "update")
            spelled += node.args[:1] if positional else []
        elif isinstance(node, ast.Subscript) and is_session_state(node):
            spelled = [node.slice]
        elif isinstance(node, ast.Compare) and any(map(is_session_state, node.comparators)):
            spelled = [node.left]
        offences += [f"line {key.lineno}: key {ast.unparse(key)}" for key in spelled if is_spelled(key)]
    return offences


def is_session_state(node: ast.AST) -> bool:
    """`st.session_state`, or something taken from it: `st.session_state.get`, `session_state["x"]`."""
    inner = getattr(node, "value", node)
    return any(getattr(part, "attr", getattr(part, "id", "")) == "session_state" for part in (node, inner))


def is_spelled(key: ast.expr) -> bool:
    """A string literal, or a string put together from literals on the spot."""
    if isinstance(key, ast.BinOp):
        return is_spelled(key.left) or is_spelled(key.right)
    if isinstance(key, ast.Call):  # "head-{}".format(3)
        return isinstance(key.func, ast.Attribute) and literal(key.func.value) is not None
    return isinstance(key, ast.JoinedStr) or literal(key) is not None


def mentions_attention_interface(source: str) -> list[str]:
    lines = enumerate(source.splitlines(), start=1)
    names = ("AttentionInterface", "AttentionMaskInterface")
    return [f"line {number}: {line.strip()}" for number, line in lines if any(name in line for name in names)]


# What Playwright tells of a page at one moment. Without arguments, so do `count` and `all`, and `url` of a page.
LOOKS = {"all_inner_texts", "all_text_contents", "aria_snapshot", "bounding_box", "content", "evaluate", "evaluate_all"}
LOOKS |= {"evaluate_handle", "get_attribute", "inner_html", "inner_text", "input_value", "text_content", "title"}
LOOKS |= {"is_checked", "is_disabled", "is_editable", "is_enabled", "is_hidden", "is_visible", "query_selector"}
LOOKS |= {"element_handle", "element_handles", "eval_on_selector", "eval_on_selector_all", "query_selector_all"}
WAITING = {"eventually", "settled"}  # look until what they are given sees what is expected
SLEEPING = {"sleep", "wait_for_timeout"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def looks_once(*sources: str) -> list[str]:
    """Where tests look at a page that may not be drawn yet, or sleep: in any function but those that are waited for.

    A function that looks is itself a look wherever it is called, so all files are read together. Its name stands for nothing
    else in them.
    """
    trees = [ast.parse(source) for source in sources]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, Function)]
    tests = [one for one in functions if one.name.startswith("test_") or "fixture" in decorators(one)]
    helpers = [one for one in functions if one not in tests and one.name not in WAITING]
    looks: set[str] = set()
    while new := {name_of(one) for one in helpers if any(looks_of(one, looks))} - looks:
        looks |= new
    offences = [
        f"line {node.lineno}: looks once, {ast.unparse(node)}" for test in tests for node in looks_of(test, looks)
    ]
    calls = [node for test in tests for node in ast.walk(test) if isinstance(node, ast.Call)]
    return offences + [f"line {call.lineno}: sleeps" for call in calls if called(call) in SLEEPING]


def looks_of(function: Function, looks: set[str]) -> Iterator[ast.expr]:
    """The looks that a function takes itself: not those of functions within it, of what is waited for, or of what it does."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function):
            continue
        if isinstance(node, ast.Call) and called(node) in WAITING:
            waiting.append(node.func)
            continue
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and called(node.value).startswith("evaluate")
        ):
            waiting.append(node.value.func)  # something is done, whatever comes of it
            continue
        if is_look(node, looks):
            yield node
        waiting += ast.iter_child_nodes(node)


def is_look(node: ast.AST, looks: set[str]) -> TypeGuard[ast.expr]:
    """A property stands in `looks` with a dot before its name."""
    if isinstance(node, ast.Attribute):
        return f".{node.attr}" in looks or ast.unparse(node).endswith("page.url")
    if not isinstance(node, ast.Call):
        return False
    is_bare = isinstance(node.func, ast.Attribute) and not node.args and not node.keywords
    return called(node) in LOOKS | looks or (is_bare and called(node) in {"all", "count"})


def decorators(function: Function) -> str:
    return " ".join(map(ast.unparse, function.decorator_list))


def name_of(function: Function) -> str:
    return f".{function.name}" if decorators(function) == "property" else function.name


# --- each rule fails where it should, and only there


HELPERS = """
def heading(page):
    return page.locator("h1").text_content()

class App:
    @property
    def here(self):
        return self.page.url

    def words(self):
        return heading(self.page)

    def shows(self, words):
        self.eventually(self.words, words)
"""


def looks_once_in_a_test(lines: str) -> list[str]:
    return looks_once(HELPERS, f"def test(): pass\n\ndef test_it(page):\n    {lines}")


Rule = Callable[[str], list[str]]
BAD: dict[Rule, list[str]] = {
    loosened: [
        "np.load(f, allow_pickle=True)",
        "np.load(f, allow_pickle=allowed)",
        "AutoModel.from_pretrained(n, trust_remote_code=True)",
        "AutoModel.from_pretrained(n, **{'trust_remote_code': True})",
        "torch.load(f, weights_only=False)",
        "st.markdown(text, unsafe_allow_html=True)",
        "st.markdown(text, **{'unsafe_allow_html': True})",
    ],
    literal_keys: [
        "st.slider('Scale', key='scale')",
        "st.sidebar.slider('Scale', key='scale')",
        "left.button('Go', key='go')",
        "st.slider('Scale', key=f'scale-{i}')",
        "st.slider('Scale', key='scale' + name)",
        "st.slider('Scale', key=state.SCALE + '-2')",
        "st.slider('Scale', key='scale-{}'.format(i))",
        "st.slider('Scale', key='scale-%d' % i)",
        "with st.form('words'): ...",
        "st.session_state['scale']",
        "st.session_state['scale'] = 1",
        "st.session_state.get('scale')",
        "session_state.setdefault('scale', 1)",
        "'scale' in st.session_state",
    ],
    mentions_attention_interface: [
        "from transformers import AttentionInterface",
        "AttentionMaskInterface.register(name, mask)",
    ],
    looks_once_in_a_test: [
        "assert links.count() == 3",
        "assert page.inner_text('body') == 'x'",
        "said = page.locator('p').inner_text()\n    assert said",
        "for way in ways.all(): way.click()",
        "box = place.bounding_box()",
        "if button.is_visible(): button.click()",
        "assert page.evaluate('1') == 1",
        "assert 'x' in app.page.url",
        "assert heading(page) == 'x'",
        "assert app.here == 'x'",
        "assert app.words() == 'x'",
        "def now(): return page.title()\n    assert now()",
        "page.wait_for_timeout(200)",
        "eventually(page, lambda: True)\n    time.sleep(1)",
        "eventually(page, lambda: True) and page.title()",
    ],
}
GOOD: dict[Rule, list[str]] = {
    loosened: [
        "np.load(f, allow_pickle=False)",
        "load(n, trust_remote_code=False)",
        "st.markdown('unsafe_allow_html=True')",
    ],
    literal_keys: [
        "st.slider('Scale', key=state.SCALE)",
        "st.slider('Scale', key=state.numbered('scale', i))",
        "st.session_state[state.SCALE]",
        "state.SCALE in st.session_state",
        "sorted(rows, key=str)",
        "attend(query=q, key=k, value=v)",
        "settings['scale']",
        "'%d rows' % n",
    ],
    mentions_attention_interface: ["from transformers import AutoModel"],
    looks_once_in_a_test: [
        "expect(links).to_have_count(3)",
        "eventually(page, lambda: page.inner_text('body'), 'x')",
        "app.eventually(app.words, 'x')",
        "app.eventually(lambda: app.here, lambda here: 'x' in here)",
        "before = app.settled(place.bounding_box)",
        "def now(): return heading(page)\n    eventually(page, now, 'x')",
        "app.shows('x')",
        "page.evaluate('localStorage.clear()')",
        "assert np.all(weights.sum(axis=1)) and 'abc'.count('a') == 1",
    ],
}


@pytest.mark.parametrize(("rule", "source"), [(rule, source) for rule, of in BAD.items() for source in of])
def test_an_offence_is_seen(rule: Rule, source: str) -> None:
    assert rule(source)


@pytest.mark.parametrize(("rule", "source"), [(rule, source) for rule, of in GOOD.items() for source in of])
def test_what_is_no_offence_is_let_through(rule: Rule, source: str) -> None:
    assert not rule(source)


# --- the rules hold in the files


def test_imports_keep_to_the_contracts() -> None:
    """Those of pyproject.toml, whose names say what they are about; `lint-imports` tells more about a broken one."""
    program = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def offences(rule: Rule, *places: str, but: str = "") -> list[str]:
    return [f"{path}, {found}" for path in python_files(*places) if str(path) != but for found in rule(text(path))]


def test_nothing_lets_code_or_html_through_that_came_with_data() -> None:
    """A test may make a pickle, to see it refused, and so may the benchmark of hostile files."""
    found, makers = offences(loosened, *EVERYTHING), ("tests/", "bench/hostile_files.py")
    assert [one for one in found if not (one.startswith(makers) and one.endswith("allow_pickle"))] == []


def test_only_two_files_know_the_attention_interface() -> None:
    """The second one is also copied elsewhere."""
    known_to = ("core/models/calls.py", "core/record_pass.py")
    found = offences(mentions_attention_interface, *PRODUCT, but=known_to[0])
    assert {one.partition(",")[0] for one in found} == {known_to[1]}
    assert offences(mentions_attention_interface, known_to[0])


def test_widget_keys_live_in_the_state_module() -> None:
    assert offences(literal_keys, "pages", "ui", but="ui/state.py") == []


def test_styles_name_keys_of_the_state_module() -> None:
    known = {key for key in vars(state).values() if isinstance(key, str)}
    named = set(re.findall(r"st-key-(\w+?)_?\b", (ROOT / "ui/shell.css").read_text(encoding="utf-8")))
    assert named
    assert named <= known


def test_tests_in_the_browser_wait_for_what_they_say_of_a_page() -> None:
    assert looks_once(*map(text, python_files("tests/browser"))) == []


# --- and when the modules are really imported


def loaded_by(modules: Iterable[str]) -> set[str]:
    """Top-level packages in a fresh process after importing the modules."""
    program = f"import {', '.join(modules)}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(
        subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.split()
    )


def modules_in(*places: str) -> list[str]:
    return [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in python_files(*places)]


def test_what_a_fresh_process_loads_is_seen() -> None:
    loaded = loaded_by(["yaml.nodes"])
    assert "yaml" in loaded
    assert "torch" not in loaded


def test_figures_and_attention_load_neither_torch_nor_streamlit() -> None:
    loaded = loaded_by(modules_in("core/__init__.py", "core/attention", "core/figures"))
    assert "core" in loaded
    assert not loaded & {"torch", "transformers", "streamlit"}


@pytest.mark.parametrize("part", MOST_LINES)
def test_what_is_added_makes_something_unnecessary(part: str) -> None:
    folders, most = MOST_LINES[part]
    assert sum(text(file).count("\n") for file in python_files(*folders)) <= most


def test_the_app_settles_the_threads_of_numpy_before_it_is_loaded() -> None:
    assert not loaded_by(["app"]) & {"numpy", "torch"}
    assert "OPENBLAS_NUM_THREADS" in (ROOT / "app.py").read_text(encoding="utf-8")
