"""The certificate of a whole trace at once, beside those that are computed a few rows at a time."""

import numpy as np

from core.attention.masks import describe
from core.attention.trace import AttentionTrace
from core.capturing import certifying
from core.capturing.certifying import Certificate, Origin
from core.models.model import Model


def certify(trace: AttentionTrace, output: np.ndarray, model: Model | Origin) -> Certificate:
    """Compare a trace with the output [queries, d_v] that the model's own attention returned for the same head."""
    rounding = certifying._rounding(model, trace.shaping)
    return certifying._certificate(
        [certifying._compare(trace, output, range(len(output)), rounding)], model, trace.scale, describe(trace.mask)
    )
