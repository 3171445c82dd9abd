"""What the experiments of the lessons compute, as Python: for each part its lines, with the values of its knobs.

The lines of a part that measures in a real model follow those that make `model`, `passed` and, where it is about one head,
`trace`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.attention.matrix_files import read_matrix
from ui import state
from ui.views.sources.heads import opening_head

Said = Callable[[str], Any]  # what the field of a key holds
Lines = Callable[[Said], list[str]]


def _row(said: Said) -> str:
    return repr(read_matrix(said(state.SCORES), field="scores")[0].tolist())


# --- Softmax


def _softmax(said: Said) -> list[str]:
    return [f"softmax_steps({_row(said)}, temperature={said(state.TEMPERATURE)!r}, shift={said(state.SHIFT)!r})"]


def _overflow(said: Said) -> list[str]:
    if said(state.NOTHING):
        return [f"in_formats(np.full_like({_row(said)}, -np.inf))"]
    return [f"in_formats(np.array({_row(said)}) * {said(state.FACTOR)!r})"]


# --- Why 1/√d_k


def _spread(said: Said) -> list[str]:
    return [f"sweep(keys=64, distribution={said(state.DISTRIBUTION)!r}, deviation={said(state.DEVIATION)!r})"]


def _saturation(said: Said) -> list[str]:
    return [f"divided((14, 10), {said(state.DIVISOR)!r})", f"sweep(keys={said(state.KEY_COUNT)!r})"]


def _gradient(said: Said) -> list[str]:
    match said(state.GRADIENT_OF):
        case "j":
            scores = f"example_row({said(state.HEAD_SIZE)!r}, scaled={bool(said(state.SCALED))!r})"
            return [f"softmax_jacobian(softmax({scores}))"]
        case "norm":
            return ["sweep(keys=64)"]
    return ["head_gradients()"]


def _depth(said: Said) -> list[str]:
    around = {"before": "normalise before", "after": "normalise after"}.get(said(state.AROUND), "nothing")
    of = f"{said(state.DEPTH)!r}, width={said(state.STACK_WIDTH)!r}, around={around!r}"
    return [f"stack_gradients({of}, scaled=False)", f"stack_gradients({of}, scaled=True)"]


# --- Masks, In blocks


def _sentence(said: Said, mask: str = "", d_head: int = 8) -> list[str]:
    made = f"made = toy_sentence({said(state.SENTENCE)!r}, d_head={d_head})"
    return [
        made,
        *([mask] if mask else []),
        f"trace = attend(made.query, made.key, made.value{', mask=mask' * bool(mask)})",
    ]


def _patterns(said: Said) -> list[str]:
    words = "len(made.key_tokens)"
    rows = said(state.CELLS) or ""
    if rows.strip():
        mask = f"mask = from_rows({rows!r}, {words}, {words})"
    else:
        name = said(state.PATTERN)
        mask = f"mask = MASKS[{'none' if name == 'own' else name!r}].grid({said(state.SPAN) or 0!r}, {words}, {words})"
    return [*_sentence(said, mask), "stage_figure(trace, 'weights', tokens=(made.query_tokens, made.key_tokens))"]


def _zero(said: Said) -> list[str]:
    mask = "mask = MASKS['causal'].grid(0, len(made.key_tokens), len(made.key_tokens))"
    score = "-np.inf" if said(state.FILL) == "-inf" else repr(float(said(state.FILL)))
    return [*_sentence(said, mask), f"fill(trace, {score})"]


def _empty(said: Said) -> list[str]:
    mask = (
        f"mask = np.tri(len(made.key_tokens), dtype=bool) & (np.arange(len(made.key_tokens)) >= {said(state.PADDED)!r})"
    )
    return [*_sentence(said, mask), "trace.weights, without_care(trace.masked), lowest_number(trace)"]


def _blocks(said: Said) -> list[str]:
    query, opening = said(state.ROW), "trace.shape[0] - 1"
    at = opening if query is None else repr(query)
    return [f"query = {at}", f"in_blocks(trace.rows(range(query, query + 1)), {said(state.BLOCK_SIZE)!r})"]


def _blocks_of_a_sentence(said: Said) -> list[str]:
    query = 6 if said(state.ROW) is None else said(state.ROW)
    block = f"in_blocks(trace.rows(range(query, query + 1)), {said(state.BLOCK_SIZE)!r})"
    return [*_sentence(said, d_head=6), f"query = min({query!r}, trace.shape[0] - 1)", block]


# --- Many heads, Self and cross


def _many(result: str) -> Lines:
    def lines(said: Said) -> list[str]:
        return [f"words, many = heads_of_a_sentence({said(state.TOY_TEXT)!r}, {said(state.HEAD_COUNT)!r})", result]

    return lines


def _layer(said: Said) -> list[str]:
    layer = said(state.LAYER)
    return [f"head_contributions(passed, {opening_head(said(state.MODEL))[0] if layer is None else layer!r})"]


def _three(said: Said) -> list[str]:
    return [f"crossing({said(state.BLOCK)!r}, {said(state.READ)!r}, {said(state.WRITTEN)!r}).trace"]


def _other_keys(said: Said) -> list[str]:
    return [f"other_keys({said(state.READ)!r}, {said(state.READ_INSTEAD)!r}, {said(state.WRITTEN)!r})"]


def _date(_: Said) -> list[str]:
    return ["trace.weights[:-1], looks(trace.weights, *passed.tokens('cross'))"]


def _pair(said: Said) -> list[str]:
    first, second = said(state.FIRST_TEXT), said(state.SECOND_TEXT)
    layer, head = (1 if said(key) is None else said(key) for key in (state.LAYER, state.HEAD))
    return [
        "model = load_model('all-MiniLM-L6-v2')",
        f"passed = capture(model, {first!r}, pair={second!r})",
        f"trace = passed.trace(layer={layer!r}, head={head!r})",
        "trace.weights, pair_shares(trace.weights, pair_sides(passed))",
    ]


# --- Word order, Long range


def _shuffled(said: Said) -> list[str]:
    told = {
        "nothing": "Nothing",
        "sinusoids": "Sinusoids",
        "rotary": "Rotary",
        "alibi": "ALiBi",
        "causal": "Causal mask",
    }
    text, order = said(state.ORDER_TEXT), told[said(state.ORDER_FROM)]
    return [f"read = shuffle({text!r}, {order!r}, seed={said(state.ORDER_SEED)!r})", "read.before, read.after"]


def _shift(said: Said) -> list[str]:
    return [f"shift({said(state.PE_FROM)!r}, {said(state.ONWARD)!r}, {said(state.PE_WIDTH)!r})"]


def _rotary(said: Said) -> list[str]:
    return [f"rotary_scores(width=64, count=64, shift={said(state.BOTH_LATER)!r}, base={said(state.ROTARY_BASE)!r})"]


def _biases(said: Said) -> list[str]:
    kind = said(state.BIAS_KIND)
    if kind == "alibi":
        return [f"alibi_head(16, {said(state.ALIBI_HEADS)!r}, {said(state.ALIBI_HEAD)!r})"]
    return [f"t5_buckets(relative_positions(64), bidirectional={kind == 't5-encoder'!r})"]


def _costs(said: Said) -> list[str]:
    lengths = "lengths = np.unique(np.geomspace(1, 8192, 40).round().astype(int))"
    return [lengths, f"costs(lengths, {said(state.VECTOR_SIZE)!r})"]


def _reach(said: Said) -> list[str]:
    return [
        f"compare_reach({said(state.LENGTH)!r}, gain={said(state.GAIN)!r}, forget_bias={said(state.FORGET)!r})",
    ]


def _distances(said: Said) -> list[str]:
    return [f"mean_distances(passed, without_first={bool(said(state.WITHOUT_FIRST))!r})"]


# page -> names that live in its module of core, and the lines of its parts
LESSONS: dict[str, tuple[tuple[str, ...], dict[str, Lines]]] = {
    "softmax": (
        ("softmax_steps", "normalised", "in_formats", "precisions"),
        {
            "weights": _softmax,
            "others": lambda said: [f"normalised({_row(said)})"],
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
            "products": lambda said: [f"growing_product({said(state.TERMS)!r})"],
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
            "several": lambda said: [f"fetch({said(state.HEAD_SHARE)!r})"],
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
            "sinusoids": lambda said: [f"sinusoid_scores(64, {said(state.PE_WIDTH)!r})"],
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
