# Every public name of this package. core/corpus/__init__.py reads this file, and so do type checkers.

from .opened import Run as Run
from .opened import open_run as open_run
from .running import Progress as Progress
from .running import run as run
from .tables import About as About
