"""The stages of one head: the equation as a line of small pictures, one stage large below it, the chosen pair explained."""

from __future__ import annotations

import streamlit as st

from core import Ledger
from core.attention.formulas import added, formula
from core.attention.ledger import OutputSum, lines
from core.attention.rowwise import Overview
from core.attention.stages import BY_KEY, Stage, number
from core.figures.heatmaps.frames import with_borders
from core.figures.heatmaps.heatmap import WIDTH
from core.figures.heatmaps.stages import colour_limit, stage_heatmap
from core.figures.plots.waterfall import passed_on, waterfall
from core.heads.views import pair_ranges
from core.notebook.figures import stage_figure
from ui import presenting, shown
from ui.calls import call, is_known, result, result_of
from ui.components import pin
from ui.controls.pinned import pinned_among
from ui.markdown import plain, quoted
from ui.views.certificates import show_certificate
from ui.views.charts import show_chart, show_heatmap, show_magnified
from ui.views.patches import choose_clicked_patch, show_patches
from ui.views.step_by_step.equation import clicked, opened_stage, show_equation, show_ways_on
from ui.views.step_by_step.scenes import Scene
from ui.views.tables import table

HEIGHT = 270  # pixels of the large picture, below which the first screen of a small window ends
ONE_OF_TWO = 240  # pixels in a window 1024 wide, of a picture with another beside it
# Of the width, for the picture and the explanation: whether somebody presents, and whether there are two pictures.
SHARES = {(False, False): (7, 5), (False, True): (3, 2), (True, False): (3, 1), (True, True): (5, 1)}
TERMS, DIMENSIONS = 8, 4  # of the output's sum: keys, and numbers of each, that are shown one by one


def show_stages(scene: Scene, changed: Scene | None) -> Ledger:
    """Show the head of a scene, and beside it the same head with another scale or mask. Return the chosen pair, explained."""
    current = changed or scene
    if scene.real is None:
        shown.now().head = scene.to_keep
    stage = BY_KEY[opened_stage()]
    answer = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")
    line = st.container(gap=None)  # the listener takes no room
    with line:
        # Before the pictures: whoever sees one may click at once.
        pin.listen(lambda cell: _chose_patch(scene, cell) or clicked(cell))
    with answer:
        presenting.title(plain(scene.origin.removesuffix(".")))
    shares = SHARES[presenting.is_on(), changed is not None]
    picture, explanation = st.columns(shares, gap="medium")
    with picture if presenting.is_on() else explanation, presenting.told():
        st.markdown(f"**{stage.name}** {stage.sentence}")
    with explanation:
        weights, tokens = current.head.stages("weights"), (scene.query_tokens, scene.key_tokens)
        cell = pinned_among(tokens, current.head.strongest(current.overview), weights.exact)
    ledger = result(call(current.head.explain, *cell))
    result_of(stage_figure, current.head, stage.key, tokens=_tokens(scene), cell=cell)
    # What a visitor looks at comes first: whoever changes the head has an eye on the large picture.
    with picture:
        _show_stage(scene, changed, stage, ledger)
        if not presenting.is_on() and stage.columns == "key":
            _show_magnified(current, stage, cell)
        if scene.real is not None and stage.key == "weights" and scene.real.capture.image_grids(scene.real.kind):
            row = weights.exact(range(ledger.query, ledger.query + 1), range(current.head.shape[1]))[0]
            show_patches(scene.real, row, ledger.query)
        if not presenting.is_on() and stage.key == "output":
            _show_sum(current, current.head.sum_of(ledger.query, TERMS))
        if scene.certificate is not None:
            show_certificate(scene.certificate, of_original=changed is not None)
        else:
            st.caption(plain(scene.origin))
    with line:
        show_equation(current, cell, stage.key)
    with answer if not presenting.is_on() else explanation:
        _say_pair(current, ledger)
    with answer:
        show_ways_on(current, cell, stage.key)
    with explanation:
        if not presenting.is_on():
            st.markdown(f"${formula(stage.key, current.head, current.overview, ledger)}$")
            _show_ledger(current, ledger, scene.head.explain(*cell) if changed else None)
    if not presenting.is_on():
        _show_bars(ledger)
    return ledger


def _chose_patch(scene: Scene, cell: pin.Cell) -> bool:
    return scene.real is not None and choose_clicked_patch(cell, scene.real)


def _tokens(scene: Scene) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The tokens of queries and keys as "As Python" writes them; None for matrices that have none."""
    if scene.real is not None:
        return call(scene.real.capture.tokens, scene.real.kind)
    return (scene.query_tokens, scene.key_tokens) if is_known(scene.query_tokens) else None


def _show_stage(scene: Scene, changed: Scene | None, stage: Stage, ledger: Ledger) -> None:
    cell = ledger.query, ledger.key
    versions = {"As it is": scene} | ({} if changed is None else {"Changed": changed})
    limit = colour_limit(stage, *(version.overview.matrices[stage.key] for version in versions.values()))
    texts = None if scene.real is None else pair_ranges(scene.real.capture)
    row = cell[0] if stage.rows == "query" else cell[1]
    for column, (name, version) in zip(st.columns(len(versions)), versions.items(), strict=True):
        with column:
            if changed is not None:
                presenting.tell(f"**{name}**: scale {number(version.head.scale)}")
            chart = stage_heatmap(
                stage,
                version.overview.matrices,
                scene.query_tokens,
                scene.key_tokens,
                pin=cell,
                limit=limit,
                height=presenting.height(HEIGHT, 0.64),
                width=presenting.width(WIDTH, 0.7) if changed is None else presenting.width(ONE_OF_TWO, 0.38),
            )
            if texts is not None:
                border = [texts[1].start]  # where the second text begins
                with_borders(chart, rows=border, columns=border if stage.columns == "key" else [])
            presenting.lit(chart, row, cell[1] if stage.columns == "key" else None)
            alt = f"{stage.name}: heatmap of {stage.rows} by {stage.columns}. {stage.sentence}"
            title = stage.name if changed is None else f"{stage.name}, {name.lower()}"
            show_heatmap(chart, name, alt, title=title, numbers=version.numbers([stage.key]))


def _show_magnified(scene: Scene, stage: Stage, cell: tuple[int, int]) -> None:
    """Show the exact numbers of a stage around the chosen pair, and of the stage that is read beside it."""

    def draw(window: Overview) -> None:
        (row, column), (rows, columns) = window.matrices[stage.key].start, window.matrices[stage.key].shape
        queries, keys = scene.query_tokens[row : row + rows], scene.key_tokens[column : column + columns]
        pinned = (cell[0] - row, cell[1] - column)
        chart = stage_heatmap(stage, window.matrices, queries, keys, pin=pinned, height=430)
        alt = f"{stage.name} around the chosen pair, every number exact."
        show_heatmap(chart, "loupe", alt, title=f"{stage.name} near the chosen pair")

    beside = () if stage.beside is None else (stage.beside,)
    show_magnified(scene.head.stages(stage.key, *beside), cell, draw)


def _show_sum(scene: Scene, output: OutputSum) -> None:
    dimensions = min(DIMENSIONS, len(output.total))
    query = quoted(scene.query_tokens[output.query])
    st.markdown(f"**The output of {query} is a sum over all keys**, the largest weights first:")
    rows = [
        [quoted(scene.key_tokens[key]), number(weight), *map(number, term[:dimensions])]
        for key, weight, term in zip(output.keys, output.weights, output.terms, strict=True)
    ]
    if output.rest_count:
        others = f"{output.rest_count:,} further {'key' if output.rest_count == 1 else 'keys'}"
        rows.append([others, number(output.rest_weight), *map(number, output.rest_term[:dimensions])])
    total = float(output.weights.sum()) + output.rest_weight
    rows.append([f"**{cell}**" for cell in ("sum", number(total), *map(number, output.total[:dimensions]))])
    table(["key", "weight", *(f"dim {dimension}" for dimension in range(dimensions))], rows)
    if len(output.total) > dimensions:
        st.caption(f"Weight × value in the first {dimensions} of {len(output.total)} dimensions.")


def _say_pair(scene: Scene, cell: Ledger) -> None:
    query, key = quoted(scene.query_tokens[cell.query]), quoted(scene.key_tokens[cell.key])
    masked = f"{query} may not look at {key}: the pair is masked, its weight is exactly 0."
    presenting.finding(f"{query} gives **{cell.weight:.1%}** of its attention to {key}." if cell.allowed else masked)


def _show_ledger(scene: Scene, cell: Ledger, before: Ledger | None) -> None:
    has_bias = "B" in added(scene.head)
    columns = [lines(ledger, has_bias=has_bias) for ledger in ((cell,) if before is None else (before, cell))]
    rows = [[plain(steps[0][0]), *(plain(words) for _, words in steps)] for steps in zip(*columns, strict=True)]
    table(["step", "value"] if before is None else ["step", "as it is", "changed"], rows)


def _show_bars(cell: Ledger) -> None:
    to_weight, to_output = st.columns(2, gap="medium")
    with to_weight:
        alt = "Waterfall: the products of query and key one by one, their sum, and what becomes of it."
        show_chart(waterfall(cell), "waterfall", alt, title="From products to the score")
    with to_output:
        alt = "Bars: the value vector of the key, and its share that reaches the query's output."
        show_chart(passed_on(cell), "passed on", alt, title="What the key passes on")
