"""Requests are the keys of every cache: every field of them counts."""

from dataclasses import fields, is_dataclass, replace

from core import Edits
from ui import requests
from ui.requests import ModelChoice, TextRequest


def test_everything_that_is_asked_for_counts() -> None:
    """A field left out of the comparison would give a visitor what another one has uploaded or changed."""
    kinds = [kind for kind in vars(requests).values() if is_dataclass(kind) and kind.__module__ == requests.__name__]
    assert {"TextRequest", "HeadRequest", "AnswerRequest"} <= {kind.__name__ for kind in kinds}
    for kind in kinds:
        assert all(field.compare and field.hash is not False for field in fields(kind)), kind
    given = {"pair": "b", "target": "c", "keep": 4, "image": b"0", "edits": Edits(mute_heads={(0, 0)})}
    plain = TextRequest(ModelChoice("m"), "a")
    assert len({plain, *(replace(plain, **{name: value}) for name, value in given.items())}) == 1 + len(given)
    assert replace(plain, image=b"0") != replace(plain, image=b"1")
