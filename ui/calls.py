"""The calls of `core` that compute what a page shows: recorded as they are made, and printed by "As Python".

    weights = call(softmax, scores)              # makes the call, and records what made `weights`
    result(weights)                              # the page shows it: a line of the program
    result(expression(stage_figure, head))       # a line for a call that the page does not make itself

An argument that an earlier call returned is written as that call; any other as a literal. Text that others wrote is quoted with
`repr`, so it cannot become code. Cached values are recorded where they are computed, and stay known for as long as they live.
"""

import ast
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from inspect import isclass, signature
from threading import Lock
from types import FunctionType
from typing import Any, TypeVar

import numpy as np
from cachetools import LRUCache

import core
from core.attention.masks import MASKS, NamedMask
from core.capturing.edits.edits import Edits

Value = TypeVar("Value")

NOT_SAID = {"on_progress", "report", "look_in", "known", "max_bytes"}  # arguments that do not change what is computed
NUMPY = (("numpy", "np"),)
MOST_NUMBERS = 1_024  # in an array that is written as a literal
LONG = 24  # characters: a longer text is a variable
# Variables: what gives the values that they hold. The results of other functions and methods are written where they are used.
VARIABLES = {
    "model": ["load_model"],
    "passed": ["capture", "attention_weights", "capture_of"],
    "written": ["generate"],
    "head": ["head", "Head.of"],
    "trace": ["trace", "attend"],
    "changed": ["changed"],
    "made": ["toy_sentence", "random_matrices", "heads_of_a_sentence"],
    "numbers": ["head_metrics", "probe_heads", "match_heads", "pair_weights"],
    "effects": ["head_effects"],
    "moved": ["patch_effects"],
    "run": ["open_run"],
    "sample": ["sample"],
    "read": ["shuffle"],
}
NAMES = {function: variable for variable, functions in VARIABLES.items() for function in functions}


@dataclass(frozen=True, eq=False)
class Expression:
    """A value in Python.

    parts    source text, the expressions that it uses, and the contents of files that somebody uploaded
    imports  (module, name) of each name in the source text
    name     of the variable that holds it; "": it is written where it is used
    """

    parts: "tuple[str | bytes | Expression, ...]"
    imports: tuple[tuple[str, str], ...] = ()
    name: str = ""

    def method(self, name: str, *given: Any, **named: Any) -> "Expression":
        """A call of one of its methods."""
        return _call_of((self, f".{name}"), (), name, given, named)

    def part(self, access: str) -> "Expression":
        """A part of it. access: how Python gets at it, such as ".text" or "[0]"."""
        return Expression((self, access))

    @property
    def is_whole(self) -> bool:
        """Whether all that it uses can be written in Python."""
        return self is not UNKNOWN and all(part.is_whole for part in self.parts if isinstance(part, Expression))


UNKNOWN = Expression(())  # a value that no recorded call has made, and that has no literal, such as a head from a file


@dataclass(eq=False)
class Recorded:
    """The calls that one run of a page has recorded.

    results  what the page shows
    made     values that cannot be referred to weakly, by their ids: what tells whether one is still there, unless that gives
             None, and the call that made it
    files    the names of the files that somebody uploaded, by their contents
    """

    results: list[Expression] = field(default_factory=list)
    made: dict[int, tuple[Callable[[], object], Expression]] = field(default_factory=dict)
    files: dict[bytes, str] = field(default_factory=dict)


_CURRENT: ContextVar[Recorded] = ContextVar("recorded_calls")


def begin() -> Recorded:
    """Begin the record of a run of a page."""
    recorded = Recorded()
    _CURRENT.set(recorded)
    return recorded


def _now() -> Recorded:
    """Return the record of this run; outside of a page one that is dropped."""
    return _CURRENT.get(None) or Recorded()


@contextmanager
def recording() -> Iterator[None]:
    """Keep a record while a cached value is computed, also outside of a page: `recall` needs it."""
    if _CURRENT.get(None) is not None:
        yield
        return
    before = _CURRENT.set(Recorded())
    try:
        yield
    finally:
        _CURRENT.reset(before)


# --- recording


def call(function: Callable[..., Value], *given: Any, **named: Any) -> Value:
    """Call a function or a method with these arguments, and record the call as what made its result."""
    return made_by(function(*given, **named), function, *given, **named)


def made_by(value: Value, function: Callable, *given: Any, **named: Any) -> Value:
    """Record that a call like this one gives the value, and return the value."""
    made = expression(function, *given, **named)
    if made.is_whole:
        _remember(value, made)
    return value


def result(value: Value) -> Value:
    """Record that the page shows a value, or what an expression gives, and return it. What nothing is known of is left out."""
    made = value if isinstance(value, Expression) else _known(value)
    if made is not None and made.is_whole:
        _now().results.append(made)
    return value


def result_of(function: Callable, *given: Any, **named: Any) -> None:
    """Record that the page shows what this call would give. It is left out if one of its arguments cannot be written."""
    result(expression(function, *given, **named))


def attribute(owner: Any, name: str) -> Any:
    """Return an attribute of a value, and record where it comes from."""
    value, of = getattr(owner, name), _known(owner)
    if of is not None and _known(value) is None:
        _remember(value, of.part(f".{name}"), owner)
    return value


def uploaded(name: str, contents: bytes) -> bytes:
    """Record the name of a file, which a program reads beside itself; return its contents."""
    _now().files[contents] = name
    return contents


def expression(function: Callable, *given: Any, **named: Any) -> Expression:
    """Return a call in Python."""
    name, owner = function.__qualname__, getattr(function, "__self__", None)
    usual = {word: parameter.default for word, parameter in signature(function).parameters.items()} if named else {}
    named = {word: one for word, one in named.items() if word not in NOT_SAID and not _is_usual(one, usual.get(word))}
    module, imported = function.__module__, name.partition(".")[0]  # of a method that needs no object, its class
    if owner is not None and not isclass(owner) and module != "builtins":
        name = function.__name__
        before, imports = (written(owner), f".{name}"), ()
    elif module.partition(".")[0] == "numpy":
        before, imports = (f"np.{name}",), NUMPY
    else:
        before, imports = (name,), _imports(module, imported)
    return _call_of(before, imports, name, given, named)


def written(value: Any) -> Expression:
    """Return a value in Python: the call that made it, or else a literal; UNKNOWN if it has none."""
    if isinstance(value, Expression):
        return value
    return _known(value) or _literal(value)


def _call_of(before: tuple, imports: tuple, name: str, given: Iterable[Any], named: dict[str, Any]) -> Expression:
    arguments = [("", one) for one in given] + [(f"{word}=", one) for word, one in named.items()]
    parts = _separated((label, written(one)) for label, one in arguments)
    return Expression((*before, "(", *parts, ")"), imports, NAMES.get(name, ""))


def _separated(labelled: Iterable[tuple[str, Expression]]) -> list[str | Expression]:
    parts: list[str | Expression] = []
    for label, one in labelled:
        parts += [f", {label}" if parts else label, one]
    return parts


def _imports(module: str, name: str) -> tuple[tuple[str, str], ...]:
    """Where a name of core is imported from: the library's door if that offers it, else its module."""
    if module == "builtins":
        return ()
    at_door = name in dir(core) and getattr(core, name).__module__ == module
    return (("headlight" if at_door else "headlight" + module.removeprefix("core"), name),)


def _is_usual(value: Any, default: Any) -> bool:
    is_plain = isinstance(value, str | int | float | bool | frozenset | None)
    return is_plain and type(value) is type(default) and value == default


# --- what made a value

_MADE: dict[int, tuple[weakref.ref, Expression]] = {}  # by id, for as long as the value lives; values of all sessions


def _remember(value: Any, made: Expression, whole: Any = None) -> None:
    """whole: what the value is a part of, and stays a part of. Without it, a tuple or a list lives as long as the run of this
    page: the outputs of all layers, for a page that waits for others, if they were not a part of their pass."""
    try:
        _MADE[id(value)] = weakref.ref(value, partial(_forget, id(value))), made
        whole = value
    except TypeError:
        _now().made[id(value)] = (lambda: value) if whole is None else weakref.ref(whole), made
    parts: dict[str, object] = {}
    if isinstance(value, tuple | list):
        parts = {f"[{place}]": one for place, one in enumerate(value) if not isinstance(one, str)}  # texts are literals
    elif isinstance(value, dict):
        parts = {f"[{name!r}]": one for name, one in value.items()}
    elif is_dataclass(value):
        parts = {f".{part.name}": getattr(value, part.name) for part in fields(value)}
    for access, one in parts.items():
        is_itself = isinstance(one, np.ndarray | tuple | list) or (
            is_dataclass(one) and type(one).__eq__ is object.__eq__
        )
        if is_itself and _known(one) is None:
            _remember(one, made.part(access), whole)


_LOCK = Lock()
_BY_KEY: LRUCache[Hashable, Expression] = LRUCache(512)  # of cached values


def recall(key: Hashable, value: Any) -> None:
    """Record again what made a cached value, which may have been computed in another run of a page."""
    made = _known(value)
    with _LOCK:
        if made is None:
            made = _BY_KEY.get(key)
        else:
            _BY_KEY[key] = made
    if made is not None:
        _remember(value, made)


def _forget(number: int, gone: weakref.ref) -> None:
    if _MADE.get(number, (None,))[0] is gone:  # not yet another value with the same id
        del _MADE[number]


def is_known(value: Any) -> bool:
    """Whether a recorded call has made the value."""
    return _known(value) is not None


def _known(value: Any) -> Expression | None:
    if value is None or isinstance(value, str | bytes | int | float):
        return None
    reference, made = _MADE.get(id(value), (None, None))
    if reference is not None and reference() is value:
        return made
    is_there, made = _now().made.get(id(value), (None, None))
    return made if is_there is not None and is_there() is not None else None


# --- literals


def _literal(value: Any) -> Expression:
    match value:
        case str():
            return Expression((repr(value),), name="text" if len(value) > LONG else "")
        case bytes():
            return Expression(("Path(", value, ").read_bytes()"), (("pathlib", "Path"),))
        case float() if not np.isfinite(value):
            return Expression((f"{value}".replace("nan", "np.nan").replace("inf", "np.inf"),), NUMPY)
        case bool() | int() | float() | range() | None:
            return Expression((repr(value),))
        case np.generic():
            return _literal(value.item())
        case np.ndarray() if value.size <= MOST_NUMBERS:
            return Expression(("np.array(", _literal(value.tolist()), ")"), NUMPY)
        case tuple() | list() | set() | frozenset():
            return _sequence(value)
        case NamedMask():
            name = next(name for name, mask in MASKS.items() if mask is value)
            return Expression((f"MASKS[{name!r}]",), (("headlight", "MASKS"),))
        case FunctionType() if "." not in value.__qualname__:
            return Expression((value.__name__,), _imports(value.__module__, value.__name__))
        case Edits():
            names = {node.id for node in ast.walk(ast.parse(repr(value))) if isinstance(node, ast.Name)}
            return Expression((repr(value),), tuple(("headlight", name) for name in sorted(names)))
        case _ if is_dataclass(value) and not isclass(value):
            held = [(field.name, getattr(value, field.name), field.default) for field in fields(value)]
            named = {name: one for name, one, usual in held if one is not usual and not _is_usual(one, usual)}
            name = type(value).__name__
            return _call_of((name,), _imports(type(value).__module__, name), "", (), named)
    return UNKNOWN


def _sequence(values: tuple | list | set | frozenset) -> Expression:
    is_ordered = isinstance(values, tuple | list)
    parts = [written(value) for value in (values if is_ordered else sorted(values))]
    braces = ("{", "}") if parts else ("set(", ")")
    opening, closing = {tuple: ("(", ",)" if len(parts) == 1 else ")"), list: ("[", "]")}.get(type(values), braces)
    return Expression((opening, *_separated(("", part) for part in parts), closing))
