"""A job to test with."""

from dataclasses import fields

from core.corpus.settings import Job, RunSettings, versions_that_count
from core.models.loading import model_revision


def job_of(model: str, folder: str = ".", **changes) -> Job:
    """changes: of fields of the job or of its settings"""
    facts = {"revision": model_revision(model), "versions": versions_that_count()}
    of_settings = {field.name for field in fields(RunSettings)}
    settings = RunSettings(**{name: value for name, value in changes.items() if name in of_settings})
    others = {name: value for name, value in changes.items() if name not in of_settings}
    return Job(model=model, folder=folder, settings=settings, **facts | others)
