"""A small model with a tokenizer that makes tokens of all classes."""

from tests.core.corpus.conftest import bert as bert
