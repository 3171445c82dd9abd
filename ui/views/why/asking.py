"""What is asked on the page Why: for which answer, and compared with what."""

from __future__ import annotations

from core import Capture
from core.capturing.sampling import most_probable
from core.figures.labels import visible
from core.heads.examples import WIDE
from core.models.inputs import MAX_PIECES, one_token, word_tokens
from core.models.tokens import token_texts
from ui import state
from ui.controls.fields import menu, suggested_or_none, text_line
from ui.requests import AnswerRequest, TextRequest

OFFERED = 12  # tokens
MEAN_OF_ALL = "the mean of all tokens"


def choose_answer(request: TextRequest, capture: Capture) -> AnswerRequest:
    """Show the fields. Raises InputError (field "answer" or "than") for a word that the model has no token for."""
    if capture.logits is None:
        like = text_line("Compared with", state.LIKE_TEXT, WIDE, width=340)
        return AnswerRequest(request, None, "mean", like or WIDE)
    numbers = most_probable(capture.logits, OFFERED)
    offered = dict(zip(token_texts(capture.model.tokenizer, numbers), numbers, strict=True))
    answer = _token(capture, "Answer", state.ANSWER, offered)
    others = {text: number for text, number in offered.items() if number != answer}
    return AnswerRequest(
        request, answer, _token(capture, "Rather than", state.RATHER_THAN, others | {MEAN_OF_ALL: "mean"})
    )


def _token(capture: Capture, label: str, key: str, offered: dict) -> int:
    """A token that is offered, the first one while nobody has chosen, or a typed one. Of several tokens one is chosen."""
    first = next(iter(offered))
    words = suggested_or_none(label, key, [*offered], visible(first), format_func=visible, width=170)
    if words is None:
        return offered[first]
    if words in offered:
        return offered[words]
    numbers = word_tokens(capture.model, words, with_blank=True, field=key)[:MAX_PIECES]
    if len(numbers) < 2:
        return one_token(capture.model, words, with_blank=True, field=key)
    pieces = {str(place): visible(text) for place, text in enumerate(token_texts(capture.model.tokenizer, numbers))}
    return numbers[int(menu("Token of this word", state.PIECES[key], pieces, width=170))]


def text_of(capture: Capture, of: AnswerRequest) -> tuple[str, str]:
    """The texts of the answer and of what it is compared with."""
    if of.token is None:
        return "the cosine", of.like or "no text"
    answer, *than = token_texts(capture.model.tokenizer, [of.token, *([] if of.than == "mean" else [of.than])])
    return answer, than[0] if than else MEAN_OF_ALL
