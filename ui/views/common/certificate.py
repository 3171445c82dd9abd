"""The certificate below every view of a real head: whether its numbers agree with the model's own."""

from __future__ import annotations

import streamlit as st

from core.capturing.certifying import Certificate
from core.units import small_number
from ui.markdown import plain


def show_certificate(certificate: Certificate, *, of_original: bool = False, what: str = "the model") -> None:
    """Show whether the numbers agree, with their provenance behind one click.

    of_original  whether the view above shows something else, which the model never computed
    what         what the numbers were compared with
    """
    compared = (
        f"{what}: {certificate.cells:,} output numbers, largest difference {small_number(certificate.difference)}"
    )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if certificate.holds:
            st.badge(f"Agrees with {compared}", icon=":material/verified:", color="green")
        else:
            words = f"Does not agree with {compared}, {certificate.rounding:,.0f} times what rounding explains"
            st.badge(words, icon=":material/error:", color="red")
        with st.popover("Provenance", type="tertiary"):
            for name, text in _provenance(certificate).items():
                st.caption(f"**{name}** {plain(text)}")
    if certificate.left_out:
        st.caption(f"{certificate.left_out} rows with nothing to attend to are left out.")
    if of_original:
        words = "This speaks of the original, with the scale and mask above. The model never computed what is changed."
        st.caption(words)


def _provenance(certificate: Certificate) -> dict[str, str]:
    dtype = certificate.dtype
    if certificate.traced_in != dtype:
        dtype = f"model in {dtype}, traced in {certificate.traced_in}"
    return {
        "model": certificate.model,
        "revision": certificate.revision,
        "dtype": dtype,
        "scale": f"{certificate.scale:.6g}",
        "mask": certificate.mask,
    }
