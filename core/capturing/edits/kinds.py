"""The kinds of edits: one class for each change that can be made in a pass.

An edit checks itself when it is made. Its class holds everything about its kind: the keyword of `Edits`, the line of text, the
change in a head, and the fields of the form.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, cast, get_args

import numpy as np

from ...attention.masks import MASKS, Predicate
from ...errors import InputError, edits_error, shortened
from ..calls.edited_call import PATTERNS, Cut, HeadEdit
from ..calls.head_places import PathIntoHead, Place, Side, in_order, path_of, place_of, read_place
from . import forms
from .edit import (
    Edit,
    HeadInPass,
    cells_in_words,
    even_shares,
    in_ranges,
    position,
    quoted,
    read_cells,
    read_ranges,
    text_for,
    with_text,
)

SoftmaxName = Literal["softmax", "unscaled", "hardmax", "sigmoid"]
SOFTMAXES: tuple[SoftmaxName, ...] = get_args(SoftmaxName)
FARTHEST = 2**31  # no text is as long: with a larger number a mask stays the same
DIGITS = 11  # of a mask's number that are read: any number with more is beyond `FARTHEST`
TOLERANCE = 1e-6  # largest difference between 1 and the sum of a painted row


# --- other scores, another mask, other weights


class Scale(Edit):
    """A factor on the scale of the scores; a temperature T is the factor 1/T."""

    keyword, verb, example = "scale_by", "scale", "scale 2 at 5"
    label = "Scale the scores"
    fields = (forms.NumberField("factor", "times", 2.0, step=0.5, width=130),)
    nothing = 1.0

    @classmethod
    def checked(cls, value: Any) -> float:
        if not np.isfinite(value):
            raise InputError(f"The scale cannot be multiplied by {value}; a finite number is needed.", field="scale")
        return float(value)

    @classmethod
    def read(cls, words: str) -> float:
        return float(words)

    @property
    def words(self) -> tuple[str, ...]:
        short = f"{self.value:g}"
        return (short if float(short) == self.value else repr(self.value),)

    def apply(self, head: HeadInPass) -> HeadEdit:
        return replace(head.edit, scale_by=self.value)


class Softmax(Edit):
    """Another function from scores to weights: a softmax without scaling, a hardmax, or a sigmoid of each score."""

    keyword, verb, example = "softmax", "softmax", "softmax hardmax at 5"
    label = "Another softmax"
    _names: ClassVar = {
        "unscaled": "without scaling",
        "hardmax": "hardmax: all on the highest",
        "sigmoid": "sigmoid: each key for itself",
    }
    fields = (forms.ChoiceField("softmax", "Softmax", _names, width=230),)
    nothing = "softmax"

    @classmethod
    def checked(cls, value: Any) -> SoftmaxName:
        if value not in SOFTMAXES:
            why = f"There is no softmax {shortened(repr(value))}: choose {', '.join(SOFTMAXES)}."
            raise InputError(why, field="softmax")
        return value

    def apply(self, head: HeadInPass) -> HeadEdit:
        unscaled = self.value == "unscaled"
        return replace(head.edit, unscaled=unscaled, weighing="softmax" if unscaled else self.value)


class Mask(Edit):
    """A mask in the place of the model's own."""

    keyword, verb, example = "mask", "mask", "mask window 4 at 5"
    label = "Another mask"
    _names: ClassVar = {word: mask.name for word, mask in MASKS.items() if word != "padding"}
    _numbers: ClassVar = {
        word: forms.WholeNumberField("span", mask.number, 4, 1, 4096, width=110)
        for word, mask in MASKS.items()
        if mask.number
    }
    fields = (forms.ChoiceField("mask", "Mask", _names, width=160, then=_numbers),)

    @classmethod
    def checked(cls, value: Any) -> str:
        cls.predicate(value, 1)
        return str(value)

    @staticmethod
    def predicate(value: str, keys: int) -> Predicate:
        """The mask that is called so, such as "window 4", for a number of keys. Raises InputError if there is none."""
        word, _, number = str(value).partition(" ")
        mask = MASKS.get(word)
        if mask is None or (mask.number is not None) != number.isdecimal():
            words = ", ".join(word if of.number is None else f"{word} 4" for word, of in MASKS.items())
            raise InputError(
                f"There is no mask {shortened(repr(str(value)))}: choose one of {words}, with any number.", field="mask"
            )
        size = 0 if mask.number is None else int(number.lstrip("0")[:DIGITS] or "0")
        return mask.predicate(min(size, FARTHEST), keys)

    def apply(self, head: HeadInPass) -> HeadEdit:
        return replace(head.edit, mask=self.predicate(self.value, head.call.key.shape[2]))


class Block(Edit):
    """Positions that are blocked in all places that cover a head."""

    of_text = ""

    def joined(self, later: Edit) -> Edit:
        return type(self)(self.at, (*self.value, *later.value))

    def apply(self, head: HeadInPass) -> HeadEdit:
        return replace(head.edit, blocked=(*head.edit.blocked, *self.positions))


class BlockKeys(Block):
    """No query may attend to these keys, not even their own."""

    keyword, verb, example = "block_keys", "block key", "block key 3 at 5.11"
    label = "Block the chosen key"
    fields = (forms.ChosenKey(),)

    @property
    def words(self) -> tuple[str, ...]:
        return (in_ranges(self.value),) if self.value else ()

    @classmethod
    def checked(cls, value: Any) -> tuple[int, ...]:
        return tuple(sorted({position(key) for key in ([value] if isinstance(value, Integral) else value)}))

    @classmethod
    def read(cls, words: str) -> set[int]:
        return read_ranges(words)

    @property
    def positions(self) -> Iterable[tuple[int, int]]:
        return ((-1, key) for key in self.value)


class BlockPairs(Block):
    """These queries may not attend to these keys."""

    keyword, verb, example = "block_pairs", "block pair", "block pair 10>2 at 5.11"
    label = "Block the chosen pair"
    fields = (forms.ChosenPair(),)

    @property
    def words(self) -> tuple[str, ...]:
        """Each pair is a line of its own."""
        return tuple(f"{query}>{key}" for query, key in self.value)

    @classmethod
    def checked(cls, value: Any) -> tuple[tuple[int, int], ...]:
        return tuple(sorted({(position(query), position(key)) for query, key in value}))

    @classmethod
    def read(cls, words: str) -> set[tuple[int, int]]:
        query, _, key = words.partition(">")
        return {(int(query), int(key))}

    @property
    def positions(self) -> Iterable[tuple[int, int]]:
        return self.value


class Pattern(Edit):
    """Weights by a rule in place of the head's own. Painted weights have the same keyword: see `Paint`."""

    keyword, verb, example = "pattern", "pattern", "pattern previous at 5.11"
    label = "A fixed pattern"
    _names: ClassVar = dict(zip(PATTERNS, ("even", "previous token", "first token", "the token itself"), strict=True))
    fields = (forms.ChoiceField("pattern", "Attend to", _names, width=180),)

    @classmethod
    def checked(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return Paint.checked(value)
        if value not in PATTERNS:
            why = f"There is no pattern {shortened(repr(value))}: choose {', '.join(PATTERNS)}, or paint one."
            raise InputError(why, field="pattern")
        return value

    @classmethod
    def given(cls, value: Any, text: str | None) -> Iterator[Edit]:
        return (
            edit if isinstance(edit.value, str) else Paint(edit.at, edit.value) for edit in super().given(value, text)
        )

    def apply(self, head: HeadInPass) -> HeadEdit:
        return replace(head.edit, pattern=self.value, painted={})  # replaces the weights of a wider place


class Paint(Pattern):
    """Whole rows of weights: for some queries, the share of each key."""

    verb, example = "paint", "paint 10>2=0.7 10>3=0.3 at 5.11"
    label = "Paint shares"
    fields = (forms.CellsField("cells", "query>key=share, with blanks between", "{query}>{key}=0.5 {query}>0=0.5"),)
    of_text = ""

    @classmethod
    def checked(cls, value: Any) -> tuple:
        rows = {}
        for query, shares in dict(value).items():
            row = {position(key): float(share) for key, share in dict(shares).items() if share}
            total = sum(row.values())
            if not all(0 <= share <= 1 + TOLERANCE for share in row.values()) or abs(total - 1) > TOLERANCE:
                raise InputError(
                    f"The painted row of query {query} sums to {total:.6g}; its shares have to lie between 0 and 1 and sum to "
                    f"1. Divide each by {total:.6g}, or correct one.",
                    field="pattern",
                )
            rows[position(query)] = tuple(sorted(row.items()))
        return tuple(sorted(rows.items()))

    @classmethod
    def read(cls, words: str) -> dict[int, dict[int, float]]:
        return {query: even_shares(row) for query, row in read_cells(words).items()}

    @property
    def words(self) -> tuple[str, ...]:
        return (cells_in_words(self.rows),)

    @property
    def rows(self) -> dict[int, dict[int, float]]:
        """query -> key -> share."""
        return {query: dict(row) for query, row in self.value}

    def joined(self, later: Edit) -> Edit:
        return Paint(self.at, self.rows | later.rows) if isinstance(later, Paint) else later

    def apply(self, head: HeadInPass) -> HeadEdit:
        return replace(head.edit, painted={**head.edit.painted, **self.rows})

    @property
    def positions(self) -> Iterable[tuple[int, int]]:
        return ((query, key) for query, row in self.value for key, _ in row)


# --- edits whose lines begin with the place: another output of a head, another token


class PlaceFirst(Edit):
    """An edit in a line such as "mean 23.4 over "a text"".

    joint    the words between the place and the text; None if there is no text
    read_at  reads the place
    """

    joint: ClassVar[str | None] = None
    read_at: ClassVar[Callable[[str], Any]] = read_place

    @classmethod
    def parse(cls, words: str, place: str | None) -> Self:
        if place is not None:
            raise ValueError(place)
        if cls.joint is None:
            return cls(cls.read_at(words))
        at, text = with_text(words)
        return cls(cls.read_at(at), text)

    @classmethod
    def line_of(cls, words: str, at: Any) -> str:
        text = "" if cls.joint is None else f"{cls.joint}{quoted(words)}"
        return f"{cls.verb} {at.words if isinstance(at, Place) else at}{text}"


class OutputEdit(PlaceFirst):
    """Another output of some heads. The keyword of `Edits` takes a set of places."""

    @classmethod
    def given(cls, value: Any, text: str | None) -> Iterator[Edit]:
        if isinstance(value, tuple) and len(value) == 2 and all(isinstance(number, Integral) for number in value):
            layer, head = value
            raise InputError(
                f"{cls.keyword} takes several places: write {{({layer}, {head})}} for one head, {{{layer}, {head}}} for two "
                f"layers.",
                field="layer",
            )
        return (cls(place_of(where), text) for where in value)

    @property
    def order(self) -> Any:
        return self.at.words


class Mute(OutputEdit):
    """The output of the head, before W_O mixes heads, is 0."""

    keyword, verb, example = "mute_heads", "mute", "mute 23.4"
    label = "Mute"
    rank = 3

    def apply(self, head: HeadInPass) -> HeadEdit:
        return replace(head.edit, output=head.call.output.new_zeros(1, head.call.output.shape[3]))


class OutputOverText(OutputEdit):
    """An output taken from a pass over another text, the same text for all edits of the kind.

    clash  the beginning of an error about a second text
    """

    clash: ClassVar[str]

    @classmethod
    def checked(cls, value: Any) -> str:
        return text_for(cls, value)

    @property
    def text(self) -> str | None:
        return self.value

    def reading(self, texts: Mapping[str, str]) -> Self:
        return replace(self, value=texts[self.other_text])

    def apply(self, head: HeadInPass) -> HeadEdit:
        return replace(head.edit, output=head.outputs[self.other_text])


class Mean(OutputOverText):
    """The output of the head is its mean over the tokens of another text."""

    keyword, other_text = "mean_heads", "mean_over"
    verb, joint, example = "mean", " over ", 'mean 23.4 over "a text"'
    clash = "Means are taken over"
    label = "Its mean over a text"
    fields = (forms.TextField("text", "Reference text"),)
    rank = 1

    def apply(self, head: HeadInPass) -> HeadEdit:
        return replace(head.edit, output=head.outputs[self.other_text].mean(dim=0, keepdim=True))


class Patch(OutputOverText):
    """The output of the head is that over another text, token by token."""

    keyword, other_text = "patch_heads", "patch_from"
    verb, joint, example = "patch", " from ", 'patch 23.4 from "a text"'
    clash = "Patches are taken from"
    label = "What it gives in another text"
    fields = (forms.TextField("text", "Other text, with as many tokens"),)
    of_text = ""
    rank = 2


class ReplaceToken(PlaceFirst):
    """Another token in place of one of the text, whose position is the place."""

    keyword, verb, example = "replace_tokens", "token", 'token 3 "dog"'
    joint, read_at = " ", int
    of_text = ""

    @classmethod
    def given(cls, value: Any, text: str | None) -> Iterator[Edit]:  # noqa: ARG003 - it reads none
        return (cls(position(at), str(token)) for at, token in dict(value).items())


@dataclass(frozen=True)
class CutPath(Edit):
    """A component is taken out of what one head reads as its query, key or value; the norm before it is computed anew.

    This is path patching (Wang et al. 2022, https://arxiv.org/abs/2211.00593).

    from_text  the other text, if it is patched
    """

    from_text: str | None = None

    keyword, other_text = "cut_paths", "patch_from"
    verb, example = "cut", "cut 16.0 from the key of 18.6"
    label = "Cut a path"
    of_one_head = True
    of_text = ' as in "'
    fields = (
        forms.ComponentField("component", "Component"),
        forms.ChoiceField("side", "From", {side: f"from the {side}" for side in get_args(Side)}, width=150),
        forms.ChoiceField(
            "instead",
            "Instead",
            {"zero": "leaving nothing", "mean": "leaving its mean", "patch": "as in another text"},
            width=190,
            then={"patch": forms.TextField("text", "Other text, with as many tokens")},
        ),
    )
    field = "edits"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value == "patch":
            text_for(CutPath, self.from_text)

    @classmethod
    def checked(cls, value: Any) -> Cut:
        if value not in get_args(Cut):
            raise edits_error(f"A path cannot be cut to {shortened(repr(value))}: choose {', '.join(get_args(Cut))}.")
        return value

    @classmethod
    def parse(cls, words: str, place: str | None) -> Self:
        before, text = with_text(words) if '"' in words else (words, None)
        component, _, head = before.partition(" from the ")
        side, of, where = head.partition(" of ")
        if place is not None or not of:
            raise ValueError(words)
        cut = "patch" if text is not None else "mean" if component.endswith(" mean") else "zero"
        name = component.removesuffix(" mean") if cut == "mean" else component
        return cls(path_of(PathIntoHead(name, read_place(where), cast(Side, side))), cut, text)

    @classmethod
    def line_of(cls, words: str, at: Any) -> str:
        cut, _, text = words.partition(" ")
        mean, there = " mean" if cut == "mean" else "", f" as in {quoted(text)}" if cut == "patch" else ""
        return f"{cls.verb} {at.component}{mean} from the {at.side} of {at.place.words}{there}"

    @classmethod
    def line_of_form(cls, words: Sequence[str], place: Place) -> str:
        component, side, cut = words
        return cls.line_of(cut, PathIntoHead(component, place, cast(Side, side)))

    @property
    def words(self) -> tuple[str, ...]:
        return (self.value if self.text is None else f"{self.value} {self.text}",)

    @property
    def text(self) -> str | None:
        return self.from_text

    def reading(self, texts: Mapping[str, str]) -> Self:
        return replace(self, from_text=texts[self.other_text]) if self.value == "patch" else self

    @classmethod
    def given(cls, value: Any, text: str | None) -> Iterator[Edit]:
        if isinstance(value, str):
            raise edits_error('cut_paths takes paths with what is left of each: {("16.0", (18, 6, "key")): "zero"}.')
        return (cls(path_of(path), cut, text if cut == "patch" else None) for path, cut in dict(value).items())

    @property
    def order(self) -> Any:
        return in_order(self.at.place), self.at

    @property
    def place(self) -> Place:
        return self.at.place

    def apply(self, head: HeadInPass) -> HeadEdit:
        return replace(head.edit, cuts={**head.edit.cuts, self.at: self.value})


# All of them, in the order of the menu.
EDIT_KINDS: tuple[type[Edit], ...] = (
    *(Mute, Scale, Mask, BlockKeys, BlockPairs, Pattern, Softmax, Mean, Patch, Paint, CutPath, ReplaceToken),
)
