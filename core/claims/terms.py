"""The words of claims: what can be asked of a query and of its keys, each with its definition.

A condition is true or false of each query. A set of keys belongs to each query, and may be empty. Both come from closed lists,
and are joined by and, or, not and brackets; "not" binds most, "or" least.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .facts import Facts

# What a set of keys follows from: where its keys stand, what they are, what somebody has written beside the text, or the head.
By = Literal["position", "content", "annotation", "head"]
Rule = Callable[[Facts, re.Match[str]], Any]
QUOTED = r'"[^"]*"'
WRITES = "writes the token that it looks at"
_LIST = rf"{QUOTED}(?:, ?{QUOTED})*"


@dataclass(frozen=True, eq=False)
class Term:
    """A condition or a set of keys.

    name   as it is written; ... stands for what may vary
    form   what it may look like in full, as a regular expression
    words  its definition, for a query at position q and a key at position k
    rule   of the facts of a passage with L tokens: [L] bool for a condition, [L, L] bool (queries, keys) for a set of keys
    """

    name: str
    by: By
    words: str
    source: str
    rule: Rule
    form: str = ""

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(f"(?:{self.form or re.escape(self.name)})(?=[ )]|$)")


def _is(kind: str) -> Rule:
    return lambda facts, _: facts.are(kind)


def _whole(kind: str) -> Rule:
    """Keys of a class, for every query."""
    return lambda facts, _: np.broadcast_to(facts.are(kind), (len(facts), len(facts)))


def _listed(facts: Facts, match: re.Match[str]) -> NDArray[np.bool_]:
    return np.isin(facts.words, [word[1:-1].strip() for word in re.findall(QUOTED, match[0])])


def _capital(facts: Facts) -> NDArray[np.bool_]:
    return np.array([text[:1].isupper() for text in facts.texts]) & ~facts.are("special")


def _at_distance(facts: Facts, match: re.Match[str]) -> NDArray[np.bool_]:
    first, last = sorted((int(match[1]), int(match[2] or match[1])))
    return (facts.back >= first) & (facts.back <= last)


def _tagged(facts: Facts, match: re.Match[str]) -> NDArray[np.bool_]:
    return facts.annotation.tokens(np.isin(facts.annotation.tags, [match[1]]))


def _related(facts: Facts, match: re.Match[str]) -> NDArray[np.bool_]:
    return facts.annotation.tokens(np.logical_or.reduce(facts.annotation.along(match[1])))


def _head(facts: Facts, _: re.Match[str]) -> NDArray[np.bool_]:
    return facts.annotation.pairs(facts.annotation.along().T)


def _dependent(facts: Facts, match: re.Match[str]) -> NDArray[np.bool_]:
    return facts.annotation.pairs(facts.annotation.along(match[1]))


_CLASSES = "the classes of tokens of docs/corpus.md"
_UD = "Universal Dependencies, as the corpus is annotated; for heads Clark et al. 2019, section 4.1"
_REPEATED = "Elhage et al. 2021; Olsson et al. 2022"

CONDITIONS: tuple[Term, ...] = (
    Term("always", "position", "every query", "", lambda facts, _: np.ones(len(facts), np.bool_)),
    Term("the token is the first", "position", "q = 0", "", lambda facts, _: np.arange(len(facts)) == 0),
    Term(
        "the token occurred before",
        "content",
        "some k < q has the same token number as q",
        _REPEATED,
        lambda facts, _: facts.copies.any(axis=1),
    ),
    Term("the token is special", "content", "the tokenizer declares the token special", _CLASSES, _is("special")),
    Term("the token is punctuation", "content", "the token has punctuation only", _CLASSES, _is("punctuation")),
    Term("the token is whitespace", "content", "the token has blanks and line breaks only", _CLASSES, _is("blank")),
    Term(
        "the token is a number",
        "content",
        "the token begins with a digit and has digits, . and ,",
        _CLASSES,
        _is("number"),
    ),
    Term("the token is a word start", "content", "a word of letters begins with the token", _CLASSES, _is("word")),
    Term("the token is a subword", "content", "the token goes on with a word", _CLASSES, _is("word part")),
    Term(
        "the token is capitalised",
        "content",
        "the first character of the token is a capital",
        "",
        lambda facts, _: _capital(facts),
    ),
    Term(
        'the token is one of "a", "b"',
        "content",
        "the word that the token belongs to is one of these",
        "",
        _listed,
        rf"the token is one of {_LIST}",
    ),
    Term(
        "its part of speech is NOUN",
        "annotation",
        "the word that the token belongs to has this tag",
        _UD,
        _tagged,
        r"its part of speech is ([A-Z]{1,12})",
    ),
    Term(
        "its relation is nsubj",
        "annotation",
        "the word that the token belongs to depends on another by this relation",
        _UD,
        _related,
        r"its relation is ([a-z]{1,20})",
    ),
)

KEYS: tuple[Term, ...] = (
    Term(
        "the first token",
        "position",
        "k = 0",
        "Xiao et al. 2024 (attention sinks)",
        lambda facts, _: np.broadcast_to(np.arange(len(facts)) == 0, (len(facts), len(facts))),
    ),
    Term("itself", "position", "k = q", "Clark et al. 2019, section 3.1", lambda facts, _: facts.back == 0),
    Term(
        "the previous token",
        "position",
        "k = q - 1",
        "Voita et al. 2019, section 5.1",
        lambda facts, _: facts.back == 1,
    ),
    Term(
        "the next token", "position", "k = q + 1", "Voita et al. 2019, section 5.1", lambda facts, _: facts.back == -1
    ),
    Term(
        "a token at distance 2 to 5",
        "position",
        "q - 5 ≤ k ≤ q - 2; a number below 0 is a key after the query",
        "Beltagy et al. 2020 (windows)",
        _at_distance,
        r"a token at distance (-?\d{1,5})(?: to (-?\d{1,5}))?",
    ),
    Term(
        "its occurrences",
        "content",
        "every k < q with the same token number as q",
        "Wang et al. 2023 (duplicate token heads)",
        lambda facts, _: facts.copies,
    ),
    Term(
        "its last occurrence",
        "content",
        "the largest k < q with the same token number as q",
        "Wang et al. 2023",
        lambda facts, _: facts.last_copies,
    ),
    Term(
        "the tokens after its occurrences",
        "content",
        "every k < q where the token at k - 1 < q has the same number as q",
        _REPEATED,
        lambda facts, _: facts.after(facts.copies),
    ),
    Term(
        "the token after its last occurrence",
        "content",
        "the last of these occurrences, plus 1, where it is before q",
        _REPEATED,
        lambda facts, _: facts.after(facts.last_copies),
    ),
    Term(
        "special tokens",
        "content",
        "the tokenizer declares k special",
        "Clark et al. 2019, section 3.2",
        _whole("special"),
    ),
    Term("punctuation", "content", "k has punctuation only", "Clark et al. 2019, section 3.2", _whole("punctuation")),
    Term("whitespace", "content", "k has blanks and line breaks only", _CLASSES, _whole("blank")),
    Term("numbers", "content", "k begins with a digit and has digits, . and ,", _CLASSES, _whole("number")),
    Term("word starts", "content", "a word of letters begins at k", _CLASSES, _whole("word")),
    Term("subwords", "content", "k goes on with a word", _CLASSES, _whole("word part")),
    Term(
        "capitalised tokens",
        "content",
        "the first character of k is a capital",
        "",
        lambda facts, _: np.broadcast_to(_capital(facts), (len(facts), len(facts))),
    ),
    Term(
        'words among "a", "b"',
        "content",
        "the word that k belongs to is one of these",
        "",
        lambda facts, match: np.broadcast_to(_listed(facts, match), (len(facts), len(facts))),
        rf"words among {_LIST}",
    ),
    Term(
        "its word's first token",
        "content",
        "the word of q begins at k < q",
        "Correia et al. 2019, section 5 (BPE-merging heads)",
        lambda facts, _: (facts.begins[:, None] == np.arange(len(facts))) & (facts.back > 0),
    ),
    Term("its head", "annotation", "k belongs to the word on which the word of q depends", _UD, _head),
    Term(
        "its nsubj",
        "annotation",
        "k belongs to a word that depends on the word of q by this relation",
        _UD,
        _dependent,
        r"its (?!head |head$|occurrences|last |word)([a-z]{1,20})",
    ),
    Term(
        WRITES,
        "head",
        "the token at k is among the 5 that the head's output there raises most; k gets most of q's weights outside the first "
        "and special tokens",
        "Wang et al. 2023, section 3.3 (copy score); Elhage et al. 2021",
        lambda facts, _: np.zeros(facts.back.shape, np.bool_),  # no key of a passage: `core.claims.writing`
    ),
)


# --- joined


@dataclass(frozen=True, eq=False)
class Joined:
    """Terms joined by and, or and not, in the order in which a stack of arrays works them out.

    steps  a term with the match of its form, or "and", "or", "not" for what stands before
    """

    steps: tuple[tuple[Term, re.Match[str]] | str, ...]

    def __call__(self, facts: Facts) -> NDArray[np.bool_]:
        """[L] of conditions or [L, L] of sets of keys, for a passage of L tokens."""
        stack: list[NDArray[np.bool_]] = []
        for step in self.steps:
            if not isinstance(step, str):
                term, match = step
                stack.append(term.rule(facts, match))
            elif step == "not":
                stack.append(~stack.pop())
            else:
                one, other = stack.pop(), stack.pop()
                stack.append(one & other if step == "and" else one | other)
        return stack.pop()

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(step[0] for step in self.steps if not isinstance(step, str))

    @property
    def by(self) -> set[By]:
        """What these terms follow from."""
        return {term.by for term in self.terms}


_BINDS = {"or": 1, "and": 2, "not": 3}
_PATTERNS: dict[tuple[Term, ...], list[tuple[Term, re.Pattern[str]]]] = {
    terms: [(term, term.pattern) for term in terms] for terms in (CONDITIONS, KEYS)
}
_WORD = re.compile(r"(and|or|not)(?=[ (]|$)|[()]")


def read_joined(text: str, terms: tuple[Term, ...]) -> Joined:
    """Read terms that are joined, such as "the previous token or itself". terms: CONDITIONS or KEYS

    Each character is looked at once for each term. Raises InputError (field "claim") for anything else.
    """
    steps: list[tuple[Term, re.Match[str]] | str] = []
    waiting: list[str] = []  # operators and brackets that are not over
    for found in _pieces(text, terms):
        if not isinstance(found, str):
            steps.append(found)
        elif found == ")":
            while waiting and waiting[-1] != "(":
                steps.append(waiting.pop())
            if not waiting:
                raise _not_read(text, "has a ) without a (")
            waiting.pop()
        else:
            while found in ("and", "or") and waiting and _BINDS.get(waiting[-1], 0) >= _BINDS[found]:
                steps.append(waiting.pop())
            waiting.append(found)
    if "(" in waiting:
        raise _not_read(text, "has a ( without a )")
    return Joined((*steps, *reversed(waiting)))


def _pieces(text: str, terms: tuple[Term, ...]) -> Iterator[tuple[Term, re.Match[str]] | str]:
    """The terms, operators and brackets of a text, where each may stand."""
    place, wants_term = 0, True
    while place < len(text):
        if text[place] == " ":
            place += 1
            continue
        word = _WORD.match(text, place)
        is_fitting = word is not None and (word[0] in ("not", "(")) == wants_term
        if word is not None and is_fitting:
            yield word[0]
            wants_term = word[0] != ")"
            place = word.end()
            continue
        matches = [(term, match) for term, pattern in _PATTERNS[terms] if (match := pattern.match(text, place))]
        if not wants_term or not matches:
            what = "a condition" if terms is CONDITIONS else "a set of keys"
            expected = what if wants_term else "and, or"
            names = "" if not wants_term else f" There are: {'; '.join(term.name for term in terms)}."
            raise _not_read(text, f"has “{text[place : place + 40]}” where {expected} should stand.{names}")
        term, match = max(matches, key=lambda found: found[1].end())
        yield term, match
        wants_term, place = False, match.end()
    if wants_term:
        raise _not_read(
            text, "ends where a condition should stand" if terms is CONDITIONS else "ends where keys should stand"
        )


def _not_read(text: str, why: str) -> InputError:
    return InputError(f"“{text[:60]}” {why.rstrip('.')}.", field="claim")
