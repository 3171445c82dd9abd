"""How far two numbers may be apart by rounding alone: all limits of agreement, in units of one rounding error.

A limit stands between what was measured where everything is right and the smallest fault that was tried. It is largest for
float32, whose rounding errors add up; in half precision, numbers are computed more exactly and rounded once.
"""

import torch

# A head's output, by the dtype of the model. Measured on every head of both offline models: in float32 at most 5.4, and at
# least 260 if the scale is wrong by one percent. In half precision weights and output are rounded once each, which is 1 unit
# at most; measured: 0.93.
OF_HEADS = {"float32": 20.0, "float64": 20.0, "float16": 1.25, "bfloat16": 1.25}

# A held norm and the norm, or a sum of contributions and its number. Measured on every architecture of docs/architectures.md
# and both offline models, in 20 texts and 200 scores each: at most 4.1 and 3.5; in bfloat16, on both models, 0.7 and 0.4.
# Leaving out a component of a small BERT makes more than 100.
OF_SUMS = {torch.float32: 16.0, torch.float64: 16.0, torch.float16: 1.25, torch.bfloat16: 1.25}

# The logits that follow from what layers returned and those of the pass, those that follow from the language-model head, or the
# gradients of two parameters that are added to the same place: of the largest of these numbers.
OF_LOGITS = 16

# A linear map again in float64, each number in units of one rounding error of all that is added up; and the factor between both
# results, in units of what such errors make of it. Measured on both offline models: at most 5.5, and in half precision 0.3.
OF_PRODUCTS, OF_SLOPES = 16, 8

# A pass here and one by the network's own code alone, in units of what one rounding error in the result of every module
# changes. Measured on 45 tiny architectures and both offline models: in float32 at most 1.9, in half precision 0.8.
OF_OWN_CODE = {"float32": 8.0, "float64": 8.0, "float16": 3.0, "bfloat16": 3.0}


# Two passes over the same text, of the largest number: kernels for other sizes add up in another order, and what one layer
# rounds the next ones enlarge. In half precision far fewer of the far larger errors.
OF_PASSES, OF_PASSES_IN_HALF = 2_000, 16


def rounding_error(dtype: torch.dtype) -> float:
    """The relative rounding error of a model in this format. Many norms compute in float32 even if the model is in float64."""
    return max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)


def between_passes(dtype: torch.dtype) -> float:
    """How far the numbers of two passes over the same text may be apart, as a share of the largest."""
    own = rounding_error(dtype)
    return own * (OF_PASSES if own < 1e-5 else OF_PASSES_IN_HALF)
