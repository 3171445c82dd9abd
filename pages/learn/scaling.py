"""Why 1/√d_k: how the spread of dot products grows, and what that does to weights and gradients."""

from collections.abc import Callable, Iterator

from core import AttentionTrace, softmax
from core.attention.sources import DISTRIBUTIONS
from core.averages import log_mean_and_error, mean_and_error
from core.figures.heatmaps.heatmap import Axis, heatmap
from core.figures.plots.bars import bars
from core.figures.plots.dots import dots
from core.figures.plots.lines import Series, label_log_axes, lines
from core.lessons import scaling
from core.lessons.scaling import GROWING, MAX_LAYERS, POWERS_OF_TWO, WIDTHS, Around, Sweep
from ui import presenting, state
from ui.calls import call, result
from ui.controls.fields import choose, menu, numbered, slider, switch
from ui.progress import run
from ui.shown import columns, say
from ui.views.charts import show_chart, table
from ui.views.frames import player
from ui.views.lesson import results
from ui.views.lesson.frame import Experiment, Lesson, picture_and_knobs, show_beside, two_curves
from ui.views.sources.heads import RealHead

lesson = Lesson(
    "Why 1/√d_k", "Dot products spread by √d_k. Dividing by √d_k keeps softmax from giving all its weight to one key."
)

KEY_COUNTS, HEAD_SIZES, STACK_WIDTHS = numbered((8, 64, 256)), numbered(POWERS_OF_TWO), numbered(WIDTHS)
UNSCALED, SCALED = "unscaled", "scaled by 1/√d_k"


def curves(sweep: Sweep, name: str, suffix: str = "", scaled: str = SCALED) -> list[Series]:
    """Return the curves of one measurement of random heads against d_k, unscaled and scaled. suffix: of both in the legend"""
    both = {f"{UNSCALED}{suffix}": getattr(sweep.unscaled, name), f"{scaled}{suffix}": getattr(sweep.scaled, name)}
    return [Series(label, sweep.d_k, *mean_and_error(of), kind="measured") for label, of in both.items()]


def show_against_d_k(series: list[Series], name: str, y: str, alt: str, *, log_y: bool = False) -> None:
    chart = lines(series, x="d_k", y=y, log_x=True, log_y=log_y, height=420)
    label_log_axes(chart.layout, x=POWERS_OF_TWO[::3])
    if not log_y:
        chart.layout["yaxis"]["rangemode"] = "tozero"
    if any(curve.kind == "theory" for curve in series):  # a line through the points would hide it
        for trace in chart.traces:
            trace["mode"] = trace["mode"].replace("markers+lines", "markers")
    show_chart(chart, name, alt)


@lesson.experiment(
    "growing",
    "Growing d_k",
    "More dimensions spread scores, and softmax gives more to the largest. Divided by √d_k, they stay.",
)
def growing() -> Iterator[None]:
    d_k = menu("d_k", state.GROWN, numbered(GROWING), opening=256, look="line")
    player(state.GROWN, seconds=0.4)
    head = result(call(scaling.random_head, d_k))
    (large, scaled_large), found = head.largest, head.distribution()
    yield
    takes = f"takes **{large:.0%}** of a row; scaled, **{scaled_large:.0%}**"
    presenting.finding(f"At d_k = {d_k} one key {takes}.", level=4)
    unscaled, scaled = head.spreads
    shares = {f"unscaled: {unscaled:.1f}": found.unscaled, f"scaled: {scaled:.1f}": found.scaled}
    spread = lines(two_curves(found.scores, shares), x="score", y="share of all scores", height=360)
    spread.layout["yaxis"]["range"] = [0, 0.55]
    weights = {UNSCALED: head.unscaled.weights[0], "scaled": head.scaled.weights[0]}
    keys = [str(key) for key in range(len(head.unscaled.weights[0]))]
    row = bars(keys, weights, x="key", y="weight", limits=(0, 1.12), printed=False, height=360)
    show_beside(
        ("The spread of q · k", spread, "spread", "How often each score occurs, unscaled and scaled."),
        ("The weights of one row", row, "row", "The weights of one query, unscaled and scaled."),
    )
    say("The share is the mean over 512 random queries, each with 8 random keys.", small=True)


@lesson.experiment("products", "Dot products", "Each dimension adds a term.")
def dot_products() -> Iterator[None]:
    n = slider("Dimensions n", state.TERMS, 6, 1, 8, 1)
    terms, totals = result(call(scaling.growing_product, n))
    yield
    presenting.finding(f"With {n} dimensions, q · k is **{totals[-1]:.0f}**.", level=4)
    names = [f"{query} × {query + 2}" for query in range(1, n + 1)]
    groups = {"term": terms, "sum so far": totals}
    chart = bars(names, groups, x="entry of q × entry of k", y="q · k", printed=False, height=400)
    for trace in chart.traces:
        trace |= {"texttemplate": "%{y:d}", "textposition": "outside", "cliponaxis": False}
    show_chart(chart, "terms", "Each term of the dot product and the sum so far.")


@lesson.experiment(
    "spread",
    "Spread",
    "Entries have mean 0 and variance 1 and are independent, so q · k has variance d_k. Divided by √d_k, it has variance "
    "1.",
)
def spread() -> Iterator[None]:
    distribution = menu("Entries of q and k", state.DISTRIBUTION, {name: name for name in DISTRIBUTIONS})
    deviation = slider("Their standard deviation", state.DEVIATION, 1.0, 0.5, 2.0, 0.5)
    yield
    sweep = result(results.scaling_sweep(64, distribution, deviation))
    last, (unscaled, scaled) = sweep.d_k[-1], sweep.at_last("spread")
    presenting.finding(f"At d_k = {last:,} scores spread by **{unscaled:.1f}**; scaled, by **{scaled:.2f}**.", level=4)
    series = [*curves(sweep, "spread"), Series("theory: √d_k", sweep.d_k, sweep.theory, kind="theory")]
    alt = "The standard deviation of scores against d_k, measured and in theory."
    show_against_d_k(series, "spread", "standard deviation of q · k", alt, log_y=True)


@lesson.experiment(
    "saturation", "Saturation", "Unscaled, one key gets nearly all the weight; the entropy approaches 0."
)
def saturation() -> Iterator[None]:
    keys = menu("Keys", state.KEY_COUNT, KEY_COUNTS, opening=64, look="buttons")
    divisor = slider("Divide the scores 14 and 10 by", state.DIVISOR, 2.0, 1.0, 8.0, 0.5)
    example = result(call(scaling.divided, (14, 10), divisor))
    groups = {"undivided": example.weights, "divided": example.divided_weights}
    names = [f"{before:g} → {after:.3g}" for before, after in zip(example.scores, example.divided_scores, strict=True)]
    chart = bars(names, groups, y="weight", limits=(0, 1.15), height=230)
    show_chart(chart, "two_scores", "The weights of two scores.")
    yield
    sweep = result(results.scaling_sweep(keys, "normal", 1.0))
    last, (unscaled, scaled) = sweep.d_k[-1], sweep.at_last("largest")
    takes = f"takes **{unscaled:.0%}** of a row; scaled, **{scaled:.0%}**"
    presenting.finding(f"At d_k = {last:,} one of {keys} keys {takes}.", level=4)
    labels = {"entropy": "entropy of a row (nats)", "largest": "largest weight of a row"}
    for place, (name, label) in zip(columns(2), labels.items(), strict=True):
        with place:
            alt = f"The {label} against d_k, averaged over rows, unscaled and scaled."
            show_against_d_k(curves(sweep, name), name, label, alt)


MEASURES = {  # word in the address -> name in the menu, statistic, and what it is
    "spread": ("Spread", ("spread", "standard deviation of scores")),
    "entropy": ("Entropy", ("entropy", "mean entropy of a row (nats)")),
    "near-one": ("Weights above 0.99", ("near_one", "share of rows with a weight above 0.99")),
}
OVERALL = {
    "spread, median head": ("spread", ".2f"),
    "mean entropy": ("entropy", ".3f"),
    "rows with a weight above 0.99": ("near_one", ".1%"),
}


@lesson.in_a_model("Each dot is a head; dashed: random vectors. Trained heads spread more or less.")
def in_a_model(experiment: Experiment, real: RealHead, _trace: AttentionTrace) -> None:
    scores = run(results.scores_of_all_heads.task(real.of_kind), "Measuring every head of the model", real.grid[0])
    if scores is None:
        return
    result(scores)
    picture, knobs = picture_and_knobs(experiment)
    with knobs:
        formerly = {"Rows above .99": "near-one"}
        name, label = choose("Measure", state.MEASURE, MEASURES, look="buttons", formerly=formerly)
    groups = {UNSCALED: getattr(scores.without_scale, name), "scaled": getattr(scores.with_scale, name)}
    levels = {UNSCALED: scores.theory, "scaled": 1.0} if name == "spread" else None
    chart = dots(groups, y=label, levels=levels, marked=real.place, log_y=name == "spread", height=400)
    label_log_axes(chart.layout)
    with picture:
        show_chart(chart, "all_heads", f"The {label} of every head, unscaled and scaled.")
    both = [scaling.over_heads(statistics) for statistics in (scores.without_scale, scores.with_scale)]
    rows = [[row, *(f"{getattr(of, name):{form}}" for of in both)] for row, (name, form) in OVERALL.items()]
    with knobs:
        table(["all heads", UNSCALED, "scaled"], rows)


@lesson.experiment(
    "gradient",
    "Further: gradient",
    "J is the derivative of weights with respect to scores. Unscaled, its norm rises, then falls. The median gradient fades, "
    "the mean stays large.",
    formerly="Gradient",
)
def gradient() -> Iterator[None]:
    yield from choose("Gradient", state.GRADIENT_OF, GRADIENTS, look="buttons")()


def jacobian() -> Iterator[None]:
    d_k = menu("d_k", state.HEAD_SIZE, HEAD_SIZES, opening=64, look="line")
    scaled = switch("Scaled by 1/√d_k", state.SCALED)
    scores = call(scaling.example_row, d_k, scaled=scaled)
    weights = call(softmax, scores)
    yield
    matrix = result(call(scaling.softmax_jacobian, weights))
    axes = Axis("weight of key"), Axis("score of key")
    chart = heatmap(matrix, *axes, name="∂ weight / ∂ score", limit=0.25, height=400)
    show_chart(chart, "jacobian", "The derivative of each weight with respect to each score: diag(p) − p pᵀ.")
    automatic = f"By automatic differentiation: {scaling.autograd_norm(scores):.4f}."
    say(f"Norm of J: **{scaling.jacobian_norm(weights):.4f}**. {automatic} Largest weight: {weights.max():.3f}.")


def norm_of_jacobian() -> Iterator[None]:
    sweep = result(results.scaling_sweep(64, "normal", 1.0))
    yield
    alt = "The norm of the softmax's derivative against d_k, unscaled and scaled."
    show_against_d_k(curves(sweep, "jacobian"), "jacobian_norm", "Frobenius norm of J, 64 keys", alt)


def reaching(name: str, lines_of: dict[str, str]) -> Callable[[], Iterator[None]]:
    """Return a function that draws the gradient of q, k or W_Q. lines_of: field of the measurements -> suffix in the legend."""

    def draw() -> Iterator[None]:
        sweep = result(results.gradient_sweep())
        series = [curve for field, suffix in lines_of.items() for curve in curves(sweep, field, suffix, "scaled")]
        yield
        alt = f"The length of the gradient of {name} against d_k, unscaled and scaled."
        show_against_d_k(series, "reaching", f"length of the gradient of {name}", alt, log_y=True)

    return draw


GRADIENTS = {
    "j": ("J", jacobian),
    "norm": ("Norm of J", norm_of_jacobian),
    "q": ("q", reaching("q", {"query": ", mean row", "median_query": ", median row"})),
    "k": ("k", reaching("k", {"key": ", mean row", "median_key": ", median row"})),
    "w-q": ("W_Q", reaching("W_Q", {"W_Q": ""})),
}


AROUND: dict[str, Around] = {"nothing": "nothing", "before": "normalise before", "after": "normalise after"}
SETUPS = {
    "nothing": "Each layer: A(x)",
    "before": "Each layer: x + A(norm(x))",
    "after": "Each layer: norm(x + A(x))",
}


@lesson.experiment(
    "depth",
    "Further: depth",
    "Untrained layers. With normalisation, unscaled gradients are larger and grow faster towards layer 0. Without it, "
    "W_Q of later layers gets none, scaled or not.",
    formerly="Depth",
)
def depth() -> Iterator[None]:
    layers = slider("Layers", state.DEPTH, MAX_LAYERS, 1, MAX_LAYERS, 1)
    around = menu("Around each attention", state.AROUND, AROUND, opening="before")
    say(SETUPS[around], small=True)
    width = menu("d_k = width", state.STACK_WIDTH, STACK_WIDTHS, opening=64, look="buttons")
    unscaled, scaled = map(result, results.gradients_in_stack(layers, width, AROUND[around]))
    yield
    labels = {"W_Q": "gradient of W_Q", "inputs": "gradient of its input"}
    for place, (name, label) in zip(columns(2), labels.items(), strict=True):
        with place:
            series = [
                Series(text, range(layers), *log_mean_and_error(getattr(lengths, name)), kind="measured")
                for text, lengths in ((UNSCALED, unscaled), ("scaled", scaled))
            ]
            chart = lines(series, x="layer", y=f"length of the {label}", powers_of_ten=True, height=400)
            chart.layout["xaxis"]["tickvals"] = list(range(0, layers, 1 if layers <= 8 else 4))
            for trace in chart.traces:
                trace["hovertemplate"] = "10<sup>%{y:.2f}</sup>"
            show_chart(chart, name, f"The length of the {label} in every layer, unscaled and scaled.")
    measured = "Measured on 8 random stacks with 32 tokens. The gradient at the output has length 1."
    say(f"{measured} Values below 10⁻¹⁶ are rounding errors.", small=True)


lesson.show()
