"""Links from one page to the same head on another, with its text and its chosen pair."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from core.claims.known import known_claims
from ui import state
from ui.controls.masks import Change
from ui.links import link_to
from ui.markdown import quoted
from ui.requests import HeadRequest, TextRequest
from ui.views.sources.heads import RealHead
from ui.views.sources.text_fields import target_in_address

Cell = tuple[int, int] | None  # the chosen (query, key)


def link_to_steps(head: HeadRequest, cell: Cell) -> None:
    _link("step_by_step", "All stages", ":material/steps:", head, cell, **{state.SOURCE: ["real"]})


def link_to_heads(
    head: HeadRequest, cell: Cell, label: str = "All heads of this model", icon: str = ":material/apps:"
) -> None:
    _link("heads", label, icon, head, cell)


def link_to_claims(head: HeadRequest) -> None:
    """Link to the test of the known claims about this head, on all texts that come along."""
    claims = [str(replace(claim, head=f"{head.layer}.{head.head}")) for claim in known_claims()]
    address = {state.MODEL: head.text.model.name, state.CLAIMS: "\n".join(claims), state.CHECKED_ON: "included"}
    link_to("claims", "Claims", ":material/fact_check:", address)


def link_to_comparison(head: HeadRequest) -> None:
    """Link to the head beside another one, and to the list of those that are like it."""
    more: dict[str, Any] = {state.VIEW: "compare", state.COMPARE_WITH: "head"}
    _link("what_if", "Compare", ":material/compare_arrows:", head, None, **more)


def link_to_what_if(head: HeadRequest, changes: Sequence[str] = (), label: str = "What if") -> None:
    """Link to the page where the head can be changed; no link from a recorded pass, which cannot be changed.

    changes  lines of `core.capturing.edits.lines`
    """
    if head.text.model.is_recorded:
        return
    _link("what_if", label, ":material/tune:", head, None, **({state.EDITS: list(changes)} if changes else {}))


def link_to_why(head: HeadRequest, cell: Cell) -> None:
    """Link to why the head looked from this query to this key; no link without a cell, where an image was read, or
    from a recorded pass."""
    if cell is not None and not head.text.reads_both and not head.text.model.is_recorded:
        kind = "" if head.kind == "self" else f"{head.kind} "
        path = f"score {kind}{head.layer}.{head.head}@{cell[0]}>{cell[1]}"
        more = {state.PATH: [path], state.STOP: ["1"]}
        _link("why", "Why this weight?", ":material/account_tree:", head, None, **more)


def link_to_why_word(text: TextRequest, words: str, token: str) -> None:
    """Link to why a token comes next after these words; none where the model has read more than words."""
    if text.target is not None or text.image is not None or text.model.is_recorded:
        return
    address = _reading(text) | {state.TEXT: words, state.ANSWER: token, state.PATH: "", state.STOP: "0"}
    link_to("why", f"Why {quoted(token)}?", ":material/account_tree:", address)


def link_to_answer(text: TextRequest) -> None:
    """Link to why the model answers as it does, as the page opens; none where it reads more there than this text."""
    if (text.pair, text.target, text.image, text.keep) != (None,) * 4 or text.model.is_recorded:
        return
    opening = dict.fromkeys((state.ANSWER, state.RATHER_THAN, state.LIKE_TEXT, state.PATH), "")
    link_to("why", "Why this answer?", ":material/account_tree:", _reading(text) | opening | {state.STOP: "0"})


def link_to_effects(text: TextRequest) -> None:
    """Link to what muting each head does to the answer; no link from a recorded pass, which cannot be changed."""
    if not text.model.is_recorded:
        link_to("what_if", "Which heads matter", ":material/tune:", _reading(text) | {state.VIEW: "matter"})


def _reading(text: TextRequest) -> dict[str, str]:
    """The part of an address that names a text and the model that reads it."""
    model = text.model
    return {state.TEXT: text.text, state.MODEL: model.name, state.DTYPE: model.dtype, state.DEVICE: model.device}


def link_to_changing(real: RealHead, change: Change) -> None:
    """Link from a head with another scale or mask to what the model then does; no link for a mask that was typed."""
    if (changes := change.lines(real.layer, real.head, real.named_kind)) is not None:
        link_to_what_if(real.of, changes, "What does the model then do?")


def _link(page: str, label: str, icon: str, head: HeadRequest, cell: Cell, **more: list[str]) -> None:
    """The page opens with this head and this pair, whatever was chosen there before.

    An empty word stands for a field's opening value. An image is in no address; the session holds it for all pages.
    """
    text, (query, key) = head.text, ("", "") if cell is None else map(str, cell)
    address = address_of(head) | {state.PAIR: text.pair or "", state.TRUNCATE: "" if text.keep is None else "true"}
    link_to(page, label, icon, address | {state.QUERY: query, state.KEY: key} | more)


def address_of(head: HeadRequest) -> dict[str, str]:
    """The part of an address that names a head, the text, the model that reads it, and what its decoder has written."""
    of_head = {state.KIND: head.kind, state.LAYER: str(head.layer), state.HEAD: str(head.head)}
    return _reading(head.text) | of_head | target_in_address(head.text.target)
