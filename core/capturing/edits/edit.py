"""What every edit is: a value for a place, its line of text, its fields of a form, and its change of a head.

And the words that lines of several kinds have in common: ranges of keys, "3 5-8", painted cells, "10>2=0.7 10>3=0.3", and texts
in quotes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any, ClassVar, Self

from torch import Tensor

from ...errors import InputError, edits_error
from ...models.calls import Call
from ..calls.edited_call import HeadEdit
from ..calls.head_places import EVERYWHERE, Place, in_order, place_of, read_place
from . import forms

MAX_CELLS = 500  # that one line may paint: more than the address of a link holds
MAX_KEYS = 20_000  # that one line may block


@dataclass(frozen=True, eq=False)
class HeadInPass:
    """A head of an attention call, in a pass that is being edited.

    edit     the changes so far
    outputs  of this head in passes over other texts, [tokens, d_v], by the keyword of `Edits` that names the text
    """

    call: Call
    edit: HeadEdit
    outputs: Mapping[str, Tensor]


@dataclass(frozen=True)
class Edit:
    """One change of a pass: by default a value for the heads of a place, in a line such as "scale 2 at 5".

    at          the place; for another token its position in the text; for a cut the path
    value       in the form that `checked` returns

    keyword     the keyword of `Edits` for edits of this kind
    other_text  the keyword of `Edits` for another text that they may read; empty if they read none
    verb        the first word of a line, or its first two words
    example     an example of a line
    label       the name in a menu; empty if no menu offers this kind
    fields      the fields of its form
    of_one_head whether its place is always one head
    of_text     what stands in a line that names positions in the text, or another text with as many tokens, and so means
                nothing for other texts; "": every line of this kind is one; None: no line is
    nothing     the value that changes nothing, and only cancels that of a wider place
    rank        among edits that replace the output of a head the highest rank counts
    field       the field of an error about its place; None: "kind", "layer" or "head"
    """

    at: Any
    value: Any = None

    keyword: ClassVar[str]
    other_text: ClassVar[str] = ""
    verb: ClassVar[str]
    example: ClassVar[str]
    label: ClassVar[str] = ""
    fields: ClassVar[tuple[forms.Field, ...]] = ()
    of_one_head: ClassVar[bool] = False
    of_text: ClassVar[str | None] = None
    nothing: ClassVar[Any] = ()
    rank: ClassVar[int] = 0
    field: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", self.checked(self.value))

    @classmethod
    def checked(cls, value: Any) -> Any:
        """The value in its one form. Raises InputError for a value that no model can use."""
        return value

    # --- lines

    @classmethod
    def read(cls, words: str) -> Any:
        """The value in the words of a line."""
        return words

    @classmethod
    def parse(cls, words: str, place: str | None) -> Self:
        """The edit of a line: the words between its verb and its place, and the place at its end, if there is one. Raises
        ValueError, KeyError or TypeError for words that cannot be read, InputError for a value that no model can use."""
        return cls(read_place(place or ""), cls.read(words))

    @classmethod
    def line_of(cls, words: str, at: Any) -> str:
        """The line with these words at a place; the words are not checked. A text is given without quotes."""
        return f"{cls.verb} {words}" + ("" if at == EVERYWHERE else f" at {at.words}")

    @classmethod
    def line_of_form(cls, words: Sequence[str], place: Place) -> str:
        """The line that a form says. words: of each of its fields"""
        return cls.line_of(" ".join(words), place)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of each of its lines."""
        return (self.value,)

    # --- among the other edits of an `Edits`

    @classmethod
    def given(cls, value: Any, text: str | None) -> Iterator["Edit"]:  # noqa: ARG003 - some kinds read one
        """Its edits from the keyword of `Edits`; text: that of `other_text`. Raises InputError for what no model can do."""
        by_place = value if isinstance(value, Mapping) else {EVERYWHERE: value}
        return (cls(place_of(where), own) for where, own in by_place.items())

    @property
    def order(self) -> Any:
        """The key by which edits of one keyword are sorted."""
        return in_order(self.at)

    def joined(self, later: "Edit") -> "Edit":
        """This edit and a later one for the same place as one: by default the later one."""
        return later

    @property
    def text(self) -> str | None:
        """The other text that it reads."""
        return None

    def reading(self, texts: Mapping[str, str]) -> Self:  # noqa: ARG002 - some kinds read one
        """The edit with the other text of its keyword."""
        return self

    # --- in a pass

    @property
    def place(self) -> Place | None:
        """The heads that it covers; None: it changes what the model reads."""
        return self.at if isinstance(self.at, Place) else None

    def apply(self, head: HeadInPass) -> HeadEdit:
        """The changes of a head that this edit covers, this edit included."""
        return head.edit

    @property
    def positions(self) -> Iterable[tuple[int, int]]:
        """The (query, key) that it names; query -1 is every query."""
        return ()


# --- words


def read_ranges(words: str) -> set[int]:
    """The positions in words such as "3 5-8". Raises InputError for too many, ValueError for other words."""
    ends = [(word, word[1:].partition("-")) for word in words.split()]  # the first letter may be a sign
    ranges = [range(int(word[:1] + rest), int(last if dash else word) + 1) for word, (rest, dash, last) in ends]
    if not all(ranges):
        raise ValueError(words)
    if (count := sum(part.stop - part.start for part in ranges)) > MAX_KEYS:
        raise edits_error(
            f"One change blocks at most {MAX_KEYS:,} keys, and this one {count:,}. Block further ones in another change."
        )
    return {position for part in ranges for position in part}


def in_ranges(positions: Sequence[int]) -> str:
    """Positions in ascending order in words, as `read_ranges` reads them."""
    gaps = [(before, after) for before, after in pairwise(positions) if after > before + 1]
    starts, ends = [positions[0], *(after for _, after in gaps)], [*(before for before, _ in gaps), positions[-1]]
    return " ".join(str(start) if start == end else f"{start}-{end}" for start, end in zip(starts, ends, strict=True))


def read_cells(words: str) -> dict[int, dict[int, float | None]]:
    """The cells in the words of a line that paints: query -> key -> share, None in a row that is shared evenly.

    The shares need not sum to 1. Raises InputError for too many cells, ValueError for other words.
    """
    if (count := words.count(">")) > MAX_CELLS:
        raise edits_error(
            f"One change paints at most {MAX_CELLS} cells, and this one {count:,}. Paint further ones in another change."
        )
    rows: dict[int, dict[int, float | None]] = {}
    for word in words.split():
        query, _, rest = word.partition(">")
        key, equals, share = rest.partition("=")
        if not (query.isdecimal() and key.isdecimal()):
            raise ValueError(word)
        rows.setdefault(int(query), {})[int(key)] = _share(share) if equals else None
    if not rows:
        raise ValueError(words)
    return rows


def cells_in_words(rows: Mapping[int, Mapping[int, float | None]]) -> str:
    """The cells in words, as `read_cells` reads them."""
    return " ".join(
        f"{query}>{key}" + ("" if share is None else f"={share:.10g}")
        for query, row in sorted(rows.items())
        for key, share in sorted(row.items())
    )


def even_shares(row: Mapping[int, float | None]) -> dict[int, float]:
    """The row, with equal shares in place of None."""
    return {key: 1 / len(row) if share is None else share for key, share in row.items()}


def _share(text: str) -> float:
    share = float(text)
    if not isfinite(share) or "_" in text:  # which float() takes
        raise ValueError(text)
    return share


def text_for(kind: type[Edit], text: str | None) -> str:
    """The other text that an edit reads. Raises InputError if there is none."""
    if not (text or "").strip():
        raise InputError(f"The change “{kind.verb}” needs another text to read.", field=kind.other_text)
    return text or ""


def with_text(words: str) -> tuple[str, str]:
    """What is before a text at the end of a line, without the word that leads to it, and the text."""
    before, quote, rest = words.partition('"')
    text = json.loads(quote + rest)
    text.encode()  # half of a pair of surrogates cannot be written
    return before.rstrip().removesuffix("over").removesuffix("from").removesuffix("as in"), text


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def position(value: Any) -> int:
    if int(value) != value or value < 0:
        raise edits_error(f"There is no position {value}: tokens count from 0.")
    return int(value)
