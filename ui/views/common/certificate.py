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
    compared = f"{what}: {certificate.cells:,} output numbers, largest difference {certificate.difference:.1e}"
    if certificate.holds:
        st.badge(f"Agrees with {compared}", icon=":material/verified:", color="green")
    else:
        words = f"Does not agree with {compared}, {certificate.rounding:,.0f} times what rounding explains"
        st.badge(words, icon=":material/error:", color="red")
    dtype = certificate.dtype
    if certificate.traced_in != dtype:
        dtype = f"model in {dtype}, traced in {certificate.traced_in}"
    details = [
        certificate.model,
        certificate.revision,
        dtype,
        f"scale {certificate.scale:.6g}",
        f"mask: {certificate.mask}",
    ]
    if certificate.left_out:
        details.append(f"{certificate.left_out} rows with nothing to attend to left out")
    st.caption(plain(" · ".join(details)))
    if of_original:
        words = "This speaks of the original, with the scale and mask above. The model never computed what is changed."
        st.caption(words)
