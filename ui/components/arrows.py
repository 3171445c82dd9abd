"""Walking through the heads with the arrow keys, while the atlas or the line below it has the focus."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
    // Keys are pressed faster than the page runs, which sees only the last of several. So the walk is kept here, and what
    // the page says counts once it has seen the last press.
    const walk = (keys.walk ??= { presses: data.presses });
    if (walk.presses <= data.presses) Object.assign(walk, { place: data.place, presses: data.presses });
    const press = (event) => {
        const step = STEPS[event.key];
        if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        walk.place = walk.place.map((at, axis) => Math.max(0, Math.min(at + step[axis], data.shape[axis] - 1)));
        walk.presses += 1;
        setTriggerValue("step", { place: walk.place, presses: walk.presses });
    };
    // A click on the atlas means: from here on with the keys. (Plotly covers the page while the mouse is pressed.)
    let isOnPicture = false;
    const down = (event) => { isOnPicture = Boolean(event.target.closest && event.target.closest(data.picture)); };
    const up = () => {
        if (isOnPicture) keys.focus({ preventScroll: true });
        isOnPicture = false;
    };
    keys.onkeydown = press; // not one listener more: an earlier call may be cleaned up after a later one
    document.addEventListener("pointerdown", down, true);
    document.addEventListener("pointerup", up, true);
    return () => {
        document.removeEventListener("pointerdown", down, true);
        document.removeEventListener("pointerup", up, true);
    };
}
""",
)


def arrow_keys(
    picture: str, label: str, place: tuple[int, int], shape: tuple[int, ...], on_step: Callable[[int, int], None]
) -> None:
    """A line that can be focused, also by a click on the picture of that key; arrow keys walk from `place` over a grid of
    this shape and call on_step(row, column)."""

    def stepped() -> None:
        found = _read(st.session_state[state.ARROWS].step, shape)
        if found is not None:
            row, column, st.session_state[state.PRESSES] = found
            on_step(row, column)

    data = {
        "picture": f".st-key-{picture}",
        "text": "← ↑ ↓ → walk through the heads",
        "label": label,
        "place": list(place),
        "shape": list(shape),
        "presses": st.session_state.get(state.PRESSES, 0),
    }
    _KEYS(key=state.ARROWS, data=data, on_step_change=stepped)


def _read(sent: object, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(row, column, number of the press), if what came from a browser can be a step in this grid."""
    if not isinstance(sent, Mapping):
        return None
    match sent.get("place"), sent.get("presses"):
        case [int(row), int(column)], int(presses) if 0 <= row < shape[0] and 0 <= column < shape[1]:
            return row, column, presses
    return None
