"""Checks against the weights: matrix products, queries, keys and values, and positions, again in float64 on the CPU."""

import copy
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.pytorch_utils import Conv1D

from ...models.calls import Call
from ...models.checkups import Finding
from ...models.modules import Kind
from ...models.projections import head_weights
from ..rounding import OF_PRODUCTS, OF_SLOPES, rounding_error
from .heads import config_of, factor_of_queries, number_of, window_of
from .reading import LINEAR, Reading, Visit, has_weights, layer_of

COLUMNS = 64  # of each matrix; all would take as long as the pass itself, in float64
# The types of architectures that rotate in layers with a sliding window alone, as the other layers need no positions.
ROTATED_IN_WINDOWS = ("afmoe", "cohere2", "exaone", "flint", "kolibri1")
OF_ANGLES = 16  # times what is allowed for products: angles have rounding errors of their own
POSITIONS = (0, 1, 2, -1)  # where positions may begin
MOST_WEIGHTS = 2**24  # of a module that is run again: 128 MB in float64
OF_MODULES = 16  # times what is allowed for products: the sums of a module are not known apart


def matrix_products(reading: Reading) -> Finding:
    """What the linear maps of the chosen layers, and those outside of all layers, return."""
    failures, maps, worst = [], 0, 0.0
    for name, visit in reading.visits.items():
        read = _tensor(visit)
        if isinstance(visit.module, LINEAR) and read is not None and isinstance(visit.returned, Tensor):
            difference = _product(visit.module, read, visit.returned)
            maps, worst = maps + 1, max(worst, difference.units)
            if (why := difference.failure()) is not None:
                failures.append(f"{name} does not return the product of its input and its weights: {why}.")
    if not maps:
        return Finding(None, "The model has no linear maps that can be watched.")
    words = "linear maps return the product of their input and their weights, within"
    return Finding.of(failures, f"{maps} {words} {worst:.2g} units of rounding.")


def other_modules(reading: Reading) -> Finding:
    """What norms, convolutions and experts return, by their own code in float64 on the CPU. It names the modules with weights
    that are not looked at: those that take more than MOST_WEIGHTS, or do not run in float64."""
    failures, again, left_out = [], 0, set()
    layers = {layer_of(name) for name in reading.visits} | {""}
    for name, module in reading.model.network.named_modules():
        is_other = has_weights(module) and not isinstance(module, (*LINEAR, nn.Embedding))
        if not is_other or layer_of(name) not in layers:
            continue
        visit = reading.visits.get(name)
        if visit is None or (expected := _again(visit)) is None:
            left_out.add(type(module).__name__)
            continue
        unit = expected.abs() + expected.abs().mean()
        times = OF_MODULES if rounding_error(visit.returned.dtype) < 1e-5 else 1
        again += 1
        if (why := _Difference.of(expected, unit, visit.returned).failure(times)) is not None:
            failures.append(f"{name} does not return what its own code gives in float64: {why}.")
    not_seen = f"Not looked at: {', '.join(sorted(left_out))}." if left_out else ""
    if not again:
        return Finding(None, not_seen or "The model has no other modules with weights.")
    return Finding.of(failures, f"{again} norms and other modules return what they do in float64. {not_seen}".strip())


def projections(reading: Reading) -> Finding:
    """The values of the chosen layers follow from the weights of each head, and W_O reads what the heads gave. So do queries
    and keys where no rotation and no norm comes between."""
    failures, heads, between, left_out = [], 0, "", ""
    for name, kind, layer, call in reading.calls():
        if not _is_read_by_output(reading, call):
            between = " Something comes between the heads and W_O in some layers."
        if hasattr(call.module, "v_norm"):
            between += " A norm comes after the values in some layers."
            continue
        for head in _some(call.heads):
            if (of_head := _of_head(reading, kind, layer, head, call)) is None:
                left_out = " The input of some layers could not be identified."
                continue
            heads += 1
            is_between = _has_norms(call) or _rope(reading, call) is not None or _was_given_angles(reading, call)
            for what in ("values",) if is_between else of_head:
                expected, unit, found = of_head[what]
                if (why := _Difference.of(expected, unit, found).failure()) is not None:
                    failures.append(f"The {what} of head {head} in {name} do not follow from its weights: {why}.")
    if not heads:
        return Finding(None, f"{between}{left_out}".strip())
    return Finding.of(failures, f"The values of {heads} heads follow from their weights.{between}{left_out}")


def rotary_positions(reading: Reading) -> Finding:
    """Queries and keys are those of the weights, rotated by angles of the configuration's base, from position 0 on (Su et al.
    2021)."""
    failures, bases = [], set()
    for name, kind, layer, call in reading.calls():
        if kind not in ("self", "decoder") or (rope := _frequencies(reading, call, layer)) is None:
            continue
        frequencies, factor, base = rope
        if (of_head := _of_head(reading, kind, layer, 0, call)) is None:
            continue
        if rotates := _rotates(reading, call, layer):
            bases.add(f"{base:,.7g}")
        how = f"rotated with the base {base:,.7g}" if rotates else "without a rotation"
        for what in ("queries", "keys"):
            expected, unit, found = of_head[what]
            if (normed := _normed(reading, call, what)) is not None:
                expected, unit = normed, normed.abs() + unit.mean()
            elif _has_norms(call):
                return Finding(None, "A norm comes before the rotation, and its result could not be identified.")
            fits = (
                start
                for start in POSITIONS
                for between in (True, False)
                for turned in (_rotated(expected, frequencies * rotates, start, between) * (factor if rotates else 1),)
                if _Difference.of(turned, unit, found).failure(OF_ANGLES) is None
            )
            if (start := next(fits, None)) is None:
                failures.append(f"In {name} the {what} are not those of the weights {how}, as the configuration says.")
            elif start != 0:
                failures.append(f"In {name} positions begin at {start} instead of 0.")
    if not (bases or failures):
        return Finding(None, "The configuration names no rotary base.")
    base = " or ".join(sorted(bases))
    return Finding.of(failures, f"Queries and keys are rotated with the base {base}, from position 0 on.")


def absolute_positions(reading: Reading) -> Finding:
    """The embeddings of positions are the first ones of their table, in their order."""
    failures, tables = [], 0
    for name, visit in reading.visits.items():
        last = name.rpartition(".")[2]  # others are of places on a page: x_position_embeddings
        if not isinstance(visit.module, nn.Embedding) or not last.startswith(("position", "embed_position", "wpe")):
            continue
        rows = visit.returned.reshape(-1, visit.returned.shape[-1])
        tables, first = tables + 1, _first_position(visit.module)
        if torch.equal(rows, visit.module.weight[first : first + len(rows)]):
            continue
        at = next((place for place, row in enumerate(visit.module.weight) if torch.equal(row, rows[0])), None)
        failures.append(
            f"{name} gives the first token {'no row' if at is None else f'row {at}'} of its table, and its architecture begins "
            f"at row {first}."
            if at != first
            else f"{name} does not give the tokens the rows of its table one after another."
        )
    if not tables:
        return Finding(None, "The model has no table of positions.")
    return Finding.of(failures, "Tokens get the embeddings of their positions, one after another from the first.")


# --- one product


class _Difference(NamedTuple):
    """How two computations of the same numbers differ.

    units   the largest difference, in units of one rounding error
    slope   by which factor the numbers are too large, less 1, in units of what rounding makes of it
    factor  this factor
    """

    units: float
    slope: float
    factor: float

    @classmethod
    def of(cls, expected: Tensor, unit: Tensor, found: Tensor) -> Self:
        """expected and unit in float64; unit: the sum of the sizes of all products that were added up."""
        eps = rounding_error(found.dtype)
        given = _exact(found)
        units = ((given - expected).abs() / (eps * unit).clamp_min(torch.finfo(torch.float64).tiny)).max()
        squares = expected.square().sum().clamp_min(torch.finfo(torch.float64).tiny)
        factor = float((given * expected).sum() / squares) if expected.any() else 1.0
        # Each number is rounded once; what is added up to it is rounded in float32 at most.
        single = min(eps, torch.finfo(torch.float32).eps)
        spread = float(((eps * expected.abs() + single * unit) * expected).square().sum().sqrt() / squares)
        return cls(float(units), abs(factor - 1) / max(spread, eps / 100), factor)

    def failure(self, times: int = 1) -> str | None:
        """What is wrong, as the end of a sentence. times: how much more is allowed"""
        if not self.units <= OF_PRODUCTS * times:
            return f"{self.units:.3g} units of rounding, where {OF_PRODUCTS * times} are allowed"
        if times == 1 and not self.slope <= OF_SLOPES:
            return f"its numbers are {self.factor:.5g} times as large on average"
        return None


def _product(module: Any, read: Tensor, returned: Tensor) -> _Difference:
    """The difference of a linear map's result, in some of its columns."""
    columns = torch.tensor(_some(returned.shape[-1], COLUMNS))
    weight = module.weight if isinstance(module, Conv1D) else module.weight.T
    bias = None if module.bias is None else module.bias[columns.to(weight.device)]
    expected, unit = _affine(read, weight[:, columns.to(weight.device)], bias)
    return _Difference.of(expected, unit, returned.reshape(-1, returned.shape[-1])[:, columns.to(returned.device)])


def _again(visit: Visit) -> Tensor | None:
    """What the code of a module returns in float64 on the CPU; None where that cannot be had."""
    if sum(weights.numel() for weights in visit.module.parameters()) > MOST_WEIGHTS:
        return None
    try:
        twin: Any = copy.deepcopy(visit.module).to("cpu", torch.float64)
        if hasattr(twin, "config"):  # of experts, whose fast kernels know fewer dtypes
            twin.config._experts_implementation = "eager"
        inputs, options = tree_map(_as_exact, (visit.inputs, visit.options))
        with torch.inference_mode():
            returned = type(twin).forward(twin, *inputs, **options)
    except Exception:  # each architecture fails in ways of its own
        return None
    is_like = (
        isinstance(returned, Tensor) and isinstance(visit.returned, Tensor) and returned.shape == visit.returned.shape
    )
    return returned.double() if is_like else None


def _as_exact(given: Any) -> Any:
    """A tensor on the CPU, of numbers in float64; anything else as it is."""
    if not isinstance(given, Tensor):
        return given
    return _exact(given) if given.is_floating_point() else given.cpu()


def _affine(read: Tensor, weight: Any, bias: Any = None) -> tuple[Tensor, Tensor]:
    """(read @ weight + bias, the sum of the sizes of what is added), in float64 on the CPU."""
    x, w, b = map(_exact, (read, weight, torch.zeros(weight.shape[1]) if bias is None else bias))
    x = x.reshape(-1, x.shape[-1])
    return x @ w + b, x.abs() @ w.abs() + b.abs()


def _exact(numbers: Any) -> Tensor:
    given = numbers.detach() if isinstance(numbers, Tensor) else torch.tensor(numbers)
    return given.to("cpu", torch.float64)


def _some(count: int, most: int = 4) -> list[int]:
    """At most so many numbers below `count`, the first and the last one among them."""
    return sorted({round(one) for one in torch.linspace(0, count - 1, min(count, most)).tolist()})


# --- one head


def _of_head(
    reading: Reading, kind: Kind, layer: int, head: int, call: Call
) -> dict[str, tuple[Tensor, Tensor, Tensor]] | None:
    """The projections of a head, from its weights and what its module read: (expected, unit, found) of its values, queries and
    keys, [tokens, size] each; None if its input cannot be identified.

    Raises InputError for an architecture whose weights are not understood.
    """
    weights = head_weights(reading.model, layer, head, kind)
    visit = next((visit for visit in reading.visits.values() if visit.module is call.module), None)
    read = None if visit is None else _tensor(visit)
    # A module that several layers share is watched in the first of them.
    first = next(other for other in reading.capture.each_layer(kind) if other.module is call.module)
    # The keys of cross-attention come from elsewhere.
    if (
        first is not call
        or visit is None
        or read is None
        or kind == "cross"
        or read.numel() // read.shape[-1] != call.query.shape[2]
    ):
        return None
    size = factor_of_queries(call)
    query, unit = _affine(read, weights.W_Q, weights.b_Q)
    return {
        "values": (*_affine(read, weights.W_V, weights.b_V), call.value[0, weights.key_head]),
        "queries": (query * size, unit * size, call.query[0, head]),
        "keys": (*_affine(read, weights.W_K, weights.b_K), call.key[0, weights.key_head]),
    }


def _is_read_by_output(reading: Reading, call: Call) -> bool:
    """Whether some linear map reads the outputs of the heads as they are, one beside the other."""
    output = call.output.flatten(2)[0]
    read = (_tensor(visit) for visit in reading.visits.values() if isinstance(visit.module, LINEAR))
    return any(one is not None and torch.equal(one.reshape(-1, one.shape[-1]).cpu(), output) for one in read)


def _tensor(visit: Visit) -> Tensor | None:
    """What a module read: `hidden_states`, or the first tensor that it was given."""
    given = (visit.options.get("hidden_states"), *visit.inputs, *visit.options.values())
    return next((one for one in given if isinstance(one, Tensor) and one.is_floating_point()), None)


def _has_norms(call: Call) -> bool:
    return any("norm" in name for name, _ in call.module.named_children())


def _normed(reading: Reading, call: Call, what: str) -> Tensor | None:
    """What the norm of the queries or keys returned for head 0, [tokens, d_k] in float64; None without such a norm."""
    norm = getattr(call.module, "q_norm" if what == "queries" else "k_norm", None)
    given = call.query if what == "queries" else call.key
    visit = next((visit for visit in reading.visits.values() if visit.module is norm), None)
    if norm is None or visit is None or visit.returned.numel() != given.numel():
        return None
    (_, heads, tokens, size), returned = given.shape, _exact(visit.returned)
    by_head = returned.shape[1:] == (heads, tokens, size) and heads != tokens
    return returned[0, 0] if by_head else returned.reshape(tokens, heads, size)[:, 0]


# --- rotation


def _rope(reading: Reading, call: Call) -> dict[str, Any] | None:
    """The rotary settings of a call's configuration."""
    own: Any = config_of(reading, call)
    return getattr(own, "rope_parameters", None) or None


def _was_given_angles(reading: Reading, call: Call) -> bool | None:
    """Whether a module was given cosines and sines by which it rotates; None if it takes none by that name."""
    given = (visit.options for visit in reading.visits.values() if visit.module is call.module)
    return next((of["position_embeddings"] is not None for of in given if "position_embeddings" in of), None)


def _frequencies(reading: Reading, call: Call, layer: int) -> tuple[Tensor, float, float] | None:
    """(the angle by which each pair of numbers turns at each token, a factor, the base) of a layer; None without rotation."""
    rope, own = _rope(reading, call), config_of(reading, call)
    if rope is None:
        return None
    of_type = None
    if not any(name.startswith("rope") for name in rope):  # by the type of the layer
        of_type = own.layer_types[number_of(call, layer)]
        rope = rope.get(of_type)
        if rope is None:
            return None
    base, size = float(rope["rope_theta"]), call.query.shape[-1]
    if (kind := rope.get("rope_type", "default")) == "default":
        turned = int(size * rope.get("partial_rotary_factor", 1.0))
        return base ** (-torch.arange(0, turned, 2, dtype=torch.float64) / turned), 1.0, base
    options = {} if of_type is None else {"layer_type": of_type}
    frequencies, factor = ROPE_INIT_FUNCTIONS[kind](own, torch.device("cpu"), seq_len=None, **options)
    return frequencies.double(), float(factor), base


def _rotated(x: Tensor, frequencies: Tensor, start: int, between: bool) -> Tensor:
    """Rows turned by their positions. between: number j is paired with the one half the size further on, else with the next."""
    turned = 2 * len(frequencies)
    angles = (torch.arange(len(x)) + start).double()[:, None] * frequencies
    pairs = x[:, :turned]
    first, second = pairs.chunk(2, dim=1) if between else (pairs[:, ::2], pairs[:, 1::2])
    both = first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()
    joined = torch.cat(both, dim=1) if between else torch.stack(both, dim=2).flatten(1)
    return torch.cat([joined, x[:, turned:]], dim=1)


def _rotates(reading: Reading, call: Call, layer: int) -> bool:
    """Whether this layer rotates its queries and keys, by its configuration."""
    own, number = config_of(reading, call), number_of(call, layer)
    if _was_given_angles(reading, call) is False:  # Granite 4 without positions
        return False
    if (rotates := getattr(own, "no_rope_layers", None)) is not None:  # SmolLM3 and Llama 4: 1 in layers that do
        return bool(rotates[number])
    return not own.model_type.startswith(ROTATED_IN_WINDOWS) or window_of(reading, call, layer) is not None


def _first_position(table: nn.Embedding) -> int:
    """The row of the first token: after the padding token's in RoBERTa, the third one in OPT and BART."""
    offset = getattr(table, "offset", None)
    return offset if offset is not None else 0 if table.padding_idx is None else table.padding_idx + 1
