"""Two small example runs: both models over the documentation that every Python comes with.

The language reference as `pydoc` shows it and the docstrings of the standard library, under the licence of Python itself (PSF
License 2.0, https://docs.python.org/3/license.html). Nothing is downloaded.
"""

from __future__ import annotations

import ast
import json
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import InputError
from .columns import LAST, file_of
from .reading import require_address
from .running import Progress, run

TOKENS = {"all-MiniLM-L6-v2": 200_000, "SmolLM2-135M-Instruct": 30_000}
LEAST = 200  # the minimum number of characters of a docstring


def example(out: str, *, on_progress: Callable[[Progress], None] = lambda _progress: None) -> None:
    """Run both models, each into a folder of its name in `out`; a finished run stays. Raises InputError as `run` does."""
    require_address(out, "out")
    corpus = Path(out, "python-documentation.jsonl")
    try:
        corpus.parent.mkdir(parents=True, exist_ok=True)
        corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in documentation()), "utf-8")
    except OSError as error:
        why = f"{out!r} cannot be written to: {error.strerror}. Choose another folder."
        raise InputError(why, field="out") from error
    for model, tokens in TOKENS.items():
        if not Path(out, model, file_of(LAST)).is_file():
            run(model, str(corpus), str(Path(out, model)), tokens=tokens, on_progress=on_progress)


def documentation() -> Iterator[str]:
    """Topics of the language reference, then docstrings of the standard library, in a fixed order."""
    from pydoc_data.topics import topics

    yield from (topics[name] for name in sorted(topics))
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        try:
            module = ast.parse(file.read_text("utf-8"))
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(module):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text is not None and len(text) >= LEAST:
                    yield text
