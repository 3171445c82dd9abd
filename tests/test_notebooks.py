"""The notebooks run from the first cell to the last, in a kernel that is empty, and what is computed there shows itself."""

import ast
import os

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from core import attend, capture
from core.exporting.documents import to_notebook
from tests.browser.driver import Picture
from tests.conftest import PATIENCE
from tests.source_files import ROOT
from tests.ui.sharing.test_as_python import View

FOLDER = ROOT / "notebooks"
FIGURE = "application/vnd.plotly.v1+json"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """One for all notebooks, each of which finds it empty: torch is imported only once. It imports core under the name that
    core is installed under, and waits for no network."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "headlight").symlink_to(ROOT / "core")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        patch.setenv("PLOTLY_RENDERER", "plotly_mimetype")  # figures without four megabytes of plotly.js
        patch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
        path = {"metadata": {"path": tmp_path_factory.mktemp("work")}}
        starting = NotebookClient(
            nbformat.v4.new_notebook(), kernel_name="python3", resources=path, startup_timeout=PATIENCE
        )
        with starting.setup_kernel():
            yield starting.km


def outputs_of(name, kernel):
    """Runs a notebook; gives what each cell shows, by the cell's last line. All heads are muted of a smaller model."""
    text = (FOLDER / f"{name}.ipynb").read_text("utf-8")
    smaller = text.replace("head_effects(model,", "head_effects(load_model('all-MiniLM-L6-v2'),")
    return run(nbformat.reads(smaller, as_version=4), kernel)


def run(notebook, kernel):
    empty = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%reset -f")])
    for one in (empty, notebook):
        NotebookClient(one, timeout=PATIENCE, km=kernel).execute()
    return {
        cell.source.splitlines()[-1]: output.data
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "data" in output
    }


def drawn(figure):
    """The numbers of a heatmap, NaN where masked."""
    return Picture(figure["data"], figure["layout"]).values


@pytest.mark.thorough
def test_attention_by_hand(kernel):
    """Only this test finds a cell that fails, or does not show itself, in a kernel of Jupyter."""
    shown = outputs_of("attention_by_hand", kernel)
    query, key, value = [[1, 0], [0, 1], [1, 1]], [[1, 0], [0, 1], [1, 1], [-1, 1]], [[1, 0], [0, 1], [2, 2], [0, 3]]
    trace = attend(query, key, value)
    assert np.allclose(drawn(shown["trace"][FIGURE]), trace.weights)
    assert "3 queries × 4 keys, d_k 2, d_v 2" in shown["trace"][FIGURE]["layout"]["title"]["text"]
    assert shown["trace"]["text/plain"] == repr(trace)
    assert "0.156, 0.094, 0.698, 0.052" in shown["softmax(scores).round(3)"]["text/plain"]
    causal = drawn(shown['stage_figure(causal, "weights")'][FIGURE])
    assert np.array_equal(np.isnan(causal), ~np.tri(3, 4, dtype=bool))


@pytest.mark.thorough
def test_a_real_head(kernel, smollm):
    """Only this test finds a cell that fails there with a model at hand."""
    shown = outputs_of("a_real_head", kernel)
    passed = capture(smollm, "The capital of France is")
    assert "<code>·France</code>" in shown["passed"]["text/html"]
    assert ">holds<" in shown["passed.certificate(layer=23, head=4)"]["text/html"]
    figure = shown['stage_figure(trace, "weights", tokens=passed.tokens())'][FIGURE]
    trace = passed.trace(23, 4)
    assert np.allclose(drawn(figure), np.where(trace.mask, trace.weights, np.nan), equal_nan=True)
    assert figure["layout"]["yaxis"]["ticktext"] == ["The", "·capital", "·of", "·France", "<b>·is</b>"]
    before, after = ast.literal_eval(shown["dict(passed.next_tokens(3)), dict(edited.next_tokens(3))"]["text/plain"])
    assert before[" Paris"] == pytest.approx(0.772, abs=0.001)
    assert after[" Paris"] == pytest.approx(0.141, abs=0.001)
    assert drawn(shown['heads_figure(effects, "effect")'][FIGURE]).shape == (6, 12)


@pytest.mark.thorough
def test_a_view_shared_as_a_notebook_gives_what_the_page_draws(kernel):
    """Only this test finds a cell of such a notebook that fails, or does not show itself, in a kernel of Jupyter."""
    view = View("step_by_step", source="toy", words="the <b>cat</b> sat", width="5", seed="3")
    notebook = nbformat.reads(to_notebook(view.cells, "Step by step", {}), as_version=4)
    (install,) = [cell for cell in notebook.cells if "%pip" in cell.source]
    notebook.cells.remove(install)  # it would fetch torch; test_install.py installs from the same folder
    shown = run(notebook, kernel)
    assert np.allclose(drawn(shown[view.cells[-1]][FIGURE]), view.drawn("As it is"), equal_nan=True)


@pytest.mark.thorough
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_are_kept_without_their_outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    assert not [cell.source for cell in cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)]
