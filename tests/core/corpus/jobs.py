"""A job to test with."""

from core.corpus.job import Job, versions_that_count
from core.corpus.reading import Reading
from core.corpus.tally import EXAMPLES_OF
from core.models.loading import model_revision


def job_of(model: str, folder: str = ".", **changes) -> Job:
    settings = {
        "model": model,
        "revision": model_revision(model),
        "versions": versions_that_count(),
        "dtype": "float32",
        "device": "cpu",
        "folder": folder,
        "reading": Reading(),
        "heads": None,
        "tokens": None,
        "passage_tokens": 128,
        "strongest": 50,
        "sample": 200,
        "examples_of": EXAMPLES_OF,
    }
    return Job(**settings | changes)
