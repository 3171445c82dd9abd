"""The lines of Python for each experiment of the lessons, with the values of its controls.

For an experiment in a real model, these lines follow those that make `model`, `passed` and, if it is about one head, `trace`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.attention.matrix_files import read_matrix
from ui import state
from ui.views.sources.heads import opening_head

FieldValue = Callable[[str], Any]  # key of a field -> its value
Lines = Callable[[FieldValue], list[str]]


def _row(value: FieldValue) -> str:
    return repr(read_matrix(value(state.SCORES), field="scores")[0].tolist())


# --- Softmax


def _softmax(value: FieldValue) -> list[str]:
    return [f"softmax_steps({_row(value)}, temperature={value(state.TEMPERATURE)!r}, shift={value(state.SHIFT)!r})"]


def _overflow(value: FieldValue) -> list[str]:
    if value(state.NOTHING):
        return [f"in_formats(np.full_like({_row(value)}, -np.inf))"]
    return [f"in_formats(np.array({_row(value)}) * {value(state.FACTOR)!r})"]


# --- Why 1/√d_k


def _spread(value: FieldValue) -> list[str]:
    return [f"sweep(keys=64, distribution={value(state.DISTRIBUTION)!r}, deviation={value(state.DEVIATION)!r})"]


def _saturation(value: FieldValue) -> list[str]:
    return [f"divided((14, 10), {value(state.DIVISOR)!r})", f"sweep(keys={value(state.KEY_COUNT)!r})"]


def _gradient(value: FieldValue) -> list[str]:
    match value(state.GRADIENT_OF):
        case "j":
            scores = f"example_row({value(state.HEAD_SIZE)!r}, scaled={bool(value(state.SCALED))!r})"
            return [f"softmax_jacobian(softmax({scores}))"]
        case "norm":
            return ["sweep(keys=64)"]
    return ["head_gradients()"]


def _depth(value: FieldValue) -> list[str]:
    around = {"before": "normalise before", "after": "normalise after"}.get(value(state.AROUND), "nothing")
    of = f"{value(state.DEPTH)!r}, width={value(state.STACK_WIDTH)!r}, around={around!r}"
    return [f"stack_gradients({of}, scaled=False)", f"stack_gradients({of}, scaled=True)"]


# --- Masks, In blocks


def _sentence(value: FieldValue, mask: str = "", d_head: int = 8) -> list[str]:
    made = f"made = toy_sentence({value(state.SENTENCE)!r}, d_head={d_head})"
    return [
        made,
        *([mask] if mask else []),
        f"trace = attend(made.query, made.key, made.value{', mask=mask' * bool(mask)})",
    ]


def _patterns(value: FieldValue) -> list[str]:
    words = "len(made.key_tokens)"
    rows = value(state.CELLS) or ""
    if rows.strip():
        mask = f"mask = from_rows({rows!r}, {words}, {words})"
    else:
        name = value(state.PATTERN)
        mask = f"mask = MASKS[{'none' if name == 'own' else name!r}].grid({value(state.SPAN) or 0!r}, {words}, {words})"
    return [*_sentence(value, mask), "stage_figure(trace, 'weights', tokens=(made.query_tokens, made.key_tokens))"]


def _zero(value: FieldValue) -> list[str]:
    mask = "mask = MASKS['causal'].grid(0, len(made.key_tokens), len(made.key_tokens))"
    score = "-np.inf" if value(state.FILL) == "-inf" else repr(float(value(state.FILL)))
    return [*_sentence(value, mask), f"fill(trace, {score})"]


def _empty(value: FieldValue) -> list[str]:
    mask = f"mask = np.tri(len(made.key_tokens), dtype=bool) & (np.arange(len(made.key_tokens)) >= {value(state.PADDED)!r})"
    return [*_sentence(value, mask), "trace.weights, without_care(trace.masked), lowest_number(trace)"]


def _blocks(value: FieldValue) -> list[str]:
    query, opening = value(state.ROW), "trace.shape[0] - 1"
    at = opening if query is None else repr(query)
    return [f"query = {at}", f"in_blocks(trace.rows(range(query, query + 1)), {value(state.BLOCK_SIZE)!r})"]


def _blocks_of_a_sentence(value: FieldValue) -> list[str]:
    query = 6 if value(state.ROW) is None else value(state.ROW)
    block = f"in_blocks(trace.rows(range(query, query + 1)), {value(state.BLOCK_SIZE)!r})"
    return [*_sentence(value, d_head=6), f"query = min({query!r}, trace.shape[0] - 1)", block]


# --- Many heads, Self and cross


def _many(result: str) -> Lines:
    def lines(value: FieldValue) -> list[str]:
        return [f"words, many = heads_of_a_sentence({value(state.TOY_TEXT)!r}, {value(state.HEAD_COUNT)!r})", result]

    return lines


def _layer(value: FieldValue) -> list[str]:
    layer = value(state.LAYER)
    return [f"head_contributions(passed, {opening_head(value(state.MODEL))[0] if layer is None else layer!r})"]


def _three(value: FieldValue) -> list[str]:
    return [f"crossing({value(state.BLOCK)!r}, {value(state.READ)!r}, {value(state.WRITTEN)!r}).trace"]


def _other_keys(value: FieldValue) -> list[str]:
    return [f"other_keys({value(state.READ)!r}, {value(state.READ_INSTEAD)!r}, {value(state.WRITTEN)!r})"]


def _date(_: FieldValue) -> list[str]:
    return ["trace.weights[:-1], looks(trace.weights, *passed.tokens('cross'))"]


def _pair(value: FieldValue) -> list[str]:
    first, second = value(state.FIRST_TEXT), value(state.SECOND_TEXT)
    layer, head = (1 if value(key) is None else value(key) for key in (state.LAYER, state.HEAD))
    return [
        "model = load_model('all-MiniLM-L6-v2')",
        f"passed = capture(model, {first!r}, pair={second!r})",
        f"trace = passed.trace(layer={layer!r}, head={head!r})",
        "trace.weights, pair_shares(trace.weights, pair_sides(passed))",
    ]


# --- Word order, Long range


def _shuffled(value: FieldValue) -> list[str]:
    told = {
        "nothing": "Nothing",
        "sinusoids": "Sinusoids",
        "rotary": "Rotary",
        "alibi": "ALiBi",
        "causal": "Causal mask",
    }
    text, order = value(state.ORDER_TEXT), told[value(state.ORDER_FROM)]
    return [f"read = shuffle({text!r}, {order!r}, seed={value(state.ORDER_SEED)!r})", "read.before, read.after"]


def _shift(value: FieldValue) -> list[str]:
    return [f"shift({value(state.PE_FROM)!r}, {value(state.ONWARD)!r}, {value(state.PE_WIDTH)!r})"]


def _rotary(value: FieldValue) -> list[str]:
    return [f"rotary_scores(width=64, count=64, shift={value(state.BOTH_LATER)!r}, base={value(state.ROTARY_BASE)!r})"]


def _biases(value: FieldValue) -> list[str]:
    kind = value(state.BIAS_KIND)
    if kind == "alibi":
        return [f"alibi_head(16, {value(state.ALIBI_HEADS)!r}, {value(state.ALIBI_HEAD)!r})"]
    return [f"t5_buckets(relative_positions(64), bidirectional={kind == 't5-encoder'!r})"]


def _costs(value: FieldValue) -> list[str]:
    lengths = "lengths = np.unique(np.geomspace(1, 8192, 40).round().astype(int))"
    return [lengths, f"costs(lengths, {value(state.VECTOR_SIZE)!r})"]


def _reach(value: FieldValue) -> list[str]:
    return [
        f"compare_reach({value(state.LENGTH)!r}, gain={value(state.GAIN)!r}, forget_bias={value(state.FORGET)!r})",
    ]


def _distances(value: FieldValue) -> list[str]:
    return [f"mean_distances(passed, without_first={bool(value(state.WITHOUT_FIRST))!r})"]


# page -> names from its module of core, and the lines of its experiments
LESSONS: dict[str, tuple[tuple[str, ...], dict[str, Lines]]] = {
    "softmax": (
        ("softmax_steps", "normalised", "in_formats", "precisions"),
        {
            "weights": _softmax,
            "others": lambda value: [f"normalised({_row(value)})"],
            "overflow": _overflow,
            "model": lambda _: ["precisions(trace)"],
        },
    ),
    "scaling": (
        (
            *("growing_product", "sweep", "divided", "example_row", "softmax_jacobian", "head_gradients"),
            *("stack_gradients", "model_scores"),
        ),
        {
            "products": lambda value: [f"growing_product({value(state.TERMS)!r})"],
            "spread": _spread,
            "saturation": _saturation,
            "gradient": _gradient,
            "depth": _depth,
            "model": lambda _: ["model_scores(passed)"],
        },
    ),
    "masking": (
        ("fill", "lowest_number", "weight_on_forbidden", "without_care"),
        {
            "patterns": _patterns,
            "zero": _zero,
            "empty": _empty,
            "model": lambda _: ["trace.mask, weight_on_forbidden(trace)"],
        },
    ),
    "many_heads": (
        ("heads_of_a_sentence", "fetch"),
        {
            "split": _many("many.joined, many.output"),
            "sum": _many("many.contributions"),
            "several": lambda value: [f"fetch({value(state.HEAD_SHARE)!r})"],
            "model": _layer,
        },
    ),
    "self_and_cross": (
        ("crossing", "other_keys", "looks"),
        {"three": _three, "keys": _other_keys, "date": _date, "model": _pair},
    ),
    "word_order": (
        (*("shuffle", "sinusoid_scores", "shift", "rotary_scores", "alibi_head", "t5_buckets", "relative_positions"),),
        {
            "shuffle": _shuffled,
            "sinusoids": lambda value: [f"sinusoid_scores(64, {value(state.PE_WIDTH)!r})"],
            "shift": _shift,
            "rotary": _rotary,
            "biases": _biases,
            "model": lambda _: ["trace"],
        },
    ),
    "long_range": (
        ("costs", "compare_reach", "mean_distances"),
        {
            "steps": _costs,
            "gradients": _reach,
            "model": _distances,
        },
    ),
    "blocks": (("in_blocks",), {"sentence": _blocks_of_a_sentence, "model": _blocks}),
}
