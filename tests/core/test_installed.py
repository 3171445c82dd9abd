import platform

import numpy as np
import torch
import transformers

from core.installed import versions


def test_versions_are_those_of_what_runs():
    found = versions("torch", "transformers", "numpy")
    assert found["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    assert found["transformers"] == transformers.__version__
    assert found["numpy"] == np.__version__
    assert found["Python"] == platform.python_version()
    assert found["headlight"] != "unknown"
