"""The worked examples against hooks on copies of the models, which know nothing of edits."""

import numpy as np
import pandas as pd
import pytest
import torch

from core import capture
from core.errors import InputError
from core.heads import examples
from core.heads.probing import random_texts
from tests.core.naive_attention import before_mixing
from tests.core.tiny_models import twin_of
from tests.depth import thorough


@pytest.fixture(scope="module")
def twin(smollm):
    return twin_of(smollm.network)


def logits_of(network, ids):
    with torch.inference_mode():
        return network(torch.tensor([ids])).logits[0].double().numpy()


def probability(logits, token):
    return float(np.exp(logits[token]) / np.exp(logits).sum())


def test_the_head_that_knows_paris(smollm, twin, monkeypatch):
    seen = []
    plain, muted, patched, doubled = examples.knows_paris(smollm, seen.append)
    assert seen == list(range(1, examples.PARIS_STEPS + 1))
    france, italy = (smollm.tokenizer(text)["input_ids"] for text in (examples.FRANCE, examples.ITALY))
    (paris,) = smollm.tokenizer(" Paris")["input_ids"]
    mixer, kept = twin.model.layers[23].self_attn.o_proj, []
    assert plain.paris == pytest.approx(probability(logits_of(twin, france)[-1], paris), abs=1e-4)
    with before_mixing(mixer, lambda each: each[:, :, 4].zero_(), 9):
        assert muted.paris == pytest.approx(probability(logits_of(twin, france)[-1], paris), abs=1e-4)
    with before_mixing(mixer, lambda each: kept.append(each[:, :, 4].clone()), 9):
        logits_of(twin, italy)
    with before_mixing(mixer, lambda each: each[:, :, 4].copy_(kept[0]), 9):
        logits = logits_of(twin, france)[-1]
    assert patched.paris == pytest.approx(probability(logits, paris), abs=1e-4)
    assert patched.says == smollm.tokenizer.decode([logits.argmax()])
    assert patched.share == pytest.approx(probability(logits, logits.argmax()), abs=1e-4)
    for layer in twin.model.layers:
        monkeypatch.setattr(layer.self_attn, "scaling", 2 * layer.self_attn.scaling)
    assert doubled.paris == pytest.approx(probability(logits_of(twin, france)[-1], paris), abs=1e-4)
    assert plain.paris > muted.paris > patched.paris
    assert (plain.says, patched.says) == (" Paris", " Rome")


@pytest.fixture(scope="module")
def one_seed(smollm, probed):
    return examples.needs_previous(smollm, probed, seeds=(0,))


@thorough
def test_which_heads_are_muted(probed, one_seed):
    """By rules that know nothing of what muting does. Only this test finds a choice of heads that knows the result."""
    score = {(int(row.layer), int(row.head)): row.previous for row in probed.itertuples()}
    strongest = one_seed.heads[0]
    assert probed.loc[probed["induction"].idxmax(), ["layer", "head"]].tolist() == list(strongest)
    early = sorted((head for head in score if head[0] < strongest.layer), key=lambda head: -score[head])
    assert list(one_seed.rivals) == early[:3]
    assert one_seed.previous == tuple(score[head] for head in early[:3])
    cut = one_seed.rivals[0]
    layer = [head for head in score if head[0] == cut.layer]
    median = np.median([score[head] for head in layer])
    nearest = sorted((head for head in layer if head != cut), key=lambda head: abs(score[head] - median))
    assert list(one_seed.all_controls.muted) == sorted(nearest[:5])
    assert all(head.layer > cut.layer for head in one_seed.heads)


@thorough
def test_muting_the_head_before_the_induction_head(smollm, twin, one_seed):
    """The loss and the induction score of one text, from the copy's own logits and eager weights."""
    (text, shuffled), cut, strongest = random_texts(smollm, examples.LENGTH, 0), one_seed.rivals[0], one_seed.heads[0]

    def measured(text=text):
        with torch.inference_mode():
            returned = twin(torch.from_numpy(text.ids)[None], output_attentions=True)
        logits = returned.logits[0].double()
        queries = np.arange(text.second, text.second + examples.LENGTH)
        weights = returned.attentions[strongest.layer][0, strongest.head].numpy()
        own = -torch.log_softmax(logits, dim=1).numpy()[queries[1:] - 1, text.ids[queries[1:]]]
        return weights[queries, queries - examples.LENGTH + 1].mean(), own.mean()

    score, loss = measured()
    assert one_seed.plain.scores[0] == pytest.approx(score, abs=1e-4)
    assert one_seed.plain.loss == pytest.approx(loss, abs=1e-3)
    mixer = twin.model.layers[cut.layer].self_attn.o_proj
    with before_mixing(mixer, lambda each: each[:, :, cut.head].zero_(), 9):
        score, loss = measured()
        _, loss_of_shuffled = measured(shuffled)
    assert one_seed.cut.scores[0] == pytest.approx(score, abs=1e-4)
    assert one_seed.cut.loss == pytest.approx(loss, abs=1e-3)
    assert one_seed.shuffled_cut == pytest.approx(loss_of_shuffled, abs=1e-3)
    assert one_seed.shuffled == pytest.approx(measured(shuffled)[1], abs=1e-3)
    assert one_seed.costs(one_seed.cut) == one_seed.cut.loss - one_seed.plain.loss


@thorough
def test_what_muting_it_leads_to(one_seed):
    """The stripe goes and the loss rises, by far more than with all five controls; a head does not need itself to look."""
    assert one_seed.cut.scores[1] < 0.1 < 0.7 < one_seed.plain.scores[1]
    assert one_seed.costs(one_seed.cut) > 3 * one_seed.costs(one_seed.all_controls) > 0
    assert abs(one_seed.shuffled_cut - one_seed.shuffled) < 0.3  # where nothing is repeated it costs little
    assert one_seed.itself.scores == one_seed.plain.scores
    assert one_seed.costs(one_seed.itself) > 1
    assert [row.muted for row in one_seed.by_control] == [(head,) for head in one_seed.all_controls.muted]


def test_a_model_without_an_induction_head_is_refused(smollm):
    nothing = pd.DataFrame({"layer": [0, 1], "head": [0, 0], "is_induction": False, "induction": 0.1, "previous": 0.5})
    with pytest.raises(InputError, match="no induction head"):
        examples.needs_previous(smollm, nothing)


@thorough
def test_a_pronoun_between_two_sentences(minilm):
    seen = []
    found = examples.patch_pronoun(minilm, seen.append)
    assert seen == list(range(1, examples.pronoun_steps(minilm) + 1))
    network = twin_of(minilm.network)
    it, ids = 10, [torch.tensor([minilm.tokenizer(text)["input_ids"]]) for text in (examples.TIRED, examples.WIDE)]
    assert minilm.tokenizer.convert_ids_to_tokens(ids[0][0].tolist())[it] == "it"

    def vectors(part):
        with torch.inference_mode():
            return network(part).last_hidden_state[0].double().numpy()

    start, goal = vectors(ids[0]), vectors(ids[1])
    strongest = examples.OneHead(*found.strongest.edits.each[0].at[:2])
    for head, moved in ((examples.PRONOUN_HEAD, found.known), (strongest, found.strongest)):
        kept, mixer = [], network.encoder.layer[head.layer].attention.output.dense
        with before_mixing(mixer, lambda each, kept=kept: kept.append(each.clone()), 12):
            vectors(ids[1])
        at = (slice(None), slice(None), head.head)
        with before_mixing(mixer, lambda each, kept=kept, at=at: each[at].copy_(kept[0][at]), 12):
            place = vectors(ids[0])
        way = goal[it] - start[it]
        assert moved.word == pytest.approx((place[it] - start[it]) @ way / (way @ way), abs=1e-4)
    assert found.strongest.word == max(moved.word for moved in found.by_head)
    assert (found.tired.word, found.wide.word) == (0, 1)
    assert found.every_head.word == pytest.approx(1, abs=1e-4)  # "it" stands in both: only heads tell them apart
    for moved, text in ((found.tired, examples.TIRED), (found.wide, examples.WIDE)):
        weights = capture(minilm, text).trace(*examples.PRONOUN_HEAD).weights[it]
        assert (moved.animal, moved.street) == pytest.approx((weights[2], weights[8]))
    assert 1 <= found.rank <= 72
