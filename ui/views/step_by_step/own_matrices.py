"""Fields for matrices that somebody types, pastes or uploads."""

from __future__ import annotations

from io import BytesIO

import streamlit as st
from numpy.typing import NDArray

from core import AttentionTrace, InputError, attend
from core.attention.matrix_files import check_scores, read_mask, read_matrix, read_npz
from ui import state
from ui.calls import call, uploaded
from ui.controls.fields import forget_uploads, name_uploads, text_area, upload
from ui.markdown import show_error
from ui.views.sources.models import check_length

# Small enough to follow by hand: three queries, four keys, two dimensions.
EXAMPLE = {"query": "1, 0\n0, 1\n1, 1", "key": "1, 0\n0, 1\n1, 1\n-1, 1", "value": "1, 0\n0, 1\n2, 2\n0, 3", "mask": ""}
HINTS = {
    "query": "One row for each query.",
    "key": "One row for each key; as many columns as Query.",
    "value": "As many rows as Key.",
    "mask": "Empty, or a row of 1 (may attend) and 0 (may not) for each query.",
}


def own_matrices() -> AttentionTrace | None:
    """Return the trace of the matrices that are entered; None after showing beside a field what is wrong with it."""
    columns, missing = dict(zip(EXAMPLE, st.columns(4), strict=True)), st.container()
    with st.expander(
        "Upload files instead (CSV, NPY, or one NPZ with query, key and value, and optionally mask and bias)"
    ):
        st.caption("A link does not include uploaded files: it shows the typed matrices.")
        archive = upload("NPZ", state.ARCHIVE, "npz", on_change=forget_uploads)
        archive_problem = st.container()
        uploads = dict(zip(EXAMPLE, st.columns(4), strict=True))
    problems, sources = {}, {}
    for name, column in columns.items():
        with uploads[name]:
            file = upload(name.capitalize(), state.FILES[name], ["csv", "txt", "npy"], on_change=forget_uploads)
        with column:
            text = text_area(
                f"{name.capitalize()} (file in use)" if file or archive else name.capitalize(),
                state.OWN[name],
                EXAMPLE[name],
                height=122,
                help=HINTS[name],
                disabled=bool(file or archive),
            )
            problems[name] = st.container()
        sources[name] = file or text
    with missing:
        files = [archive] if archive else sources.values()
        name_uploads(file.name for file in files if not isinstance(file, str))
    try:
        if archive:
            return _trace(**call(read_npz, uploaded(archive.name, archive.getvalue())))
        return _from_fields(sources)
    except InputError as error:
        with archive_problem if archive else problems.get(error.field, archive_problem):
            show_error(error)
        return None


def _from_fields(sources: dict[str, BytesIO | str]) -> AttentionTrace:
    contents = {
        name: source if isinstance(source, str) else uploaded(source.name, source.getvalue())
        for name, source in sources.items()
    }
    query, key, value = (call(read_matrix, contents[name], field=name) for name in ("query", "key", "value"))
    return _trace(query, key, value, mask=call(read_mask, contents["mask"]) if contents["mask"].strip() else None)


def _trace(
    query: NDArray, key: NDArray, value: NDArray, mask: NDArray | None = None, bias: NDArray | None = None
) -> AttentionTrace:
    check_scores(query, key, value)
    check_length(len(query), len(key), "Leave some out.", "query" if len(query) >= len(key) else "key")
    return call(attend, query, key, value, mask=mask, bias=bias)
