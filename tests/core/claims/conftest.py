"""A small model with a tokenizer that makes tokens of all classes."""

import pytest

from core import load_model
from tests.core.corpus.plain import reader
from tests.core.tiny_models import tiny


@pytest.fixture(scope="module")
def bert():
    return load_model(tiny("BERT"), tokenizer=reader())
