"""What-if: changes to what a model's heads do in one pass, on every architecture that can be captured.

Every edit is made where transformers hands a layer's queries, keys and values over, so that it reaches all that follows, and
nowhere in the model itself, which stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import reduce
from numbers import Integral
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..attention.masks import MASKS, Predicate
from ..errors import InputError, shortened
from ..models.calls import Call
from ..models.modules import Kind
from .edited import EditedCall, HeadEdit, Pattern
from .rows import edited_output

Softmax = Literal["softmax", "unscaled", "hardmax", "sigmoid"]
SOFTMAXES: tuple[Softmax, ...] = get_args(Softmax)
# Fixed patterns by name: the key that gets all of a query's attention, from their positions; None: all it may look at.
PATTERNS: dict[str, Callable[[NDArray[np.integer]], NDArray[np.integer]] | None] = {
    "uniform": None,
    "previous": lambda query: np.maximum(query - 1, 0),
    "first": lambda query: np.zeros_like(query),
    "self": lambda query: query,
}
FARTHEST, DIGITS = (
    2**31,
    11,
)  # a position that no text has: a mask's number beyond, or of as many digits, is as good as this
SUM = 1e-6  # by how much the shares of a painted row may miss 1


class Place(NamedTuple):
    """Which heads an edit is made in: one, those of a layer, or all.

    layer, head  from 0; None: all
    kind         which attention, where a model has several; None: every kind if it is every layer, else the first
    """

    layer: int | None = None
    head: int | None = None
    kind: Kind | None = None

    def covers(self, kind: Kind, layer: int, head: int, first: Kind) -> bool:
        is_of_every_kind = self.kind is None and self.layer is None
        if not is_of_every_kind and kind != (self.kind or first):
            return False
        return self.layer in (None, layer) and self.head in (None, head)

    def __repr__(self) -> str:
        """As short as it can be written: 5, (5, 11), Place(5, 11, kind="cross")."""
        if self.kind is None and self.layer is not None:
            return repr(self.layer) if self.head is None else f"({self.layer}, {self.head})"
        given = [f"{name}={value!r}" for name, value in self._asdict().items() if value is not None]
        return f"Place({', '.join(given)})"


EVERYWHERE = Place()
Outputs = Callable[[Kind, int], Tensor]
Where = Place | int | tuple[int, int] | None


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
                  "previous", "first" or "self" (the token before, the first one, the token itself; where that is masked the row
                  stays as it is); or painted, {query: {key: share}} with shares that sum to 1, on keys that are masked or
                  blocked too, other queries as they are
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
    replace_tokens: Any = ()

    def __post_init__(self) -> None:
        for name in ("mute_heads", "mean_heads", "patch_heads"):
            self._set(name, frozenset(map(_place, _several(name, getattr(self, name)))))
        for name, value_of in _BY_PLACE.items():
            by_place = _by_place(getattr(self, name), value_of)
            self._set(name, tuple((place, value) for place, value in by_place if value != ()))
        self._set(
            "replace_tokens",
            tuple(sorted((_position(at), str(text)) for at, text in dict(self.replace_tokens).items())),
        )
        for heads, text in (("mean_heads", "mean_over"), ("patch_heads", "patch_from")):
            if getattr(self, heads) and not (getattr(self, text) or "").strip():
                raise InputError(f"{heads} needs a text to read: give it as {text}.", field=text)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __bool__(self) -> bool:
        """Whether anything is changed: a scale multiplied by 1 is not."""
        by_place = any((name, value) not in _NOTHING for name in _BY_PLACE for _, value in getattr(self, name))
        return by_place or bool(self.mute_heads or self.mean_heads or self.patch_heads or self.replace_tokens)

    def __or__(self, other: Edits) -> Edits:
        together: dict[str, Any] = {}
        for part in fields(self):
            one, two = getattr(self, part.name), getattr(other, part.name)
            if isinstance(one, frozenset):
                together[part.name] = one | two
            elif part.name in _JOINED:
                together[part.name] = _joined(dict(one), dict(two), _JOINED[part.name])
            elif isinstance(one, tuple):
                together[part.name] = {**dict(one), **dict(two)}
            else:
                together[part.name] = one if two is None else two
        return Edits(**together)

    def __repr__(self) -> str:
        told = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if not value:
                continue
            if isinstance(value, frozenset):
                told[part.name] = f"{{{', '.join(map(repr, sorted(value, key=_order)))}}}"
            elif part.name == "replace_tokens":
                told[part.name] = repr(dict(value))
            elif isinstance(value, tuple):
                told[part.name] = _python_of(part.name, value)
            else:
                told[part.name] = repr(value)
        return f"Edits({', '.join(f'{name}={python}' for name, python in told.items())})"

    def without_tokens(self) -> Edits:
        """The same, but for the tokens that are replaced."""
        return replace(self, replace_tokens=())


def every(edits: Iterable[Edits]) -> Edits:
    """All of these together."""
    return reduce(Edits.__or__, edits, Edits())


# --- fields in their one form


def _several(name: str, places: Any) -> Any:
    """(23, 4) may be meant as one head or as two layers: where it stands for several places it is refused."""
    if isinstance(places, tuple) and len(places) == 2 and all(isinstance(one, Integral) for one in places):
        layer, head = places
        raise InputError(
            f"{name} takes several places: write {{({layer}, {head})}} for one head, {{{layer}, {head}}} for two layers.",
            field="layer",
        )
    return places


def _place(where: Where) -> Place:
    match where:
        case Place():
            found = where
        case None:
            found = EVERYWHERE
        case Integral():
            found = Place(int(where))
        case (Integral() as layer, Integral() as head):
            found = Place(int(layer), int(head))
        case _:
            raise InputError(f"{where!r} is no place: give a layer, or (layer, head).", field="layer")
    for number, name in ((found.layer, "layer"), (found.head, "head")):
        if number is not None and number < 0:
            raise InputError(f"There is no {name} {number}: they count from 0.", field=name)
    return found


def _order(place: Place) -> tuple:
    return tuple(
        ("", -1) if part is None else (str(part), -1) if isinstance(part, str) else ("", part) for part in place
    )


def _by_place(given: Any, value_of: Callable[[Any], Any]) -> tuple[tuple[Place, Any], ...]:
    if isinstance(given, Mapping):
        given = tuple(given.items())
    elif not _is_by_place(given):
        given = ((EVERYWHERE, given),)
    found = {_place(where): value_of(value) for where, value in given}
    return tuple(sorted(found.items(), key=lambda item: _order(item[0])))


def _is_by_place(given: Any) -> bool:
    """Whether these are pairs of a place and a value already."""
    return isinstance(given, tuple) and all(
        isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], Place) for one in given
    )


def _factor(value: Any) -> float:
    if not np.isfinite(value):
        raise InputError(f"The scale cannot be multiplied by {value}; a finite number is needed.", field="scale")
    return float(value)


def _softmax(value: Any) -> Softmax:
    if value not in SOFTMAXES:
        raise InputError(
            f"There is no softmax {shortened(repr(value))}: choose {', '.join(SOFTMAXES)}.", field="softmax"
        )
    return value


def _mask(value: Any) -> str:
    _predicate(value, 1)
    return str(value)


def _predicate(value: str, keys: int) -> Predicate:
    """The mask of such words."""
    word, _, number = str(value).partition(" ")
    named = MASKS.get(word)
    needs = named is not None and named.number is not None
    if named is None or needs != number.isdecimal():
        words = ", ".join(word if of.number is None else f"{word} 4" for word, of in MASKS.items())
        raise InputError(
            f"There is no mask {shortened(repr(str(value)))}: choose one of {words}, with any number.", field="mask"
        )
    digits = number.lstrip("0")[:DIGITS] or "0"
    return named.predicate(min(int(digits), FARTHEST) if needs else 0, keys)


def _positions(value: Any) -> tuple[int, ...]:
    return tuple(sorted({_position(one) for one in ([value] if isinstance(value, Integral) else value)}))


def _pairs(value: Any) -> tuple[tuple[int, int], ...]:
    return tuple(sorted({(_position(query), _position(key)) for query, key in value}))


def _position(value: Any) -> int:
    if int(value) != value or value < 0:
        raise InputError(f"There is no position {value}: tokens count from 0.", field="edits")
    return int(value)


def _pattern(value: Any) -> Any:
    if isinstance(value, str):
        if value not in PATTERNS:
            raise InputError(
                f"There is no pattern {shortened(repr(value))}: choose {', '.join(PATTERNS)}, or paint one.",
                field="pattern",
            )
        return value
    rows = {}
    for query, shares in dict(value).items():
        row = {_position(key): float(share) for key, share in dict(shares).items() if share}
        total = sum(row.values())
        if not all(0 <= share <= 1 + SUM for share in row.values()) or abs(total - 1) > SUM:
            raise InputError(
                f"The painted row of query {query} sums to {total:.6g}; its shares have to lie between 0 and 1 and sum to 1. "
                f"Divide each by {total:.6g}, or correct one.",
                field="pattern",
            )
        rows[_position(query)] = tuple(sorted(row.items()))
    return tuple(sorted(rows.items()))


_BY_PLACE: dict[str, Callable[[Any], Any]] = {
    "scale_by": _factor,
    "softmax": _softmax,
    "mask": _mask,
    "block_keys": _positions,
    "block_pairs": _pairs,
    "pattern": _pattern,
}
# Values that change nothing, but may take back what a wider place says.
_NOTHING = {("scale_by", 1.0), ("softmax", "softmax")}


def _joined_patterns(one: Any, two: Any) -> Any:
    return two if isinstance(one, str) or isinstance(two, str) else {**dict(one), **dict(two)}


_JOINED: dict[str, Callable[[Any, Any], Any]] = {
    "block_keys": lambda one, two: (*one, *two),
    "block_pairs": lambda one, two: (*one, *two),
    "pattern": _joined_patterns,
}


def _joined(one: dict, two: dict, join: Callable[[Any, Any], Any]) -> dict:
    return {**one, **{at: join(one[at], value) if at in one else value for at, value in two.items()}}


def _python_of(name: str, by_place: tuple[tuple[Place, Any], ...]) -> str:
    def value_in_python(value: Any) -> str:
        if name == "pattern" and not isinstance(value, str):
            return repr({query: dict(row) for query, row in value})
        return repr(set(value)) if isinstance(value, tuple) else repr(value)

    # A painted pattern for all heads would look like one by place.
    if (
        len(by_place) == 1
        and by_place[0][0] == EVERYWHERE
        and not (name == "pattern" and not isinstance(by_place[0][1], str))
    ):
        return value_in_python(by_place[0][1])
    return f"{{{', '.join(f'{place!r}: {value_in_python(value)}' for place, value in by_place)}}}"


# --- in a pass


@dataclass(eq=False)
class Editor:
    """Edits the attention calls of one pass, one after another as they are made.

    kind_of   says which attention a call is
    means     (kind, layer) -> [tokens, heads, d_v], what each layer gave in the pass over `mean_over`
    patches   the same of the pass over `patch_from`
    """

    edits: Edits
    kind_of: Callable[[Call], Kind]
    means: Outputs | None = None
    patches: Outputs | None = None

    def __post_init__(self) -> None:
        self._layers: dict[Kind, int] = {}
        self._shapes: dict[Kind, tuple[int, int]] = {}  # heads; the largest layer is not known before the end
        self._first: Kind | None = None
        self._farthest = list(_farthest(self.edits))

    def edit(self, call: Call) -> Call:
        """The call with the edits that are made in it, and what its heads then give.

        Raises InputError for heads and positions that are not there.
        """
        planned = self.plan(call)
        return planned.giving(edited_output(planned)) if isinstance(planned, EditedCall) else call

    def plan(self, call: Call) -> Call:
        """The call with the edits that are made in it, not computed yet."""
        kind, layer, first = self.check(call)
        planned = {
            head: edit
            for head in range(call.query.shape[1])
            if (edit := self._of_head(call, kind, layer, head, first)) is not None
        }
        return EditedCall.of(call, planned) if planned else call

    def check(self, call: Call) -> tuple[Kind, int, Kind]:
        """Take note of the next call: its kind, its layer, and the kind of the pass's first call.

        Raises InputError for positions that are not there.
        """
        kind, heads = self.kind_of(call), call.query.shape[1]
        first = self._first = self._first or kind
        layer = self._layers.get(kind, 0)
        self._layers[kind], self._shapes[kind] = layer + 1, (heads, layer + 1)
        for place, query, key in self._farthest:
            if place.covers(kind, layer, place.head or 0, first) and (place.head or 0) < heads:
                _refuse_beyond(call.key.shape[2], "key", key)
                _refuse_beyond(call.query.shape[2], "query", query)
        return kind, layer, first

    def finish(self) -> None:
        """After the pass: raises InputError for layers, heads and kinds of attention that there were not."""
        for place in self._places():
            kind = place.kind or self._first
            if kind is None or kind not in self._shapes:
                there = ", ".join(self._shapes)
                raise InputError(f"There is no {kind} attention here, only {there}.", field="kind")
            heads, layers = self._shapes[kind]
            for number, count, name in ((place.layer, layers, "layer"), (place.head, heads, "head")):
                if number is not None and number >= count:
                    raise InputError(f"There is no {name} {number}: they run from 0 to {count - 1}.", field=name)

    def _places(self) -> set[Place]:
        edits = self.edits
        by_place = {place for name in _BY_PLACE for place, _ in getattr(edits, name)}
        return by_place | edits.mute_heads | edits.mean_heads | edits.patch_heads

    def _of_head(self, call: Call, kind: Kind, layer: int, head: int, first: Kind) -> HeadEdit | None:
        def at(by_place: tuple[tuple[Place, Any], ...]) -> list[Any]:
            """Values for this head, that of the narrowest place last."""
            found = [(place, value) for place, value in by_place if place.covers(kind, layer, head, first)]
            found.sort(key=lambda one: sum(part is not None for part in one[0]))
            return [value for _, value in found]

        def covered(places: frozenset[Place]) -> bool:
            return any(place.covers(kind, layer, head, first) for place in places)

        edits, keys = self.edits, call.key.shape[2]
        blocked_keys = sum(at(edits.block_keys), ())
        blocked_pairs = sum(at(edits.block_pairs), ())
        pattern, painted = _patterns(at(edits.pattern))
        scales, softmaxes, masks = at(edits.scale_by), at(edits.softmax), at(edits.mask)
        softmax = softmaxes[-1] if softmaxes else "softmax"
        output = None
        if self.means is not None and covered(edits.mean_heads):
            output = self.means(kind, layer)[:, head].mean(dim=0, keepdim=True)
        if self.patches is not None and covered(edits.patch_heads):
            output = self.patches(kind, layer)[:, head]
        if covered(edits.mute_heads):
            output = call.output.new_zeros(1, call.output.shape[3])
        edit = HeadEdit(
            scale_by=scales[-1] if scales else 1.0,
            unscaled=softmax == "unscaled",
            mask=_predicate(masks[-1], keys) if masks else None,
            blocked_keys=blocked_keys,
            blocked_pairs=blocked_pairs,
            weighing="softmax" if softmax == "unscaled" else softmax,
            pattern=pattern,
            painted=painted,
            output=output,
        )
        return edit if edit.changes_weights or edit.output is not None else None


def _patterns(values: list[Any]) -> tuple[Pattern | None, tuple[tuple[int, int], ...]]:
    """The pattern of a head that has these, the narrowest last, and the pairs that are painted."""
    named, painted = None, {}
    for value in values:
        if isinstance(value, str):
            named, painted = value, {}  # in the place of all that a wider place says
        else:
            painted |= {query: dict(row) for query, row in value}
    if named is None and not painted:
        return None, ()

    def pattern(queries: NDArray[np.integer], allowed: NDArray[np.bool_]) -> NDArray[np.floating]:
        weights = np.full(allowed.shape, np.nan) if named is None else _named(named, queries, allowed)
        for place, query in enumerate(queries.tolist()):
            if query in painted:
                weights[place] = 0
                for key, share in painted[query].items():
                    weights[place, key] = share
        return weights

    return pattern, tuple((query, key) for query, row in painted.items() for key in row)


def _named(name: str, queries: NDArray[np.integer], allowed: NDArray[np.bool_]) -> NDArray[np.floating]:
    """[rows, keys], rows of NaN where the key that the pattern names is masked or not there."""
    key_of = PATTERNS[name]
    if key_of is None:
        choices = allowed.sum(axis=1, keepdims=True)
        return np.where(allowed, 1 / np.maximum(choices, 1), 0.0)
    keys, rows = key_of(queries), np.arange(len(queries))
    there = keys < allowed.shape[1]
    there &= allowed[rows, np.where(there, keys, 0)]
    weights = np.full(allowed.shape, np.nan)
    weights[there] = 0
    weights[rows[there], keys[there]] = 1
    return weights


def _farthest(edits: Edits) -> Iterator[tuple[Place, int, int]]:
    """Where positions are named: the place, the farthest query and the farthest key; -1 where no query is."""
    for place, keys in edits.block_keys:
        yield place, -1, max(keys)
    for place, pairs in edits.block_pairs:
        yield place, max(query for query, _ in pairs), max(key for _, key in pairs)
    for place, rows in edits.pattern:
        if not isinstance(rows, str):
            yield place, max(query for query, _ in rows), max(key for _, row in rows for key, _ in row)


def _refuse_beyond(count: int, name: str, position: int) -> None:
    if position >= count:
        raise InputError(f"There is no {name} {position}: they run from 0 to {count - 1}.", field=name)
