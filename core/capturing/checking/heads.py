"""Checks of the attention calls: what they computed, and whether scale, mask, window and soft cap are the configuration's."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...models.calls import Call
from ...models.checkups import Finding
from ..calls.rows import head_permissions
from ..certifying import AS_MASK
from .reading import Reading


def attention_of_heads(reading: Reading) -> Finding:
    """The output of each head of the chosen layers follows from its queries, keys and values."""
    certificates = [
        (f"{name.replace('layer ', '')}.{head}", reading.capture.certificate(layer, head, kind))
        for name, kind, layer, call in reading.calls()
        for head in range(call.heads)
    ]
    worst = max(certificate.rounding for _, certificate in certificates)
    return Finding.of(
        (
            f"The output of head {name} does not follow from its queries, keys and values: it is "
            f"{certificate.rounding:.3g} units of rounding off, where {certificate.allowed:g} are allowed."
            for name, certificate in certificates
            if not certificate.holds
        ),
        f"The outputs of {len(certificates)} heads follow from their queries, keys and values, within {worst:.2g} units of "
        f"rounding.",
    )


def masks(reading: Reading) -> Finding:
    """No query of a decoder may attend to later tokens, every other pair is allowed, and a mask forbids instead of adding."""
    failures, said = [], set()
    for name, kind, layer, call in reading.calls():
        allowed, bias = head_permissions(call, 0, range(call.query.shape[2]))
        before = _distances(call) >= 0
        if (added := bias[bias <= AS_MASK]).size:
            failures.append(f"In {name} the mask adds {added.min():,.5g} to scores instead of forbidding them.")
        is_decoder = kind == "decoder" or (kind == "self" and reading.model.has_language_model_head)
        if is_decoder and reading.is_causal(call) and (allowed & ~before).any():
            failures.append(f"In {name} queries may attend to later tokens.")
        elif not allowed.any(axis=1).all():
            failures.append(f"In {name} the token {int(np.argmin(allowed.any(axis=1)))} may attend to nothing.")
        elif window_of(reading, call, layer) is None and not (np.array_equal(allowed, before) or allowed.all()):
            failures.append(f"In {name} the mask forbids pairs of tokens, and the configuration names no window.")
        said.add("every token" if allowed.all() else "no later token")
    return Finding.of(failures, f"In the chosen layers queries may attend to {' or to '.join(sorted(said))}.")


def windows(reading: Reading) -> Finding:
    """The farthest key that a query may attend to is as far as the configuration says."""
    tokens, failures, seen, longer = reading.capture.shape()[0], [], set(), set()
    for name, kind, layer, call in reading.calls():
        window = window_of(reading, call, layer)
        if window is None or kind in ("cross", "vision"):
            continue
        allowed, _ = head_permissions(call, 0, range(tokens))
        farthest = int(np.abs(_distances(call))[allowed].max()) + 1
        (longer if window >= tokens else seen).add(window)
        if farthest != min(window, tokens):
            failures.append(
                f"In {name} queries reach back over {farthest} tokens, and the configuration says {window:,}."
            )
    if not (seen or longer or failures):
        return Finding(None, "The configuration names no sliding window for these layers.")
    if longer and not seen and not failures:
        words = f"A window of {min(longer):,} tokens is longer than the {tokens} tokens of the check-up."
        return Finding(None, words)
    return Finding.of(failures, f"Windows of {', '.join(map(str, sorted(seen)))} tokens are kept.")


def soft_caps(reading: Reading) -> Finding:
    """The soft cap of the scores is the configuration's."""
    wanted = getattr(reading.model.text_config, "attn_logit_softcapping", None)
    found = {call.softcap for _, kind, _, call in reading.calls() if kind != "vision"}
    if found == {None} and wanted is None:
        return Finding(None, "The configuration names no soft cap, and no layer has one.")
    failures = [f"A layer has the soft cap {one}, and the configuration says {wanted}." for one in found - {wanted}]
    return Finding.of(failures, f"The soft cap is {wanted}, as the configuration says.")


def scales(reading: Reading) -> Finding:
    """The scale of the scores is that which the network's class makes of the configuration."""
    failures, seen = [], set()
    for name, _, _, call in reading.calls():
        # A factor of the queries is compared by the check of projections.
        wanted, scale = scale_of(reading.own(call.module), call), call.scale * factor_of_queries(call)
        seen.add(f"{scale:.4g}")
        if not np.isclose(scale, wanted, rtol=1e-5):
            failures.append(f"In {name} scores are multiplied by {scale:.5g}, and the configuration says {wanted:.5g}.")
    return Finding.of(failures, f"Scores are multiplied by {' or '.join(sorted(seen))}, as the configuration says.")


def factor_of_queries(call: Call) -> float:
    """What a module multiplies its queries by where it asks for no scale in the attention call (OPT); 1 for any other."""
    module: Any = call.module
    return float(module.scaling) if call.scale == 1 and hasattr(module, "scaling") else 1.0


def scale_of(own: Any, call: Call) -> float:
    """The scale of an attention module; 1/√d_k where it names none (Vaswani et al. 2017)."""
    named = (getattr(own, name, None) for name in ("scaling", "scale"))
    return next((scale for scale in named if isinstance(scale, float | int)), call.query.shape[-1] ** -0.5)


def window_of(reading: Reading, call: Call, layer: int) -> int | None:
    """The number of tokens, itself included, over which a query of this layer reaches by the configuration; None: over all."""
    own, layer = config_of(reading, call), number_of(call, layer)
    types = getattr(own, "layer_types", None)
    if types is not None and not (layer < len(types) and "sliding" in types[layer]):
        return None
    if types is None and not getattr(own, "use_sliding_window", True):
        return None
    if (both_ways := getattr(own, "local_attention", None)) is not None:  # ModernBERT: half before, half after
        return both_ways // 2 + 1
    return getattr(own, "sliding_window", None)


def config_of(reading: Reading, call: Call) -> Any:
    """The configuration of a call's module: a model of several parts has one for each."""
    return getattr(call.module, "config", reading.model.text_config)


def number_of(call: Call, layer: int) -> int:
    """The number of a call's layer among all layers of the network. layer: among those with this attention"""
    number = getattr(call.module, "layer_idx", None)
    return layer if number is None else number


def _distances(call: Call) -> NDArray[np.integer]:
    """How many tokens a key stands before a query: [queries, keys]."""
    return np.arange(call.query.shape[2])[:, None] - np.arange(call.key.shape[2])
