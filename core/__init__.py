"""Attention, one stage at a time: the same few lines for random matrices and for a head of a pretrained model.

from headlight import attend, capture, load_model  # in the repository: from core

trace = attend(query, key, value)
trace = capture(load_model("SmolLM2-135M-Instruct"), "The capital of France is").trace(layer=23, head=4)
trace.raw, trace.scaled, trace.masked, trace.weights, trace.output

The names are listed in __init__.pyi. Each is loaded when first asked for, so that matrices and figures do not wait for torch
and transformers.
"""

import sys

import lazy_loader

__version__ = "1.0.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# In a notebook what is computed here shows itself; elsewhere IPython is not even looked for.
if "IPython" in sys.modules:
    from .notebook.displays import register

    register(sys.modules["IPython"].get_ipython(), __name__)
