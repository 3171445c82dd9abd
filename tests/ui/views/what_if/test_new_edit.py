"""The fields of a new change: what the kinds of edits ask for is what the page has keys for."""

from __future__ import annotations

from core.capturing.edits.forms import Choice
from core.capturing.edits.kinds import EDIT_KINDS
from ui import state


def test_every_field_of_a_form_has_a_key() -> None:
    fields = [field for kind in EDIT_KINDS for field in kind.fields]
    fields += [further for field in fields if isinstance(field, Choice) for further in field.then.values()]
    assert {field.name for field in fields if hasattr(field, "name")} == set(state.NEW_FIELDS)
    assert set(state.NEW_FIELDS.values()) <= state.IN_ADDRESS
