"""The command where what it needs is not installed."""

import subprocess
import sys


def test_without_ray_it_says_what_to_install():
    lines = (
        "import runpy, sys",
        "sys.modules['ray'] = None",  # as if it were not there
        "sys.argv = ['core.corpus', 'example']",
        "runpy.run_module('core.corpus', run_name='__main__')",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "ray is not installed. Install what runs over a corpus need: pip install -r requirements-corpus.txt"
    )
