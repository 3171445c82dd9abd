"""Scenes of Step by step: a head with its tokens, from a model, random matrices, typed matrices or a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core import AttentionTrace, InputError, attend
from core.attention.head import Head
from core.attention.matrix_files import check_scores, read_mask, read_matrix, read_npz
from core.attention.rowwise import Overview
from core.attention.sources import DISTRIBUTIONS, Matrices, random_matrices, toy_sentence
from core.attention.stages import BY_KEY
from core.capturing.certifying import Certificate
from core.exporting.exhibit import ENDING, Exhibit, KeptHead, read
from core.exporting.tables import stage_table
from ui import links, shown, state
from ui.calls import call, uploaded
from ui.controls.fields import choose, forget_uploads, menu, name_uploads, text_area, text_line, upload, whole_number
from ui.controls.masks import Change
from ui.markdown import errors_shown, plain, show_error
from ui.progress import run
from ui.views.sources import passes
from ui.views.sources.heads import RealHead, choose_head
from ui.views.sources.models import check_length
from ui.views.sources.text_fields import SENTENCE, choose_text

# Small enough to follow by hand: three queries, four keys, two dimensions.
EXAMPLE = {"query": "1, 0\n0, 1\n1, 1", "key": "1, 0\n0, 1\n1, 1\n-1, 1", "value": "1, 0\n0, 1\n2, 2\n0, 3", "mask": ""}
SEED = "Seed", state.SEED, 0, 0, 9999
HINTS = {
    "query": "One row for each query.",
    "key": "One row for each key; as many columns as Query.",
    "value": "As many rows as Key.",
    "mask": "Empty, or a row of 1 (may attend) and 0 (may not) for each query.",
}


@dataclass(frozen=True, eq=False)
class Scene:
    """A head with all its stages, the tokens of its rows and columns, and the origin of its numbers in words.

    real         the head in its pass; None: it is not from a pretrained model
    certificate  None: no model computed this head
    kept         the head as a file holds it; None: it is not from a file
    """

    head: Head
    overview: Overview
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    origin: str
    real: RealHead | None = None
    certificate: Certificate | None = None
    kept: KeptHead | None = None

    def changed(self, change: Change, head: Head) -> Scene | None:
        """The scene with another scale or mask of its head, which no model computed; None where that was stopped."""
        if self.real is None:
            overview = head.overview()
        else:
            task = passes.changed_overview.task(self.real.of, change, changed=head)
            overview = run(task, "Computing the changed head", 1)
        return None if overview is None else replace(self, head=head, overview=overview, certificate=None, kept=None)

    def to_keep(self) -> KeptHead:
        """The head for a file, without a pass of a model."""
        return self.kept or KeptHead(
            head=self.head, query_tokens=self.query_tokens, key_tokens=self.key_tokens, says=self.origin
        )

    def numbers(self, stages: Sequence[str]) -> shown.ShownNumbers:
        head = self.head
        shapes = {"query": head.query.shape, "key": head.key.shape, "value": head.value.shape}
        shapes |= {"output": (head.shape[0], head.value.shape[1])}
        cells = sum(int(np.prod(shapes.get(key, head.shape))) for key in stages)
        about = {"stage": ", ".join(BY_KEY[key].name for key in stages), "scale": repr(head.scale)}
        tokens = self.query_tokens, self.key_tokens
        return shown.ShownNumbers(cells, lambda: tuple(stage_table(head, key, *tokens) for key in stages), about)


def real_head() -> Scene | None:
    """A head of a pretrained model, with the fields that choose it; None after showing what is wrong."""
    if (passed := choose_text(more=True, recorded=True)) is None:
        return None
    real = choose_head(*passed)
    if (computed := run(passes.head_overview.task(real.of), "Computing the head", 1)) is None:
        return None
    overview, certificate = computed
    origin = f"Layer {real.layer}, head {real.head} of {real.request.model}."
    return Scene(passes.head(real.of), overview, *real.tokens, origin, real, certificate)


def toy() -> Scene | None:
    words, width, last = st.columns([6, 2, 2])
    with words:
        text = text_line("Sentence", state.TOY_TEXT, SENTENCE)
    with width:
        d_head = whole_number("Dimensions (d_k)", state.TOY_SIZE, 8, 1, 256)
    with last:
        seed = whole_number(*SEED)
    with words:
        return _scene(lambda: call(toy_sentence, text, d_head=d_head, seed=seed))


def random() -> Scene | None:
    columns = st.columns(6)
    sizes = [("Queries", state.QUERIES, 6), ("Keys", state.KEYS, 8), ("d_k", state.D_K, 4), ("d_v", state.D_V, 4)]
    picked = []
    for column, (label, key, default) in zip(columns, sizes, strict=False):
        with column:
            picked.append(whole_number(label, key, default, 1, 512))
    with columns[4]:
        distribution = menu("Numbers", state.DISTRIBUTION, {name: name for name in DISTRIBUTIONS})
    with columns[5]:
        seed = whole_number(*SEED)
    return _scene(lambda: call(random_matrices, *picked, seed=seed, distribution=distribution))


def _scene(make: Callable[[], Matrices]) -> Scene | None:
    with errors_shown():
        made = make()
        trace = call(attend, made.query, made.key, made.value)
        return _of_trace(trace, made.query_tokens, made.key_tokens, made.origin)
    return None


def _of_trace(trace: AttentionTrace, query_tokens: tuple[str, ...], key_tokens: tuple[str, ...], origin: str) -> Scene:
    head = call(Head.of, trace)
    return Scene(head, head.overview(), query_tokens, key_tokens, origin)


def own() -> Scene | None:
    if (trace := own_matrices()) is None:
        return None
    queries, keys = (tuple(f"{side}{at}" for at in range(n)) for side, n in zip("qk", trace.shape, strict=True))
    return _of_trace(trace, queries, keys, "The matrices entered here.")


def from_file() -> Scene | None:
    """The head of the open exhibit, with the certificate of the numbers in the file; None after asking for the file again."""
    exhibit: Exhibit | None = st.session_state.get(state.EXHIBIT)
    if exhibit is None or not exhibit.heads:
        st.info("The exhibit was opened in an earlier visit. Open its file again.", icon=":material/upload_file:")
        file = upload("An exhibit that “Share” has saved", state.EXHIBIT_FILE, [ENDING])
        with errors_shown():
            if file is not None:
                st.session_state[state.EXHIBIT] = read(file.getvalue())
                st.rerun()
        return None
    kept = next(iter(exhibit.heads.values()))
    if (computed := run(passes.kept_overview.task(kept), "Computing the head", 1)) is None:
        return None
    overview, certificate = computed
    shown.now().about = exhibit.about
    told = " · ".join([kept.says, *([exhibit.about["date"]] if "date" in exhibit.about else [])])
    st.caption(plain(f"From an exhibit, and computed again from what it holds: {told}"))
    return Scene(kept.head, overview, kept.query_tokens, kept.key_tokens, kept.says, None, certificate, kept)


SOURCES: dict[str, tuple[str, Callable[[], Scene | None]]] = {
    "real": ("A real head", real_head),
    "toy": ("A sentence, random weights", toy),
    "random": ("Random matrices", random),
    "own": ("My own matrices", own),
    "file": ("An exhibit", from_file),
}


def pick_source() -> Callable[[], Scene | None]:
    """Return what makes the scene of the chosen source. An exhibit is offered while one with a head is open, or asked for."""
    exhibit: Exhibit | None = st.session_state.get(state.EXHIBIT)
    has_file = (exhibit is not None and bool(exhibit.heads)) or links.asks(state.SOURCE, "file")
    offered = {word: source for word, source in SOURCES.items() if word != "file" or has_file}
    return choose("Where the numbers come from", state.SOURCE, offered, label_visibility="collapsed", width=240)


def own_matrices() -> AttentionTrace | None:
    """Return the trace of the matrices that are entered; None after showing beside a field what is wrong with it."""
    columns, missing = dict(zip(EXAMPLE, st.columns(4), strict=True)), st.container()
    words = "Upload files instead (CSV, NPY, or one NPZ with query, key and value, and optionally mask and bias)"
    with st.expander(words):
        st.caption("A link does not include uploaded files: it shows the typed matrices.")
        archive = upload("NPZ", state.ARCHIVE, "npz", on_change=forget_uploads)
        archive_problem = st.container()
        uploads = dict(zip(EXAMPLE, st.columns(4), strict=True))
    problems, sources = {}, {}
    for name, column in columns.items():
        with uploads[name]:
            file = upload(name.capitalize(), state.FILES[name], ["csv", "txt", "npy"], on_change=forget_uploads)
        with column:
            label, has_file = name.capitalize(), bool(file or archive)
            look = {"height": 122, "help": HINTS[name], "disabled": has_file}
            text = text_area(f"{label} (file in use)" if has_file else label, state.OWN[name], EXAMPLE[name], **look)
            problems[name] = st.container()
        sources[name] = file or text
    with missing:
        files = [archive] if archive else sources.values()
        name_uploads(file.name for file in files if not isinstance(file, str))
    try:
        if archive:
            return _trace(**call(read_npz, uploaded(archive.name, archive.getvalue())))
        contents = {
            name: source if isinstance(source, str) else uploaded(source.name, source.getvalue())
            for name, source in sources.items()
        }
        query, key, value = (call(read_matrix, contents[name], field=name) for name in ("query", "key", "value"))
        return _trace(query, key, value, call(read_mask, contents["mask"]) if contents["mask"].strip() else None)
    except InputError as error:
        with archive_problem if archive else problems.get(error.field, archive_problem):
            show_error(error)
        return None


def _trace(
    query: NDArray, key: NDArray, value: NDArray, mask: NDArray | None = None, bias: NDArray | None = None
) -> AttentionTrace:
    check_scores(query, key, value)
    check_length(len(query), len(key), "Leave some out.", "query" if len(query) >= len(key) else "key")
    return call(attend, query, key, value, mask=mask, bias=bias)
