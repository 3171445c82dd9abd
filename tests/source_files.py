"""Reading our own source: which files there are, and what they import."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("app.py", "core", "pages", "ui")
EVERYTHING = (*PRODUCT, "bench", "check.py", "tests", "tools")
OURS = {"app", "pages", "ui", "core", "tests", "bench", "check", "tools"}


def python_files(*places: str) -> list[Path]:
    """The Python files of folders and of single files, as paths relative to the root."""
    paths = (ROOT / place for place in places)
    found = (file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]) if file.is_file())
    return sorted(file.relative_to(ROOT) for file in found)


def text(path: Path | str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def imports(source: str, *, package: str = "") -> Iterator[str]:
    """The dotted names of everything imported at any depth; `from a import b` gives a and a.b, for b may be a module.

    package   the dotted package that the source is in, from which relative imports are counted
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield from (name.value for name in node.args[:1] if isinstance(name, ast.Constant))
