"""What the page Why says of an answer and of a score."""

from __future__ import annotations

from core.heads.attribution import main_pair, main_reason
from core.heads.paths import Stop
from ui import presenting
from ui.markdown import quoted
from ui.views.why.cutting import say_cuts
from ui.views.why.view import View, attribution_of, pairs_of, signed


def say(view: View) -> None:
    answer, than = map(quoted, view.texts)
    begins = "Why does it look there?" if view.path.answer is None else "Why are these texts alike?"
    presenting.title(begins if view.of.token is None else f"Why {answer}?")
    presenting.finding(_of_answer(view, answer, than) if view.stop is None else _of_score(view, view.stop), level=4)
    say_cuts(view)


def _of_answer(view: View, answer: str, than: str) -> str:
    table, size, above = attribution_of(view), *_apart(attribution_of(view).number)
    if view.of.token is not None:
        beside = "the mean of all logits" if view.of.than == "mean" else f"that of {than}"
        told, what = f"The logit of {answer} is **{size}** {above} {beside}.", "the difference"
    elif view.of.like == view.of.text.text:
        told, what = f"The cosine of this text with itself is **{size}**.", "the cosine"
    else:
        told, what = f"The cosine with {than} is **{signed(table.number)}**.", "the cosine"
    if (reason := main_reason(table)) is None:
        return told
    head, stop = main_reason(table, "head"), view.after
    told += f" {_capital(_in_words(reason.component))} {_most(table.number)}: {signed(reason.gave)}"
    if stop is None:
        return f"{told}. No head adds a tenth of {what}."
    read = f"{'looking most at' if stop.is_weights else 'read from'} {quoted(view.looked_at(stop))}"
    component = stop.hop.component
    if reason.component == component:
        return f"{told}, {read}."
    if head is not None and head.component == component:
        return f"{told}; of the heads, {component} {_most(table.number)}: {signed(stop.gave)}, {read}."
    return f"{told}. Head {component} adds {signed(stop.gave)}, {read}."


def _of_score(view: View, stop: Stop) -> str:
    head, key, (size, above) = stop.hop.component, quoted(view.looked_at(stop)), _apart(stop.score)
    scored = f"Head {head} scored {key} **{size}** {above} the mean of the other keys"
    if not stop.others:
        scored = f"Head {head} scored {key} **{signed(stop.score)}**, and may look at no other key"
    if view.side == "pairs":
        pair = main_pair(pairs_of(view, stop))
        reason = pair and (f"{_in_words(pair[0])} (query) × {_in_words(pair[1])} (key)", pair[2])
    else:
        row = main_reason(attribution_of(view))
        reason = None if row is None else (_in_words(row.component), row.gave)
    return f"{scored}." if reason is None else f"{scored}: {reason[0]} {_most(stop.score)}, {signed(reason[1])}."


def _apart(number: float) -> tuple[str, str]:
    """The size of a difference, and its direction."""
    return signed(abs(number)), "below" if number < 0 else "above"


def _most(number: float) -> str:
    """What the main reason for a number does with it."""
    return "lowers it most" if number < 0 else "adds most"


def _in_words(component: str) -> str:
    if "." in component:
        return f"head {component}"
    return component.replace("mlp", "MLP") if component[-1].isdecimal() else f"the {component}"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]
