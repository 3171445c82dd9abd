"""What-if: changes to what a model's heads do in one pass, on every architecture that can be captured.

Every edit is made where transformers hands a layer's queries, keys and values over, so that it reaches all that follows, and
nowhere in the model itself, which stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import Any

from .kinds import EDIT_KINDS, Edit, OutputOverText


@dataclass(frozen=True, repr=False)
class Edits:
    """What is changed in a pass. Edits of every kind combine: `one | other`, in which the latter wins where both set the same.

    A place is a layer's number, (layer, head), or `Place`. What says "by place" is one value for all heads, or {place: value};
    where places overlap the narrower one counts, but what is blocked in any of them is blocked.

    mute_heads    places whose heads give nothing: their own output, before W_O mixes heads, is 0
    mean_heads    places whose heads give their mean output over the tokens of the text `mean_over` instead
    patch_heads   places whose heads give what they give in a pass over the text `patch_from`, which has to have as many tokens
    scale_by      by place, a factor on the scale of the scores: 2.0 doubles it; a temperature T is scale_by=1/T
    softmax       by place, "unscaled" (a softmax of the raw scores), "hardmax" (all weight on the highest score) or "sigmoid"
                  (each key for itself: core.attention.trace.sigmoid)
    mask          by place, in the place of the model's own: a word of core.attention.masks.MASKS, with its number where it has
                  one, such as "none", "causal", "window 4"
    block_keys    by place, positions that no query may attend to
    block_pairs   by place, pairs (query, key) of positions
    pattern       by place, weights in the place of the head's own: "uniform" over all keys that a query may attend to,
                  "previous", "first" or "self" (the token before, the first one, the token itself; where that is masked or
                  missing the row stays as it is); or painted, {query: {key: share}} with shares that sum to 1, on keys that are
                  masked or blocked too, other queries as they are
    cut_paths     {(component, (layer, head, side)): "zero", "mean" or "patch"} a component, such as "16.0" or "mlp 9", that is
                  taken out of what one head reads as its "query", "key" or "value", or replaced there by its mean over all
                  tokens, or by what it is in a pass over the text `patch_from`; with the kind of attention after the side where
                  a model has several
    replace_tokens  {position: text} what the model reads instead of a token of its text: one token each

    Frozen and hashable; printed as the Python that makes them. Raises InputError for what no model could do.
    """

    mute_heads: Any = ()
    mean_heads: Any = ()
    mean_over: str | None = None
    patch_heads: Any = ()
    patch_from: str | None = None
    scale_by: Any = ()
    softmax: Any = ()
    mask: Any = ()
    block_keys: Any = ()
    block_pairs: Any = ()
    pattern: Any = ()
    cut_paths: Any = ()
    replace_tokens: Any = ()

    def __post_init__(self) -> None:
        for keyword, kind in BY_KEYWORD.items():
            object.__setattr__(self, keyword, kind.stored(kind.by_place(getattr(self, keyword))))
        _ = self.each  # checks what an edit needs under another keyword

    @cached_property
    def each(self) -> tuple[Edit, ...]:
        """Every edit by itself, in the order of the keywords."""
        return tuple(
            edit
            for keyword, kind in BY_KEYWORD.items()
            for edit in kind.each(getattr(self, keyword), getattr(self, kind.other_text, None))
        )

    @property
    def other_texts(self) -> dict[str, str]:
        """The other texts whose outputs these edits give to heads, by keyword."""
        return {edit.other_text: edit.value for edit in self.each if isinstance(edit, OutputOverText)}

    def __bool__(self) -> bool:
        """Whether anything is changed: a scale multiplied by 1 is not."""
        return any(edit.value != edit.nothing for edit in self.each)

    def __or__(self, other: Edits) -> Edits:
        together: dict[str, Any] = {}
        for keyword in _keywords():
            first, second = getattr(self, keyword), getattr(other, keyword)
            if kind := BY_KEYWORD.get(keyword):
                before, after = kind.by_place(first), kind.by_place(second)
                both = {at: kind.merged(before[at], after[at]) for at in before.keys() & after.keys()}
                together[keyword] = before | after | both
            else:
                together[keyword] = first if second is None else second
        return Edits(**together)

    def __repr__(self) -> str:
        python = {keyword: BY_KEYWORD[keyword].python if keyword in BY_KEYWORD else repr for keyword in _keywords()}
        given = (f"{keyword}={of(value)}" for keyword, of in python.items() if (value := getattr(self, keyword)))
        return f"Edits({', '.join(given)})"

    def without_tokens(self) -> Edits:
        """All edits but replaced tokens."""
        return replace(self, replace_tokens=())


def every(edits: Iterable[Edits]) -> Edits:
    """All of them as one."""
    return reduce(Edits.__or__, edits, Edits())


def _keywords() -> list[str]:
    return [field.name for field in fields(Edits)]


# The kind of each keyword, in their order, without those that name texts; the first of several reads the values of all.
_FIRST = {kind.keyword: kind for kind in reversed(EDIT_KINDS)}
BY_KEYWORD: dict[str, type[Edit]] = {keyword: _FIRST[keyword] for keyword in _keywords() if keyword in _FIRST}
