"""What-if: changes to what a model's heads do in one pass, on every architecture that can be captured.

Every edit is made where transformers hands a layer's queries, keys and values over, so that it reaches all that follows, and
nowhere in the model itself, which stays as it is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import groupby
from operator import attrgetter
from typing import Any, Self

from ..calls.head_places import EVERYWHERE, in_order
from .edit import Edit
from .kinds import EDIT_KINDS, CutPath, OutputEdit, OutputOverText, Paint, ReplaceToken


@dataclass(frozen=True, init=False, repr=False)
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

    Frozen and hashable; printed as the Python that makes them. Raises InputError for what no model could do. The edits
    themselves are in `each`, in the order of the keywords.
    """

    each: tuple[Edit, ...]

    def __init__(
        self,
        mute_heads: Any = (),
        mean_heads: Any = (),
        mean_over: str | None = None,
        patch_heads: Any = (),
        patch_from: str | None = None,
        scale_by: Any = (),
        softmax: Any = (),
        mask: Any = (),
        block_keys: Any = (),
        block_pairs: Any = (),
        pattern: Any = (),
        cut_paths: Any = (),
        replace_tokens: Any = (),
    ) -> None:
        given = locals()
        kinds = [(kind, given[keyword]) for keyword, kind in BY_KEYWORD.items() if not _is_nothing(given[keyword])]
        each = (edit for kind, value in kinds for edit in kind.given(value, given.get(kind.other_text)))
        object.__setattr__(self, "each", _together(each))

    @classmethod
    def of(cls, each: Iterable[Edit]) -> Self:
        """These edits together. Of two that set the same the latter wins; those that read another text read the latter's."""
        edits = cls()
        object.__setattr__(edits, "each", _together(each))
        return edits

    def __bool__(self) -> bool:
        """Whether anything is changed: a scale multiplied by 1 is not."""
        return any(edit.value != edit.nothing for edit in self.each)

    def __or__(self, other: Self) -> Self:
        return self.of((*self.each, *other.each))

    def __repr__(self) -> str:
        given = {keyword: _python(tuple(each)) for keyword, each in groupby(self.each, attrgetter("keyword"))}
        given |= {keyword: repr(text) for keyword, text in self.texts.items()}
        return f"Edits({', '.join(f'{keyword}={given[keyword]}' for keyword in KEYWORDS if keyword in given)})"

    @property
    def texts(self) -> dict[str, str]:
        """The other texts that these edits read, by keyword."""
        return {edit.other_text: edit.text for edit in self.each if edit.text is not None}

    @property
    def other_texts(self) -> dict[str, str]:
        """The other texts whose outputs these edits give to heads, by keyword."""
        return {edit.other_text: edit.value for edit in self.each if isinstance(edit, OutputOverText)}

    @property
    def cuts(self) -> tuple[CutPath, ...]:
        """The paths that are cut."""
        return tuple(edit for edit in self.each if isinstance(edit, CutPath))

    @property
    def tokens(self) -> dict[int, str]:
        """What the model reads instead of tokens of its text, by their positions."""
        return {edit.at: edit.value for edit in self.each if isinstance(edit, ReplaceToken)}

    def without_tokens(self) -> Self:
        """All edits but replaced tokens."""
        return self.of(edit for edit in self.each if not isinstance(edit, ReplaceToken))


def every(edits: Iterable[Edits]) -> Edits:
    """All of them as one."""
    return Edits.of(edit for some in edits for edit in some.each)


KEYWORDS = tuple(signature(Edits).parameters)
# The kind of each keyword, in their order, without those that name texts; the first of several reads the values of all.
_FIRST = {kind.keyword: kind for kind in reversed(EDIT_KINDS)}
BY_KEYWORD: dict[str, type[Edit]] = {keyword: _FIRST[keyword] for keyword in KEYWORDS if keyword in _FIRST}


def _is_nothing(given: Any) -> bool:
    return isinstance(given, tuple) and not given


def _together(each: Iterable[Edit]) -> tuple[Edit, ...]:
    """One edit of each keyword and place, in the order of the keywords and places."""
    found: dict[tuple[str, Any], Edit] = {}
    texts: dict[str, str] = {}
    for edit in each:
        own = edit.keyword, edit.at
        found[own] = found[own].joined(edit) if own in found else edit
        texts |= {} if edit.text is None else {edit.other_text: edit.text}
    order = list(BY_KEYWORD)
    together = sorted(found.values(), key=lambda edit: (order.index(edit.keyword), edit.order))
    return tuple(edit.reading(texts) for edit in together if not _is_nothing(edit.value))


def _python(each: Sequence[Edit]) -> str:
    """What these edits of one keyword are in Python."""
    if isinstance(each[0], OutputEdit):
        return f"{{{', '.join(map(repr, sorted((edit.at for edit in each), key=in_order)))}}}"
    values = (edit.rows if isinstance(edit, Paint) else edit.value for edit in each)
    by_place = {
        edit.at: set(value) if isinstance(value, tuple) else value for edit, value in zip(each, values, strict=True)
    }
    # A dictionary for all heads would look like one by place.
    is_alone = by_place.keys() == {EVERYWHERE} and not isinstance(by_place[EVERYWHERE], dict)
    return repr(by_place[EVERYWHERE] if is_alone else by_place)
