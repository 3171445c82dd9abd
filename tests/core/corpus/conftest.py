"""A small model with a tokenizer for tests of a corpus, in memory and as a folder."""

import pytest

from core import load_model
from tests.core.corpus.plain import reader
from tests.core.tiny_models import tiny


@pytest.fixture(scope="module")
def bert():
    return load_model(tiny("BERT"), tokenizer=reader())


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "bert"
    tiny("BERT").save_pretrained(folder)
    reader().save_pretrained(folder)
    return folder
