"""The sums of claims in all heads against plain loops over transformers' own attention, and in any order and parts."""

import hashlib
import random
from collections import defaultdict

import numpy as np
import pytest
import torch

from core import load_model
from core.capturing.calls.rows import row_blocks
from core.capturing.capture import capture
from core.claims.checking import add_passage, heads_of
from core.claims.claim import Claim
from core.claims.shares import COUNTS, SUMS, ClaimSums
from tests.core.claims.plain import ANNOTATED, CONDITIONS, KEYS, bare_reader, told_of
from tests.core.corpus.plain import passages, reader
from tests.core.tiny_models import eager, tiny

TEXTS = [*passages(5), *ANNOTATED]
WHEN = {written: rule for term in CONDITIONS.values() for written, rule in term.items()}
ON = {written: rule for term in KEYS.values() for written, rule in term.items()}
LINES = (
    "always, looks at the previous token, at least 0.3",
    "always, looks at itself or the next token, at least 0.6",
    "when the token is special, looks at the first token, at least 0.5",
    "when the token occurred before, looks at the tokens after its occurrences, at least 0.2",
    "when not the token is special, looks at punctuation, at least 0.3",
    "always, looks at not word starts, at least 0.5",
    "always, looks at its head, at least 0.2",
    "when its part of speech is NOUN, looks at not its det, at least 0.9",
)


def rule(written, rules):
    """What is said with "not" or "or" of these rules."""
    if written.startswith("not "):
        return lambda *at: not rules[written.removeprefix("not ")](*at)
    return lambda *at: any(rules[one](*at) for one in written.split(" or "))


CLAIMS = tuple(Claim.read(f"any head: {line}") for line in LINES)
CASES = [(rule(claim.when or "always", WHEN), rule(claim.keys, ON), claim.least) for claim in CLAIMS]
WINDOW = 4  # of the first of two layers, in the causal models


def sums_of(model, texts, claims=CLAIMS):
    sums = ClaimSums(claims, heads_of(capture(model, "a")))
    for passage in texts:
        add_passage(sums, model, passage)
    return sums


def by_loops(model, causal):
    """name -> (half, group, claim, head) -> number; the group is 0 for what is not kept by group"""
    found = defaultdict(lambda: defaultdict(float))
    for passage in TEXTS:
        told = told_of(passage, model.tokenizer)
        number = int.from_bytes(hashlib.blake2b(passage.text.encode(), digest_size=8).digest(), "little")
        half, group = number % 2, number // 2 % 64
        attentions = eager(model.network, input_ids=torch.tensor([told.ids])).attentions
        places = range(len(told.ids))
        for layer, of_layer in enumerate(attentions):
            window = WINDOW if layer == 0 else len(places)
            allowed = {q: [k for k in places if not causal or q - window < k <= q] for q in places}
            for claim, (when, keys, least) in enumerate(CASES):
                if CLAIMS[claim].needs_annotation and not passage.words:
                    continue
                wanted = {q: [k for k in allowed[q] if when(told, q) and keys(told, q, k)] for q in places}
                wanted = {q: mine for q, mine in wanted.items() if mine}
                found["passages"][half, 0, claim, 0] += bool(wanted) and layer == 1
                for head, weights in enumerate(of_layer[0].double().tolist()):
                    place = (half, 0, claim, 4 * layer + head)
                    for q, mine in wanted.items():
                        share = sum(weights[q][k] for k in mine)
                        found["queries"][half, group, *place[2:]] += 1
                        found["shares"][half, group, *place[2:]] += share
                        found["recalled"][place] += share >= least
                        found["chance"][place] += len(mine) / len(allowed[q])
                    for q in places:
                        others = [k for k in allowed[q] if k > 0 and told.kinds[k] != "special"]
                        best = max(others, key=weights[q].__getitem__, default=0)
                        if others and weights[q][best] >= 0.5:
                            found["strong"][place] += 1
                            found["hits"][place] += best in wanted.get(q, ())
                    if claim > 2:  # its keys do not follow from position alone
                        resting = {k for k in places if k == 0 or told.kinds[k] == "special"}
                        resting = set() if "special tokens" in str(CLAIMS[claim]) else resting
                        found["usual"][place] += by_distance(weights, allowed, wanted, resting)
    return found


def by_distance(weights, allowed, wanted, resting):
    """The shares of the wanted keys if each key weighed what others at its distance get on average, resting ones left out."""
    others = defaultdict(list)
    for q, keys in allowed.items():
        for k in keys:
            if k not in wanted.get(q, ()) and k not in resting:
                others[q - k].append(weights[q][k])
    mean = {distance: np.mean(at) for distance, at in others.items()}
    mine = [mean.get(q - k) for q, keys in wanted.items() for k in keys]
    known = [number for number in mine if number is not None]
    if not known:
        return 0
    usual = np.mean(known)
    compared = [(q, k) for q, keys in wanted.items() for k in allowed[q] if k in keys or k not in resting]
    every = sum(mean.get(q - k, usual) for q, k in compared)
    return sum(weights[q][k] for q, k in compared) * usual * len(mine) / every if every else 0


@pytest.mark.parametrize("name", ["BERT", "Qwen3", "gpt-oss"])
def test_every_number_against_plain_loops(name, monkeypatch):
    """Qwen3: grouped keys, and a window in one of two layers; gpt-oss: sinks beside that. In one block of rows, and in many."""
    model = load_model(tiny(name), tokenizer=reader() if name == "BERT" else bare_reader())
    found = by_loops(model, causal=name != "BERT")
    for cells in (2**19, 120):
        monkeypatch.setitem(row_blocks.__kwdefaults__, "cells", cells)
        sums = sums_of(model, TEXTS)
        for kind in (*COUNTS, *SUMS):
            ours = getattr(sums, kind)
            ours = getattr(ours, "values", ours)
            shape = {"queries": ours.shape, "shares": ours.shape, "passages": (2, 1, len(CASES), 1)}.get(
                kind, (2, 1, len(CASES), 8)
            )
            expected = np.zeros(shape)
            for place, number in found[kind].items():
                expected[place] = number
            tolerance = 0 if kind in COUNTS else 1e-5
            np.testing.assert_allclose(ours.reshape(shape), expected, atol=tolerance, rtol=0, err_msg=f"{kind} {cells}")
            # Each claim is seen to count, wherever its queries may look at its keys.
            assert (expected.sum(axis=(0, 1, 3)) > 0).sum() >= (5 if kind in ("usual", "hits") else 7), kind


def bits(sums):
    arrays = [getattr(sums, name) for name in COUNTS]
    for name in SUMS:
        arrays += [getattr(sums, name).whole, getattr(sums, name).part]
    return [array.tobytes() for array in arrays]


def test_the_same_to_the_last_bit_in_any_parts_and_order(bert):
    whole = bits(sums_of(bert, TEXTS))
    for parts in (1, 2, 5):
        chance = random.Random(parts)
        given = chance.sample(TEXTS, len(TEXTS))
        found = [sums_of(bert, given[part::parts]) for part in range(parts)]
        while len(found) > 1:
            chance.shuffle(found)
            found[-2].merge(found.pop())
        assert bits(found[0]) == whole
    assert bits(sums_of(bert, TEXTS[:-1])) != whole
    with pytest.raises(ValueError, match="other claims"):
        sums_of(bert, []).merge(sums_of(bert, [], CLAIMS[:1]))


def test_a_passage_without_annotation_says_nothing_of_relations(bert):
    """Neither of them, nor of all that is not one."""
    lines = ("looks at not its nsubj", "when not its relation is nsubj, looks at itself", "looks at its head or itself")
    sums = sums_of(bert, passages(3), tuple(Claim.read(f"any head: {line}, at least 0.1") for line in lines))
    assert not any(getattr(sums, name).any() for name in COUNTS)
    assert not any(getattr(sums, name).values.any() for name in SUMS)
