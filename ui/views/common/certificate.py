"""The certificate below every view of a real head: whether its numbers agree with the model's own."""

from __future__ import annotations

import streamlit as st

from core.capturing.certifying import Certificate
from ui.markdown import plain


def show_certificate(certificate: Certificate, *, of_original: bool = False, what: str = "the model") -> None:
    """Show whether the numbers agree.

    of_original  whether the view above shows something else, which the model never computed
    what         what the numbers were compared with
    """
    cells = f"{certificate.cells:,} output numbers"
    if certificate.holds:
        st.badge(
            f"Agrees with {what}: {cells}, largest difference {certificate.difference:.1e}",
            icon=":material/verified:",
            color="green",
        )
    else:
        st.badge(
            f"Does not agree with {what}: {cells}, largest difference {certificate.difference:.1e}, "
            f"{certificate.rounding:,.0f} times what rounding explains",
            icon=":material/error:",
            color="red",
        )
    dtype = certificate.dtype
    if certificate.traced_in != dtype:
        dtype = f"model in {dtype}, traced in {certificate.traced_in}"
    details = (
        f"{certificate.model} · {certificate.revision} · {dtype} · scale {certificate.scale:.6g} · "
        f"mask: {certificate.mask}"
    )
    left_out = f" · {certificate.left_out} rows with nothing to attend to left out" if certificate.left_out else ""
    st.caption(plain(details + left_out))
    if of_original:
        st.caption(
            "This speaks of the original, with the scale and mask above. The model never computed what is changed."
        )
