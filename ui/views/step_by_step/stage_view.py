"""The stages of one head: the equation as a line of small pictures, one stage large below it, the chosen pair explained."""

from __future__ import annotations

import streamlit as st

from core import Ledger
from core.attention.formulas import added, formula
from core.attention.ledger import OutputSum, lines
from core.attention.rowwise import Overview
from core.attention.stages import BY_KEY, Stage, number
from core.figures.chart import Chart
from core.figures.heatmaps.borders import with_borders
from core.figures.heatmaps.heatmap import WIDTH
from core.figures.heatmaps.stages import colour_limit, stage_heatmap
from core.figures.plots.waterfall import passed_on, waterfall
from core.heads.pairs import pair_ranges
from core.notebook.figures import stage_figure
from ui import presenting
from ui import shown as on_page
from ui.calls import call, is_known, result, result_of
from ui.components import pin
from ui.controls.pinned import pinned_among
from ui.markdown import plain, quoted
from ui.views import numbers
from ui.views.common.certificate import show_certificate
from ui.views.common.magnified import show_magnified
from ui.views.common.pictures import show_chart, show_heatmap
from ui.views.common.tables import table
from ui.views.sources.scenes import Scene
from ui.views.step_by_step.equation import clicked, opened_stage, show_equation

ONE_OF_TWO = 240  # pixels in a window 1024 wide, of a picture with another beside it
TERMS, DIMENSIONS = 8, 4  # of the output's sum: keys, and numbers of each, that are shown one by one


def show_stages(scene: Scene, changed: Scene | None) -> Ledger:
    """The head of a scene, and beside it the same head with another scale or mask; gives the chosen pair, explained."""
    shown = changed or scene
    if scene.real is None:
        on_page.now().head = lambda: numbers.kept(scene)
    stage = BY_KEY[opened_stage()]
    line = st.container(gap=None)  # the listener takes no room
    with line:
        pin.listen(clicked)  # before the pictures: whoever sees one may click at once
    with line:
        presenting.title(plain(scene.origin.removesuffix(".")))
    picture, explanation = st.columns(_shares(changed), gap="medium")
    with explanation:
        weights = shown.head.stages("weights")
        cell = pinned_among(weights.shape, shown.head.strongest(shown.overview), weights.exact)
    ledger = call(shown.head.explain, *cell)
    result(ledger)
    result_of(stage_figure, shown.head, stage.key, tokens=_tokens(scene), cell=cell)
    # What a visitor looks at comes first: whoever changes the head has an eye on the large picture.
    with picture:
        _show_stage(scene, changed, stage, ledger)
        if scene.certificate is not None:
            show_certificate(scene.certificate, of_original=changed is not None)
        else:
            st.caption(plain(scene.origin))
    with line:
        show_equation(shown, cell, stage.key)
    with explanation:
        _show_ledger(shown, ledger, scene.head.explain(*cell) if changed else None)
    return ledger


def _tokens(scene: Scene) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The tokens of queries and keys as "As Python" writes them; None for matrices that have none."""
    if scene.real is not None:
        return call(scene.real.capture.tokens, scene.real.kind)
    return (scene.query_tokens, scene.key_tokens) if is_known(scene.query_tokens) else None


def _shares(changed: Scene | None) -> tuple[int, int]:
    """Shares of the width for the pictures and the text beside them."""
    if presenting.is_on():
        return (3, 1) if changed is None else (5, 1)
    return (7, 5) if changed is None else (3, 2)


def _show_stage(scene: Scene, changed: Scene | None, stage: Stage, ledger: Ledger) -> None:
    shown = changed or scene
    with presenting.told():
        st.markdown(f"**{stage.name}** {stage.sentence}")
    st.markdown(f"${formula(stage.key, shown.head, shown.overview, ledger)}$")
    versions = {"As it is": scene} | ({} if changed is None else {"Changed": changed})
    limit = colour_limit(stage, *(version.overview.matrices[stage.key] for version in versions.values()))
    cell = (ledger.query, ledger.key)
    for column, (name, version) in zip(st.columns(len(versions)), versions.items(), strict=True):
        with column:
            if changed is not None:
                with presenting.told():
                    st.markdown(f"**{name}**: scale {number(version.head.scale)}")
            chart = stage_heatmap(
                stage,
                version.overview.matrices,
                scene.query_tokens,
                scene.key_tokens,
                pin=cell,
                limit=limit,
                height=presenting.height(430, 0.64),
                width=presenting.width(WIDTH, 0.7) if changed is None else presenting.width(ONE_OF_TWO, 0.38),
            )
            _part_texts(chart, stage, scene)
            presenting.lit(chart.figure, *_lit(stage, cell))
            show_heatmap(
                chart,
                name,
                f"{stage.name}: heatmap of {stage.rows} by {stage.columns}. {stage.sentence}",
                title=stage.name if changed is None else f"{stage.name}, {name.lower()}",
                numbers=numbers.of_stages(version, [stage.key]),
            )
    if presenting.is_on():
        return
    if stage.columns == "key":
        _show_magnified(shown, stage, cell)
    if stage.key == "output":
        _show_sum(shown, shown.head.sum_of(ledger.query, TERMS))


def _part_texts(chart: Chart, stage: Stage, scene: Scene) -> None:
    """A border where the second of two texts begins."""
    texts = None if scene.real is None else pair_ranges(scene.real.capture)
    if texts is not None:
        border = [texts[1].start]
        with_borders(chart, rows=border, columns=border if stage.columns == "key" else [])


def _lit(stage: Stage, cell: tuple[int, int]) -> tuple[int, int | None]:
    """The row and the column of the stage's picture that belong to the chosen pair, as its frames do."""
    return cell[0] if stage.rows == "query" else cell[1], cell[1] if stage.columns == "key" else None


def _show_magnified(scene: Scene, stage: Stage, cell: tuple[int, int]) -> None:
    """The exact numbers of a stage around the chosen pair, and of the one that is read beside it."""

    def draw(window: Overview) -> None:
        (row, column), (rows, columns) = window.matrices[stage.key].start, window.matrices[stage.key].shape
        chart = stage_heatmap(
            stage,
            window.matrices,
            scene.query_tokens[row : row + rows],
            scene.key_tokens[column : column + columns],
            pin=(cell[0] - row, cell[1] - column),
            height=430,
        )
        show_heatmap(
            chart,
            "loupe",
            f"{stage.name} around the chosen pair, every number exact.",
            title=f"{stage.name} near the chosen pair",
        )

    beside = () if stage.beside is None else (stage.beside,)
    show_magnified(scene.head.stages(stage.key, *beside), cell, draw)


def _show_sum(scene: Scene, found: OutputSum) -> None:
    """The output of the chosen query as the sum that it is, key by key."""
    dimensions = min(DIMENSIONS, len(found.total))
    query = quoted(scene.query_tokens[found.query])
    st.markdown(f"**The output of {query} is a sum over all keys**, the largest weights first:")
    headings = ["key", "weight", *(f"dim {dimension}" for dimension in range(dimensions))]
    rows = [
        [quoted(scene.key_tokens[key]), number(weight), *map(number, term[:dimensions])]
        for key, weight, term in zip(found.keys, found.weights, found.terms, strict=True)
    ]
    if found.rest_count:
        others = f"{found.rest_count:,} further {'key' if found.rest_count == 1 else 'keys'}"
        rows.append([others, number(found.rest_weight), *map(number, found.rest_term[:dimensions])])
    total = float(found.weights.sum()) + found.rest_weight
    rows.append([f"**{cell}**" for cell in ("sum", number(total), *map(number, found.total[:dimensions]))])
    table(headings, rows)
    if len(found.total) > dimensions:
        st.caption(f"Weight × value in the first {dimensions} of {len(found.total)} dimensions.")


def _show_ledger(scene: Scene, cell: Ledger, before: Ledger | None) -> None:
    with presenting.told("number"):
        st.markdown(_sentence(scene, cell))
    if presenting.is_on():
        return
    table(["step", "value"] if before is None else ["step", "as it is", "changed"], _rows(scene, cell, before))
    show_chart(
        waterfall(cell),
        "waterfall",
        "Waterfall: the products of query and key one by one, their sum, and what becomes of it.",
        title="From products to the score",
    )
    show_chart(
        passed_on(cell),
        "passed on",
        "Bars: the value vector of the key, and its share that reaches the query's output.",
        title="What the key passes on",
    )


def _sentence(scene: Scene, cell: Ledger) -> str:
    query, key = quoted(scene.query_tokens[cell.query]), quoted(scene.key_tokens[cell.key])
    if not cell.allowed:
        return f"{query} may not look at {key}: the pair is masked, its weight is exactly 0."
    return f"{query} gives **{cell.weight:.1%}** of its attention to {key}."


def _rows(scene: Scene, cell: Ledger, before: Ledger | None) -> list[list[str]]:
    has_bias = "B" in added(scene.head)
    columns = [lines(one, has_bias=has_bias) for one in ((cell,) if before is None else (before, cell))]
    return [[plain(steps[0][0]), *(plain(words) for _, words in steps)] for steps in zip(*columns, strict=True)]
