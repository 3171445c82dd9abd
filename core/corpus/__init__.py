"""Heads over many texts: what each of them does in general, on Ray Data.

from headlight.corpus import open_run, run  # in the repository: from core.corpus

run("all-MiniLM-L6-v2", "texts/", "corpora/my-run")
open_run("corpora/my-run").means("previous")

The names are listed in __init__.pyi. Each is loaded when first asked for, so that a finished run opens without Ray.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
