"""What the decoder of an encoder-decoder has written: by itself, or as a text or token numbers that somebody gives."""

from __future__ import annotations

from collections.abc import Callable

from core import Model
from core.models.inputs import read_token_numbers
from ui import state
from ui.controls.fields import menu, text_line
from ui.requests import GeneratedTarget, Target

WAYS = {"generated": "Generated", "text": "Text", "numbers": "Token numbers"}
HELP = (
    "What the decoder has written so far, whose tokens are its queries. Generated: the model writes it, the most probable "
    "token again and again."
)


def choose_target(model: Model) -> Target:
    """The menu and the field that belongs to its choice. Raises InputError (field "target") for what is no token number."""
    offered = {way: words for way, words in WAYS.items() if way != "generated" or model.has_language_model_head}
    way = menu("Target", state.TARGET_AS, offered, width=150, help=HELP)
    if way == "text":
        return text_line("Its text", state.TARGET, placeholder="nothing yet", width=170)
    if way == "numbers":
        return read_token_numbers(text_line("Its numbers", state.TARGET_IDS, placeholder="such as 5, 17, 8", width=170))
    return GeneratedTarget()


def in_address(target: Target) -> dict[str, str]:
    """What an address says of it; of none, nothing."""
    if target is None:
        return {}
    if isinstance(target, GeneratedTarget):
        return {state.TARGET_AS: "generated"}
    if isinstance(target, str):
        return {state.TARGET_AS: "text", state.TARGET: target}
    return {state.TARGET_AS: "numbers", state.TARGET_IDS: ", ".join(map(str, target))}


def from_address(said: Callable[[str], str | None]) -> Target:
    """What an address means that says `said(name)`. Raises InputError (field "target")."""
    way = said(state.TARGET_AS)
    if way == "generated":
        return GeneratedTarget()
    return read_token_numbers(said(state.TARGET_IDS) or "") if way == "numbers" else said(state.TARGET)
