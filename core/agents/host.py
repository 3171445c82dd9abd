"""What whoever starts the server allows, the models and passes that are kept between calls, and addresses of views in the app.

    <base>/<page>?model=...&text=...&layer=18&head=6&version=2

Core does not know the app: the words of addresses are those that docs/links.md lists, as far as answers need them. Fields
that are left out show what the page opens with. The tests open these words on the app's own pages.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlencode

from ..capturing.capture import Capture, capture
from ..capturing.checking.checkup import check_model
from ..capturing.costs import component_bytes, kept_bytes, passing_bytes
from ..capturing.edits.edits import Edits
from ..errors import InputError, model_error, shown, text_error
from ..models.allowed import Allowed
from ..models.checkups import keep, known_checkup
from ..models.inputs import all_inputs
from ..models.loading import load_model
from ..models.model import Model
from ..progress import held, stopped_by
from ..units import bytes_in_words

Result = TypeVar("Result")

MODELS, PASSES = 2, 6  # that are kept
CHARACTERS = 64  # a token at most: a text with more is not worth the time to count its tokens

VERSION = 2  # of complete addresses: whoever opens one sees nothing that was chosen before
SHORT, LONGEST = 2_000, 7_500  # characters of an address beside an answer, and of one alone: the app reads 8,000

# The words of each page that agents can name.
_TEXT = ("model", "text", "target", "target_as")
_HEAD = (*_TEXT, "kind", "layer", "head")
_CELL = (*_HEAD, "query", "key")
PAGES = {
    "gallery": (),
    "heads": (*_CELL, "metric", "on"),
    "step_by_step": (*_CELL, "stage"),
    "head": _CELL,
    "what_if": (*_CELL, "edit", "writes"),
    "why": ("model", "text", "answer", "than", "like", "path", "stop", "side"),
    "generation": ("model", "text", "new", "choice", "heat", "top_k", "top_p", "seed"),
    "claims": ("model", "claims", "texts", "checked_on"),
}
MEAN_OF_ALL = "the mean of all tokens"  # what `than` says on the page Why


@dataclass(frozen=True)
class Limits:
    """What a server does at most.

    hub, folders, models  that it loads, as `core.models.allowed.Allowed` says; by default those of the catalogue alone
    tokens   of a text
    seconds  of the computation of one call. Loading a model is not counted
    memory   bytes of the passes that are kept, and of the one that runs
    base     the address of the app, with which the addresses in answers begin, such as "http://localhost:8501"
    """

    hub: bool = False
    folders: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    tokens: int = 2_048
    seconds: float = 60.0
    memory: int = 4 * 10**9
    base: str = "http://localhost:8501"


class Ended(BaseException):
    """The work of a call has ended before it was done: nobody waits for it, or its time is up."""


class Host:
    """The models and passes of a server; it computes one call after another."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.allowed = limits, Allowed(limits.hub, limits.folders, limits.models)
        self.model = lru_cache(MODELS)(self._load)
        self.passed = lru_cache(PASSES)(self._read)
        self._lock = Lock()
        self._until = 0.0

    def run(self, work: Callable[[], Result], is_wanted: Callable[[], bool]) -> Result:
        """Return what `work` gives, once it is its turn. Raises InputError (field "seconds") if that takes too long, and Ended
        where it is not wanted any more. Both are noticed at the stop points of all work."""
        turn_came = False

        def check(_part: float | None) -> None:
            if not is_wanted() or (turn_came and time.monotonic() > self._until):
                raise Ended

        try:
            with stopped_by(check), held(self._lock):
                self._begin()
                turn_came = True
                check(None)
                return work()
        except Ended:
            if not is_wanted():
                raise
            why = f"This takes longer than {self.limits.seconds:g} s, the longest that this host computes for one call."
            raise InputError(f"{why} Shorten the text, or ask for less.", field="seconds") from None

    @property
    def has_time(self) -> bool:
        """Whether less than half of the time of this call is over: what can be stopped anywhere stops then."""
        return self._until - time.monotonic() > self.limits.seconds / 2

    def _begin(self) -> None:
        self._until = time.monotonic() + self.limits.seconds

    def address(self, page: str, most: int = SHORT, **words: Any) -> str | None:
        """The address of a view; None if it would have more than `most` characters.

        words  of the page; one that is None is left out, and a list is said once for each entry
        """
        said = {name: value for name, value in words.items() if value is not None}
        assert said.keys() <= {*PAGES[page]}, f"{page} has no {said.keys() - {*PAGES[page]}}"
        if "target" in said:
            said["target_as"] = "text"
        whole = f"{self.limits.base.rstrip('/')}/{page}?{urlencode(said | {'version': VERSION}, doseq=True)}"
        return whole if len(whole) <= most else None

    def _load(self, name: str) -> Model:
        limits = self.limits
        allowed = self.allowed
        if not allowed.places_of(name):
            ways = [*allowed.named, *(f"a path in {shown(folder)}" for folder in limits.folders)]
            ways += ["a Hugging Face name"] if limits.hub else []
            raise model_error(f"This host does not load that. Choose one of: {', '.join(ways)}.")
        model = load_model(name, look_in=allowed)
        if model.captures and known_checkup(model) is None:
            keep(model, check_model(model))
        self._begin()  # nobody is told that loading took too long for a text
        return model

    def require_room(
        self,
        model: Model,
        text: str,
        target: str | None = None,
        edits: Edits | None = None,
        *,
        components: bool = False,
    ) -> None:
        """Raise InputError for a text, or another one that edits read, that is too long for this host."""
        tokens = self._tokens(model, text, target)
        for other in edits.texts.values() if edits else ():
            try:
                self._tokens(model, other)
            except InputError as error:
                error.field = "edits"
                raise
        counts = (passing_bytes, kept_bytes, *([component_bytes] if components else []))
        needs = sum(of(model, tokens) for of in counts) if model.captures else 0
        if needs > (most := self.limits.memory // PASSES):
            here = bytes_in_words(most)
            raise text_error(f"This needs about {bytes_in_words(needs)}; this host allows {here}. Shorten the text.")

    def _tokens(self, model: Model, text: str, target: str | None = None) -> int:
        most, characters = self.limits.tokens, max(len(text), len(target or ""))
        if characters > most * CHARACTERS:
            why = f"The text has {characters:,} characters; this host reads at most {most:,} tokens. Shorten it."
            raise text_error(why)
        return all_inputs(model, text, target=target, max_tokens=most)["input_ids"].shape[1]

    def _read(
        self, name: str, text: str, target: str | None = None, edits: Edits | None = None, *, components: bool = False
    ) -> Capture:
        model = self.model(name)
        self.require_room(model, text, target, edits, components=components)
        options = {"target": target, "max_tokens": self.limits.tokens, "components": components}
        known = [self.passed(name, text, target)] if edits and not components else []
        return capture(model, text, edits=edits, known=known, **options)
