"""The versions of the packages that compute a result."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version


def versions(*packages: str) -> dict[str, str]:
    """The versions of Headlight, Python and these packages, by name."""
    package = sys.modules[__name__.partition(".")[0]]  # whatever it is installed as
    own = {"headlight": package.__version__, "Python": platform.python_version()}
    return own | {name: version(name) for name in packages}
