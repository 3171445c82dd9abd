"""Walking through the heads with the arrow keys, while the atlas or the line below it has the focus."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from ui import state

_KEYS = st.components.v2.component(
    "headlight_arrows",
    html='<div class="keys" tabindex="0" role="application"></div>',
    css="""
.keys { font: 14px var(--st-font); color: var(--st-text-color); opacity: 0.75; padding: 2px 6px; border-radius: 4px;
        width: fit-content; }
.keys:focus-visible { outline: 2px solid var(--st-primary-color); opacity: 1; }
""",
    js="""
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
export default function ({ parentElement, data, setTriggerValue }) {
    const keys = parentElement.querySelector(".keys");
    keys.textContent = data.text;
    keys.setAttribute("aria-label", data.label);
    const press = (event) => {
        const step = STEPS[event.key];
        if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        setTriggerValue("step", step);
    };
    // A click on the atlas means: from here on with the keys.
    const focus = (event) => {
        if (event.target.closest && event.target.closest(data.picture)) keys.focus({ preventScroll: true });
    };
    keys.addEventListener("keydown", press);
    document.addEventListener("pointerup", focus);
    return () => {
        keys.removeEventListener("keydown", press);
        document.removeEventListener("pointerup", focus);
    };
}
""",
)


def arrow_keys(picture: str, label: str, on_step: Callable[[int, int], None]) -> None:
    """A line that can be focused, also by a click on the picture of that key; arrow keys call on_step(layers, heads)."""

    def stepped() -> None:
        step = st.session_state[state.ARROWS].step
        is_step = isinstance(step, list) and len(step) == 2 and all(part in (-1, 0, 1) for part in step)
        if is_step:
            on_step(*step)

    data = {"picture": f".st-key-{picture}", "text": "← ↑ ↓ → walk through the heads", "label": label}
    _KEYS(key=state.ARROWS, data=data, on_step_change=stepped)
