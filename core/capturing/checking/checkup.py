"""The check-up: whether this machine computes a model as its files and its configuration say.

The certificate of a head begins with the queries, keys and values that the model itself made. So it stays green if every
projection is wrong by one percent, if positions begin at 1, or if the mask lets a query see later tokens. The check-up looks at
these: it runs the model over a short fixed text and compares chosen layers with float64 on the CPU, from the weights. And it
runs the network beside the same network as transformers runs it alone, which decides whether it is run rightly here.
"""

from collections.abc import Callable
from functools import partial

from ...errors import first_line
from ...models.checkups import FINITE, MADE, OVER, OWN_CODE, Checkup, Finding
from ...models.model import Model, require_model
from ...progress import OnProgress, step_counter
from ...threads import processor_time
from ..capture import not_captured
from ..finite import NotFiniteError
from .from_files import beginning_of_text, leftovers, tokens_of_the_file, weights_of_the_file
from .from_weights import absolute_positions, matrix_products, other_modules, projections, rotary_positions
from .heads import attention_of_heads, masks, scales, soft_caps, windows
from .own_code import alone, compare_with_own_code
from .reading import Reading, cache_of_keys, later_tokens, padding, read_fixed

WEIGHTS = "weights"

# Those that cost least and find most come first: the time may not suffice for all.
CHECKS: dict[str, Callable[[Reading], Finding]] = {
    FINITE: lambda _: Finding(True, "The pass gives neither NaN nor infinity."),  # or there would be no reading
    OWN_CODE: lambda reading: _by_own_code(reading.model),
    "attention": attention_of_heads,
    "mask": masks,
    "scale": scales,
    "soft cap": soft_caps,
    "window": windows,
    "matrix products": matrix_products,
    "other modules": other_modules,
    "projections": projections,
    "rotary positions": rotary_positions,
    "absolute positions": absolute_positions,
    "beginning and end": beginning_of_text,
    "tokens": tokens_of_the_file,
    "leftovers": leftovers,
    WEIGHTS: weights_of_the_file,
    "later tokens": later_tokens,
    "padding": padding,
    "cache": cache_of_keys,
}

# Checks that say for themselves what is right. Others compare with what a configuration means to most architectures, or with
# what a text should be to every network: where one of them disagrees, the network's own code decides.
DEFINITE = (
    FINITE,
    OWN_CODE,
    "attention",
    "matrix products",
    "other modules",
    "beginning and end",
    "tokens",
    "leftovers",
    WEIGHTS,
)
BY_FURTHER_PASSES = ("later tokens", "padding", "cache")


def check_model(model: Model, *, seconds: float = 2.0, on_progress: OnProgress | None = None) -> Checkup:
    """Check a model on this machine: its projections, attention, masks, positions, cache, tokens and files.

    seconds      of this thread's processor time, which is less than that on the clock on a busy machine: no check is begun
                 after it, and those that are left say so. The comparison with the network's own code is always made, and not
                 counted; that of the weights with the files has as much for itself, and says how far it came
    on_progress  called with the number of checks that are done; an error that it raises ends the check-up

    Raises InputError (field "model") for a model that only a file describes, and for one whose queries, keys and values cannot
    be captured.
    """
    require_model(model, "The check-up")
    if not model.captures:
        raise not_captured(model)
    begun = processor_time()
    findings: dict[str, Finding] = {}
    try:
        reading = read_fixed(model)
    except Exception as error:
        reading, why = None, f"The model could not be read: {first_line(error)}."
        findings[FINITE] = Finding(False, str(error)) if isinstance(error, NotFiniteError) else Finding(None, why)
    step = step_counter(on_progress)
    for name, check in CHECKS.items():
        now = processor_time()
        if reading is None:
            findings.setdefault(name, Finding(None, "The pass gives no numbers to check."))
        elif name == WEIGHTS:
            findings[name] = _made(partial(weights_of_the_file, seconds=seconds), reading)
        elif name != OWN_CODE and now - begun > seconds:
            findings[name] = Finding(None, OVER.format(seconds), is_cut=True)
        else:
            findings[name] = _decided(name, _made(check, reading), reading, findings.get(OWN_CODE))
        if name in (OWN_CODE, WEIGHTS):
            begun += processor_time() - now
        step()
    skipped = tuple(name for name, finding in findings.items() if finding.is_cut)
    MADE[model.network] = checkup = Checkup.of(model, findings, skipped)
    return checkup


def _by_own_code(model: Model) -> Finding:
    """The network gives what it gives where transformers runs it alone."""
    compared = compare_with_own_code(model)
    return Finding(compared.holds, compared.detail)


def _decided(name: str, finding: Finding, reading: Reading, own_code: Finding | None) -> Finding:
    """What a check found, unless the network's own code does the same: then this check only does not know the network."""
    if finding.holds is not False or name in DEFINITE or (own_code is not None and own_code.holds is False):
        return finding
    if name in BY_FURTHER_PASSES and _made(lambda here: CHECKS[name](alone(here)), reading).holds:
        return finding
    return Finding(None, f"Not looked at, as this check does not know the network: {finding.detail}")


def _made(check: Callable[[Reading], Finding], reading: Reading) -> Finding:
    """What a check found. Architectures fail in ways of their own where a check gives them what they do not expect."""
    try:
        return check(reading)
    except Exception as error:
        return Finding(None, f"The check could not be made: {first_line(error)}.")
