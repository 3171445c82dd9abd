"""A trace, stage by stage: one stage large, the pinned cell explained beside it, and all the stages small below."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from numpy.linalg import norm

from core import AttentionTrace, Ledger, explain
from core.attention.stages import INPUTS, STAGES, STEPS, Stage, number
from core.figures.heatmap import WIDTH
from core.figures.ledger import passed_on, waterfall
from core.figures.stages import colour_limit, stage_figure
from ui import state
from ui.components import pin
from ui.controls import what_if
from ui.controls.menu import menu
from ui.markdown import plain, quoted
from ui.views.certificate import show_certificate
from ui.views.pictures import show_heatmap
from ui.views.scene import Scene

# Pixels in a window 1024 wide, of a picture with another beside it and of one among three.
ONE_OF_TWO, ONE_OF_THREE = 240, 270
# What the page's address says is the label: it stays as it is.
GROUPS = {"inputs": INPUTS} | {stage.key: (stage,) for stage in STEPS}
NAMES = {"inputs": "Q, K, V"} | {stage.key: stage.name for stage in STEPS}


def show_stages(scene: Scene) -> None:
    """Everything below the source of a page."""
    stages, switches = st.columns([6, 5], vertical_alignment="center")
    with stages:
        group = menu("Stage", state.STAGE, NAMES, opening="weights", look="buttons", label_visibility="collapsed")
    with switches:
        changed = what_if.changes(scene.trace)
    trace = changed or scene.trace
    pin.listen()
    picture, explanation = st.columns([7, 5] if changed is None else [3, 2], gap="medium")
    with explanation:
        cell = pin.pinned(trace)
        ledger = explain(trace, *cell)
        _show_ledger(scene, trace, ledger, explain(scene.trace, *cell) if changed else None)
    with picture:
        _show_group(scene, GROUPS[group], changed, ledger)
        if scene.certificate is not None:
            show_certificate(scene.certificate)
        else:
            st.caption(plain(scene.origin))
    st.subheader("Every stage", anchor=False)
    _show_all(scene, trace, cell)


def _show_group(scene: Scene, group: Sequence[Stage], changed: AttentionTrace | None, ledger: Ledger) -> None:
    cell = (ledger.query, ledger.key)
    if len(group) > 1:  # one below the other: a vector is long and a text is short
        for stage in group:
            _chart(scene, stage, scene.trace, cell, label=stage.name, height=210, name=stage.name, compact=True)
        return
    stage = group[0]
    st.markdown(f"${stage.formula(changed or scene.trace, ledger)}$")
    versions = {"As it is": scene.trace} | ({"Changed": changed} if changed else {})
    limit = colour_limit(stage, *versions.values())
    for column, (name, trace) in zip(st.columns(len(versions)), versions.items(), strict=True):
        with column:
            label = f"{stage.name}: {name.lower()}" if changed else None
            width = ONE_OF_TWO if changed else WIDTH
            _chart(scene, stage, trace, cell, label=label, height=430, width=width, limit=limit, name=name)


def _chart(
    scene: Scene,
    stage: Stage,
    trace: AttentionTrace,
    cell: tuple[int, int],
    *,
    name: str,
    label: str | None,
    height: int,
    width: int = WIDTH,
    limit: float | None = None,
    compact: bool = False,
) -> None:
    if label:
        st.markdown(f"**{label}**")
    figure = stage_figure(
        stage,
        trace,
        scene.query_tokens,
        scene.key_tokens,
        pin=cell,
        limit=limit,
        height=height,
        width=width,
        compact=compact,
    )
    show_heatmap(figure, name, f"{stage.name}: heatmap of {stage.rows} by {stage.columns}. {stage.sentence}", compact)


def _show_all(scene: Scene, trace: AttentionTrace, cell: tuple[int, int]) -> None:
    columns = st.columns(3)
    for place, stage in enumerate(STAGES):
        with columns[place % 3]:
            label = f"{place + 1}  {stage.name}"
            name = f"small {stage.name}"
            _chart(scene, stage, trace, cell, label=label, height=250, width=ONE_OF_THREE, name=name, compact=True)


def _show_ledger(scene: Scene, trace: AttentionTrace, cell: Ledger, before: Ledger | None) -> None:
    st.markdown(_sentence(scene, cell))
    st.table(_rows(trace, cell, before), border="horizontal", hide_header=before is None, hide_index=True)
    st.plotly_chart(
        waterfall(cell),
        key=state.picture("waterfall"),
        theme=None,
        config={"displayModeBar": False},
        alt="Waterfall: the products of query and key one by one, their sum, and what becomes of it.",
    )
    st.plotly_chart(
        passed_on(cell),
        key=state.picture("passed on"),
        theme=None,
        config={"displayModeBar": False},
        alt="Bars: the value vector of the key, and its share that reaches the query's output.",
    )


def _sentence(scene: Scene, cell: Ledger) -> str:
    query, key = quoted(scene.query_tokens[cell.query]), quoted(scene.key_tokens[cell.key])
    if not cell.allowed:
        return f"{query} may not look at {key}: the pair is masked, its weight is exactly 0."
    return f"{query} gives **{cell.weight:.1%}** of its attention to {key}."


def _rows(trace: AttentionTrace, cell: Ledger, before: Ledger | None) -> list[dict[str, str]]:
    lines = [
        (f"q · k, sum of {len(cell.products)} products", lambda c: number(c.raw)),
        ("× scale", lambda c: f"× {number(c.scale)} = {number(c.scaled)}"),
    ]
    if trace.softcap is not None:
        lines.append((f"soft cap {trace.softcap:g}", lambda c: number(c.capped)))
    if trace.bias.any():
        lines.append(("+ bias", lambda c: number(c.bias)))
    lines += [
        ("+ mask", lambda c: f"{'+ 0' if c.allowed else '+ (−∞)'} = {number(c.masked)}"),
        ("− row maximum", lambda c: f"− ({number(c.row_maximum)}) = {number(c.shifted)}"),
        ("e to that power", lambda c: number(c.exponential)),
        ("÷ row sum", lambda c: f"÷ {number(c.row_sum)}"),
        ("= weight", lambda c: number(c.weight)),
        ("× value", lambda c: f"length {number(float(norm(c.value)))} → {number(float(norm(c.contribution)))}"),
    ]
    if before is None:
        return [{"step": plain(step), "value": plain(tell(cell))} for step, tell in lines]
    return [
        {"step": plain(step), "as it is": plain(tell(before)), "changed": plain(tell(cell))} for step, tell in lines
    ]
