"""Where an edit is made, in Python and in the words of a line: in heads, `Place(5, 11)`, "5.11"; or on the path from a
component into a head, `Path("16.0", Place(18, 6), "key")`, "16.0 from the key of 18.6"."""

from numbers import Integral
from string import ascii_lowercase
from typing import Any, Literal, NamedTuple, get_args

from ...errors import InputError, edits_error, shortened
from ...models.modules import Kind

Side = Literal["query", "key", "value"]


class Place(NamedTuple):
    """The heads that an edit is made in: one head, those of a layer, or all.

    layer, head  from 0; None: all
    kind         which attention, in a model that has several; None: every kind that reads texts if it is every layer, else the
                 first of these
    """

    layer: int | None = None
    head: int | None = None
    kind: Kind | None = None

    def covers(self, kind: Kind, layer: int, head: int, first: Kind) -> bool:
        """Whether this head is one of them. first: the first kind of the pass, as `first_of` says."""
        own = kind if self.kind is None and self.layer is None and kind != "vision" else self.kind or first
        return kind == own and self.layer in (None, layer) and self.head in (None, head)

    @property
    def narrowness(self) -> int:
        """How many of layer, head and kind are given. If two places cover a head, the narrower one counts."""
        return sum(part is not None for part in self)

    @property
    def words(self) -> str:
        """The place as a line has it: "5", "5.11", "cross 5.11", ".11", "all"."""
        layer = "" if self.layer is None else str(self.layer)
        head = "" if self.head is None else f".{self.head}"
        return f"{self.kind or ''} {layer}{head}".strip() or "all"

    def __repr__(self) -> str:
        """The shortest Python for it: 5, (5, 11), Place(5, 11, kind="cross")."""
        if self.kind is None and self.layer is not None:
            return repr(self.layer) if self.head is None else f"({self.layer}, {self.head})"
        given = [f"{name}={value!r}" for name, value in self._asdict().items() if value is not None]
        return f"Place({', '.join(given)})"


EVERYWHERE = Place()


def place_of(where: Any) -> Place:
    """The `Place` for a layer, (layer, head), a `Place`, or None for all heads. Raises InputError for anything else."""
    match where:
        case Place():
            place = where
        case None:
            place = EVERYWHERE
        case Integral() as layer:
            place = Place(int(layer))
        case (Integral() as layer, Integral() as head):
            place = Place(int(layer), int(head))
        case _:
            raise InputError(f"{where!r} is not a place: give a layer, or (layer, head).", field="layer")
    for number, name in ((place.layer, "layer"), (place.head, "head")):
        if number is not None and number < 0:
            raise InputError(f"There is no {name} {number}: they count from 0.", field=name)
    return place


def in_order(at: Place | int) -> tuple:
    """A key for sorting places, or positions. None comes first."""
    return tuple((part is not None, part) for part in (at if isinstance(at, Place) else (at,)))


class PathIntoHead(NamedTuple):
    """What a head reads of a component as its query, key or value.

    component  its name, as in core.capturing.components.written.Component
    place      of one head
    """

    component: str
    place: Place
    side: Side

    def __repr__(self) -> str:
        """The Python for it: ('16.0', (18, 6, 'key')), with the kind of attention at the end if it is given."""
        kind = () if self.place.kind is None else (self.place.kind,)
        return repr((self.component, (self.place.layer, self.place.head, self.side, *kind)))


def path_of(where: Any) -> PathIntoHead:
    """The `PathIntoHead` for (component, (layer, head, side)), with the kind of attention after the side if there is any.
    Raises InputError for anything else."""
    component: Any = None
    side: Any = None
    place = EVERYWHERE
    match where:
        case PathIntoHead(component, at, side):
            place = place_of(at)
        case (component, (Integral() as layer, Integral() as head, side)):
            place = place_of((layer, head))
        case (component, (Integral() as layer, Integral() as head, side, kind)) if kind in get_args(Kind):
            place = place_of(Place(int(layer), int(head), kind))
    is_head = place.layer is not None and place.head is not None
    if not is_head or side not in get_args(Side) or not isinstance(component, str) or not component.strip():
        raise edits_error(
            f"{shortened(repr(where))} is not a path into a head: give a component and (layer, head, side), such as "
            f'("16.0", (18, 6, "key")). The side is one of {", ".join(get_args(Side))}.'
        )
    return PathIntoHead(" ".join(component.split()), place, side)


def read_place(words: str) -> Place:
    """The place that a line names, "" for all heads. Raises InputError for words that name no place, ValueError for numbers
    that are too long."""
    words = words.strip()
    numbers = words.lstrip(ascii_lowercase)
    kind = words[: len(words) - len(numbers)]
    layer, *head = numbers.strip().split(".", 1)
    if words == "all":
        return EVERYWHERE
    if kind not in ("", *get_args(Kind)) or not all(number.isdecimal() for number in (layer or "0", *head)):
        why = f"“{shortened(words)}” is not a place: write a layer such as 5, or a layer and a head such as 5.11."
        raise edits_error(why)
    known: Any = kind or None
    return Place(int(layer) if layer else None, int(head[0]) if head else None, known)


def looks_like_a_place(*words: str) -> bool:
    """Whether the words are letters followed by numbers, in one word or in two."""
    *kinds, numbers = words
    numbers = numbers if kinds else numbers.lstrip(ascii_lowercase)
    return not "".join(kinds).strip(ascii_lowercase) and all(sign == "." or sign.isdecimal() for sign in numbers)
