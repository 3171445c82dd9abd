"""What a head does where a claim speaks of it, against hooks of our own before W_O; and examples against the trace."""

import copy
import random

import numpy as np
import pytest
import torch

from core import Claim, capture, load_model
from core.claims import examples
from core.claims.consequences import muting, patching, says_what
from core.claims.examples import DRAWN, claim_examples, for_testing
from core.claims.shares import TESTING, half_and_group
from core.models.passages import passages_of, text_hash
from tests.core.tiny_models import number_words, tiny

CLAIM = Claim("1.2", "the token occurred before", "its occurrences", 0.1)
PLACE, SIZE = (1, 2), 8  # of the head, in W_O's input


@pytest.fixture(scope="module")
def llama():
    return load_model(tiny("Llama"), tokenizer=number_words())


@pytest.fixture(scope="module")
def passages(llama):
    chance = random.Random(0)
    return passages_of([llama], [" ".join(str(chance.randint(3, 20)) for _ in range(24)) for _ in range(40)], 64)


def losses(model, ids, put_in=None):
    """-ln p of each token but the first, by transformers; put_in: what a head gives instead, [tokens, SIZE], or 0"""
    twin, columns = copy.deepcopy(model.network), slice(PLACE[1] * SIZE, (PLACE[1] + 1) * SIZE)
    twin.set_attn_implementation("eager")

    def instead(_, given):
        output = given[0].clone()
        output[..., columns] = put_in
        return (output,)

    if put_in is not None:
        twin.model.layers[PLACE[0]].self_attn.o_proj.register_forward_pre_hook(instead)
    with torch.inference_mode():
        logits = twin(torch.tensor([ids])).logits[0, :-1]
    return torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none").double().numpy()


def spoken(ids):
    """Queries of which the token occurred before; the last predicts nothing."""
    return np.array([token in ids[:at] for at, token in enumerate(ids[:-1])])


def test_muting_against_a_hook(llama, passages):
    found = muting(llama, CLAIM, PLACE, passages)
    read = [passage for passage in passages if half_and_group(passage.text)[0] == TESTING][:20]
    both = [
        [losses(llama, llama.tokenizer(passage.text)["input_ids"], put_in) for put_in in (None, 0.0)]
        for passage in read
    ]
    there = [spoken(llama.tokenizer(passage.text)["input_ids"]) for passage in read]
    for row, of in zip(found.to_dict("records"), (there, [~one for one in there]), strict=True):
        before, after = (
            np.concatenate([pair[side][where] for pair, where in zip(both, of, strict=True)]) for side in (0, 1)
        )
        assert (row["tokens"], row["passages"]) == (len(before), len(read))
        np.testing.assert_allclose((row["before"], row["after"]), (before.mean(), after.mean()), atol=1e-6)
        assert row["change"] == row["after"] - row["before"]
        moved = [((b - a - row["change"])[where]).sum() for (a, b), where in zip(both, of, strict=True)]
        error = np.sqrt(len(moved) / (len(moved) - 1) * np.square(moved).sum()) / len(before)
        np.testing.assert_allclose(row["error"], error, rtol=1e-4)


def test_patching_against_a_hook(llama, passages, monkeypatch):
    """The texts that are patched in are told by the module; their outputs and the losses are measured here."""
    texts = []
    from core.claims import consequences

    made = consequences._copies
    monkeypatch.setattr(consequences, "_copies", lambda *given: texts.append((given[1], made(*given))) or texts[-1][1])
    found = patching(llama, CLAIM, PLACE, passages)
    texts = [(list(taken.input_ids), *pair) for taken, pair in texts if pair is not None]
    assert found["queries"].tolist() == [12, 12] == [len(texts)] * 2
    for side, row in enumerate(found.to_dict("records")):
        changes = []
        for ids, query, others in texts:
            other = llama.tokenizer(others[side])["input_ids"]
            changed = [at for at, pair in enumerate(zip(ids, other, strict=True)) if len({*pair}) == 2]
            earlier = [at for at in range(query) if ids[at] == ids[query] and at > 0]
            assert max(changed) < query
            assert changed == earlier if side == 0 else not {*changed} & {0, *earlier}
            given = capture(llama, others[side]).trace(*PLACE).output
            changes.append(losses(llama, ids, torch.tensor(given))[query] - losses(llama, ids)[query])
        np.testing.assert_allclose(row["change"], np.mean(changes), atol=1e-5)
        np.testing.assert_allclose(row["error"], np.std(changes, ddof=1) / np.sqrt(12), rtol=1e-3)


def test_what_both_say_together(llama, passages):
    muted, patched = muting(llama, CLAIM, PLACE, passages), patching(llama, CLAIM, PLACE, passages)
    muted[["change", "error"]], patched["error"] = (0.5, 0.01), 0.01
    for change, keys, control, words in (
        (0.01, 0.5, 0.0, "nothing"),
        (0.5, 0.01, 0.0, "is not shown"),
        (0.5, 0.5, 0.0, "carries what these keys hold"),
        (0.5, 0.5, 0.49, "more than these keys"),
    ):
        muted.loc[0, "change"], patched["change"] = change, (keys, control)
        assert words in says_what(muted, patched)


@pytest.mark.parametrize("drawn", [DRAWN, 999])
def test_examples_are_the_ends_of_a_draw_in_each_passage(llama, passages, drawn, monkeypatch):
    """Where the draw has all queries, they are the ends of the passage."""
    monkeypatch.setattr(examples, "DRAWN", drawn)
    clearest, others = claim_examples(llama, CLAIM, PLACE, passages)
    ends = {True: [], False: []}
    for passage in for_testing(passages, 40):
        weights, ids = capture(llama, passage.text).trace(*PLACE).weights, llama.tokenizer(passage.text)["input_ids"]
        shares = {
            q: weights[q, [k for k in range(q) if ids[k] == ids[q]]].sum() for q in range(len(ids)) if ids[q] in ids[:q]
        }
        draw = np.random.default_rng([0, text_hash(passage.text)]).permutation([*shares])[:drawn]
        ends[True].append(max(shares[q] for q in draw))
        ends[False].append(min(shares[q] for q in draw))
    np.testing.assert_allclose([one.share for one in clearest], sorted(ends[True], reverse=True)[:10], rtol=1e-6)
    np.testing.assert_allclose([one.share for one in others], sorted(ends[False])[:10], rtol=1e-6)
    backwards = claim_examples(llama, CLAIM, PLACE, passages[::-1])[0]
    assert {one.share for one in backwards} == {one.share for one in clearest}
    for one in clearest + others:
        np.testing.assert_allclose(one.weights[one.keys].sum(), one.share, rtol=1e-6)
        assert {one.tokens[key] for key in np.flatnonzero(one.keys)} == {one.tokens[one.query]}


def test_examples_of_a_position_are_not_the_first_query_of_every_passage(llama, passages):
    """The second token of a text has but two keys, and so the largest share on the one before it."""
    clearest, _ = claim_examples(llama, Claim("1.2", "", "the previous token", 0.1), PLACE, passages)
    assert len({one.query for one in clearest}) > 3
