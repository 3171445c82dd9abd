"""The walls of the house: who may import what, what nobody may do, and where each kind of thing lives.

Imports are held by the contracts of import-linter in pyproject.toml, and what ruff can see by ruff: nobody unpickles, evaluates
text as code, or uses Streamlit's caches. Every other rule is a pattern of what nobody may write, shown to find it before it is
looked for in the real files.
"""

import re
import subprocess
import sys

import pytest

from tests.source_files import EVERYTHING, PRODUCT, ROOT, python_files, text
from ui import state

# Options that let code or raw HTML through that came with data: set to anything but their safe values, spelled out.
LOOSENED = r"\b(allow_pickle|trust_remote_code|unsafe_allow_html)['\"]?\s*[:=](?!\s*False\s*(?:[,)}]|$))"
LOOSENED += r"|\bweights_only['\"]?\s*[:=](?!\s*True\s*(?:[,)}]|$))"
# Widget keys and session-state keys that are spelled, or put together, where they are used instead of in ui/state.py.
SPELLED_KEY = r"""\bkey=([\w.()]+ [+] )?f?['"]|\bform\(f?['"]"""
SPELLED_KEY += r"""|session_state(\[|[.](?!update)\w+\()([\w.()]+ [+] )?f?['"]|['"] in (st[.])?session_state"""
INTERFACE = r"Attention(Mask)?Interface"


def offences(rule, *places, but=""):
    return [
        f"{path}, {found}" for path in python_files(*places) if str(path) != but for found in seen(rule, text(path))
    ]


def seen(rule, source):
    return [f"line {source.count(chr(10), 0, one.start()) + 1}: {one[0]}" for one in re.finditer(rule, source)]


BAD = {
    LOOSENED: (
        "np.load(f, allow_pickle=True)",
        "np.load(f, allow_pickle=allowed)",
        "AutoModel.from_pretrained(n, **{'trust_remote_code': True})",
        "torch.load(f, weights_only=False)",
        "st.markdown(text, unsafe_allow_html = True)",
        "AutoModel.from_pretrained(n, trust_remote_code=False or chosen)",
    ),
    SPELLED_KEY: (
        "st.slider('Scale', key='scale')",
        "st.slider('Scale', key=f'scale-{i}')",
        "st.slider('Scale', key='scale' + name)",
        "st.slider('Scale', key=state.SCALE + '-2')",
        "with st.form('words'): ...",
        "st.session_state['scale']",
        "st.session_state[name + '-2']",
        "st.session_state.get('scale')",
        "session_state.setdefault('scale', 1)",
        "'scale' in st.session_state",
    ),
}


@pytest.mark.parametrize(("rule", "source"), [(rule, source) for rule, of in BAD.items() for source in of])
def test_an_offence_is_seen(rule, source):
    assert seen(rule, source)


def test_imports_keep_to_the_contracts():
    """Those of pyproject.toml, whose names say what they are about; `lint-imports` tells more about a broken one."""
    program = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_nothing_lets_code_or_html_through_that_came_with_data():
    """A test may make a pickle, to see it refused, and so may the benchmark of hostile files."""
    found, makers = offences(LOOSENED, *EVERYTHING, but="tests/test_layout.py"), ("tests/", "bench/hostile_files.py")
    assert [one for one in found if not (one.startswith(makers) and "allow_pickle" in one)] == []


def test_only_two_files_know_the_attention_interface():
    """The second one is also copied elsewhere."""
    known_to = ("core/models/calls.py", "core/record_pass.py")
    found = offences(INTERFACE, *PRODUCT, but=known_to[0])
    assert {one.partition(",")[0] for one in found} == {known_to[1]}
    assert offences(INTERFACE, known_to[0])


def test_widget_keys_live_in_the_state_module():
    assert offences(SPELLED_KEY, "pages", "ui", but="ui/state.py") == []


def test_styles_name_keys_of_the_state_module():
    known = {key for key in vars(state).values() if isinstance(key, str)}
    named = set(re.findall(r"st-key-(\w+?)_?\b", (ROOT / "ui/shell.css").read_text(encoding="utf-8")))
    assert named
    assert named <= known


def test_tests_in_the_browser_never_sleep():
    """They wait for what they say of a page: tests/browser/conftest.py lets nobody look at it once."""
    tests = [path for path in python_files("tests/browser") if path.name.startswith("test_")]
    assert tests
    assert [path for path in tests if re.search(r"\b(sleep|wait_for_timeout)\(", text(path))] == []


def loaded_by(modules):
    """Top-level packages in a fresh process after importing the modules."""
    program = f"import {', '.join(modules)}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(
        subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.split()
    )


def modules_in(*places):
    return [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in python_files(*places)]


def test_figures_and_attention_load_neither_torch_nor_streamlit():
    loaded = loaded_by(modules_in("core/__init__.py", "core/attention", "core/figures"))
    assert "core" in loaded
    assert not loaded & {"torch", "transformers", "streamlit"}


def test_the_app_settles_the_threads_of_numpy_before_it_is_loaded():
    assert not loaded_by(["app"]) & {"numpy", "torch"}
    assert "OPENBLAS_NUM_THREADS" in (ROOT / "app.py").read_text(encoding="utf-8")
