"""What a claim may ask about the tokens of a passage: where they stand, what kind they are, and which words they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from ..models.passages import CLASSES, Passage, Relation, classes_of, tokens_of_words
from ..models.tokens import pieces_of
from ..models.words import word_starts, word_texts


@dataclass(frozen=True, eq=False)
class Annotation:
    """The words of an annotated passage, W in all, and the tokens that belong to them. A passage without annotation has none.

    belongs    [L, W] bool
    relations  between these words
    tags       [W] the part of speech of each word
    """

    belongs: NDArray[np.bool_]
    relations: Sequence[Relation]
    tags: NDArray[np.str_]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase | None, passage: Passage, tokens: int) -> Annotation:
        """Raises InputError for a tokenizer that does not say where in a text its tokens stand."""
        belongs = tokens_of_words(tokenizer, passage, tokens).numpy().astype(np.bool_)
        return cls(belongs, passage.relations, np.array(passage.tags or ("_",) * len(passage.words)))

    def along(self, relation: str | None = None) -> NDArray[np.bool_]:
        """[W, W] from each word to the words that depend on it, by this relation or by any."""
        pairs = np.zeros((len(self.tags),) * 2, np.bool_)
        for one in self.relations:
            pairs[one.head, one.dependent] |= relation in (None, one.name)
        return pairs

    def pairs(self, words: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Pairs of words [W, W] as pairs of tokens: [L, L]. A token of two words, such as "don't", is not a pair."""
        return self.belongs @ words @ self.belongs.T & ~np.eye(len(self.belongs), dtype=np.bool_)

    def tokens(self, words: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Words [W] as tokens: [L]."""
        return self.belongs @ words


@dataclass(frozen=True, eq=False)
class Facts:
    """The tokens of a passage, L in all, as queries and as keys.

    ids     [L] token numbers
    texts   [L] what each token writes, without the blanks around it
    words   [L] the text of the word that each token belongs to, without the blanks around it
    kinds   [L] the class of each token, one of `CLASSES`
    begins  [L] the position at which each token's word begins
    """

    ids: NDArray[np.integer]
    texts: NDArray[np.str_]
    words: NDArray[np.str_]
    kinds: NDArray[np.str_]
    begins: NDArray[np.integer]
    annotation: Annotation

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase | None, ids: Sequence[int], passage: Passage | None = None) -> Facts:
        """passage: the text of these tokens, if it is annotated"""
        starts = word_starts(tokenizer, ids)
        word = np.searchsorted(starts, np.arange(len(ids)), side="right") - 1
        words = np.array([text.strip() for text in word_texts(tokenizer, ids, starts)])
        annotation = Annotation(np.zeros((len(ids), 0), np.bool_), (), np.empty(0, np.str_))
        if passage is not None and passage.words:
            annotation = Annotation.of(tokenizer, passage, len(ids))
        texts = np.array([piece.bare.strip() for piece in pieces_of(tokenizer, ids)])
        kinds = np.array(CLASSES)[classes_of(tokenizer, tuple(ids))]
        return cls(np.asarray(ids), texts, words[word], kinds, starts[word], annotation)

    @property
    def is_annotated(self) -> bool:
        return bool(len(self.annotation.tags))

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def back(self) -> NDArray[np.integer]:
        """[L, L] how many tokens each key is before each query; below 0 after it."""
        places = np.arange(len(self))
        return np.subtract.outer(places, places)

    @cached_property
    def copies(self) -> NDArray[np.bool_]:
        """[L, L] earlier occurrences of each query's token."""
        return (self.ids[:, None] == self.ids) & (self.back > 0)

    @cached_property
    def last_copies(self) -> NDArray[np.bool_]:
        """[L, L] the last of them."""
        last = np.where(self.copies, np.arange(len(self)), -1).max(axis=1)
        return np.arange(len(self)) == np.where(last < 0, len(self), last)[:, None]

    def after(self, keys: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """[L, L] the token after each of these keys, where it stands before the query itself."""
        moved = np.zeros_like(keys)
        moved[:, 1:] = keys[:, :-1]
        return moved & (self.back > 0)

    def are(self, kind: str) -> NDArray[np.bool_]:
        """[L] the tokens of a class."""
        return self.kinds == kind

    @cached_property
    def rests(self) -> NDArray[np.bool_]:
        """[L] where attention rests: the first token and special ones."""
        return self.are("special") | (np.arange(len(self)) == 0)
