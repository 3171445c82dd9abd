"""Certificates: whether the numbers of a head agree with the model, and what was compared."""

import streamlit as st

from core.capturing.certifying import CHECKED, NOT_CHECKED, Certificate
from core.units import small_number
from ui.markdown import plain
from ui.progress import run
from ui.requests import HeadRequest
from ui.views.sources import passes


def show_certificate(certificate: Certificate, *, of_original: bool = False, what: str = "the model") -> None:
    """Show whether the numbers agree; their provenance, what was checked and what was not are behind one click.

    of_original  whether the view above shows something else, which the model never computed
    what         what the numbers were compared with
    """
    difference = small_number(certificate.difference)
    compared = f"{what}: {certificate.cells:,} output numbers from its Q, K and V, largest difference {difference}"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        more = f"Does not agree with {compared}, {certificate.rounding:,.0f} times what rounding explains"
        verdict(certificate.agrees, f"Agrees with {compared}", more, fault=certificate.fault)
        dtype, traced_in = certificate.dtype, certificate.traced_in
        precision = dtype if traced_in == dtype else f"model in {dtype}, traced in {traced_in}"
        provenance = {"model": certificate.model, "revision": certificate.revision, "precision": precision}
        provenance |= {"scale": f"{certificate.scale:.6g}", "mask": certificate.mask}
        provenance |= {"checked": CHECKED, "not checked": NOT_CHECKED}
        with st.popover("Provenance", type="tertiary"):
            for name, text in provenance.items():
                st.caption(f"**{name}** {plain(text)}")
    if certificate.left_out:
        st.caption(f"{certificate.left_out} rows with nothing to attend to are left out.")
    if of_original:
        words = "This speaks of the original, with the scale and mask above. The model never computed what is changed."
        st.caption(words)


def check_head(of: HeadRequest, what: str = "the model") -> None:
    """Compute and show the certificate of a head; what: as in `show_certificate`."""
    if (certificate := run(passes.certificate.task(of), f"Comparing the head with {what}", 1)) is not None:
        show_certificate(certificate, what=what)


def verdict(holds: bool, yes: str, no: str, *, fault: str) -> None:
    """Show whether numbers agree.

    fault  what the check-up of the model found wrong; "" for nothing. Then nothing about the model is shown as right
    """
    if fault:
        st.badge(plain(fault), icon=":material/error:", color="red")
    elif holds:
        st.badge(yes, icon=":material/verified:", color="green")
    else:
        st.badge(no, icon=":material/error:", color="red")
