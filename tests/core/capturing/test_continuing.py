"""What a model writes on, against transformers' own greedy generation and against one edited pass after another."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from core import Edits, capture, load_model
from core.capturing.continuing import continued
from core.errors import InputError
from tests.core.tiny_models import number_words, tiny

FRANCE = "The capital of France is"
NEW = 6
EDITS = Edits(mute_heads={(23, 4)}, scale_by={5: 0.5}, block_keys={(10, 2): {1}})


def eager(model):
    network = copy.deepcopy(model.network)
    network.set_attn_implementation("eager")
    return network


def numbers(count: int, seed: int = 0) -> str:
    return " ".join(map(str, np.random.default_rng(seed).integers(3, 64, count)))


@pytest.fixture(scope="module")
def tiny_gpt2():
    return load_model(tiny("GPT-2"), tokenizer=number_words())


@pytest.fixture(scope="module")
def tiny_t5():
    return load_model(tiny("T5"), tokenizer=number_words())


def greedily(model, taken, edits: Edits, new: int, **more) -> tuple[int, ...]:
    """Captures of ever longer texts, each from its numbers alone."""
    ids = list(taken.input_ids)
    for _ in range(new):
        ids.append(int(capture(model, input_ids=ids, edits=edits, **more).logits.argmax()))
    return tuple(ids[len(taken.input_ids) :])


def test_as_transformers_generates(smollm):
    taken = capture(smollm, FRANCE)
    generated = eager(smollm).generate(
        torch.tensor([taken.input_ids]),
        attention_mask=torch.ones(1, len(taken.input_ids), dtype=torch.long),
        do_sample=False,
        max_new_tokens=NEW,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        pad_token_id=0,
    )
    found = continued(taken, NEW)
    assert found == tuple(generated[0, len(taken.input_ids) :].tolist())
    assert len(found) == NEW
    assert smollm.text_of(found).startswith(" Paris")


def test_every_further_pass_is_edited_too(smollm):
    taken = capture(smollm, FRANCE, edits=EDITS)
    found = continued(taken, NEW)
    assert found == greedily(smollm, taken, EDITS, NEW)
    assert found != continued(capture(smollm, FRANCE), NEW)


def test_a_replaced_token_stays_replaced(tiny_gpt2):
    edits = Edits(replace_tokens={2: "7"}, mute_heads={(1, 0)})
    taken = capture(tiny_gpt2, numbers(5), edits=edits)
    assert taken.input_ids[2] == 7
    assert continued(taken, NEW) == greedily(tiny_gpt2, taken, edits.without_tokens(), NEW)


def test_it_ends_where_the_model_ends_its_text(tiny_gpt2):
    taken = capture(tiny_gpt2, numbers(9))
    whole = continued(taken, NEW)
    settings = tiny_gpt2.network.generation_config
    before = settings.eos_token_id
    first = whole[0]
    try:
        for end in (first, [63, first]):
            settings.eos_token_id = end
            assert continued(taken, NEW) == (first,)
        unsaid = next(token for token in range(64) if token not in whole)
        settings.eos_token_id = unsaid
        assert continued(taken, NEW) == whole
    finally:
        settings.eos_token_id = before


def test_it_ends_where_the_model_can_read_no_further(tiny_gpt2):
    assert tiny_gpt2.max_tokens == 64
    for tokens, expected in ((60, 5), (63, 2), (64, 1)):
        assert len(continued(capture(tiny_gpt2, numbers(tokens)), 20)) == expected
    assert len(continued(capture(tiny_gpt2, numbers(60)), 3)) == 3


def test_a_decoder_writes_on_while_the_encoder_reads_the_same(tiny_t5):
    text, written = numbers(8), numbers(3, seed=1)
    for edits in (Edits(), Edits(mute_heads={0}, scale_by=3.0)):
        taken = capture(tiny_t5, text, target=written, edits=edits)
        found = continued(taken, NEW)
        grown = written
        for token in found:
            assert token == int(capture(tiny_t5, text, target=grown, edits=edits).logits.argmax())
            grown += f" {token}"
        assert len(found) == NEW or found[-1] == tiny_t5.network.generation_config.eos_token_id
    twin = eager(tiny_t5)
    taken = capture(tiny_t5, text, target=written)
    ids, target = torch.tensor([taken.input_ids]), torch.tensor([taken.target_ids])
    with torch.inference_mode():
        for token in continued(taken, NEW):
            assert token == int(twin(input_ids=ids, decoder_input_ids=target).logits[0, -1].argmax())
            target = torch.cat([target, torch.tensor([[token]])], dim=1)


class Stopped(Exception):
    pass


def test_it_is_told_after_every_token_and_can_be_stopped(tiny_gpt2):
    taken = capture(tiny_gpt2, numbers(5))
    told = []
    assert len(continued(taken, 4, told.append)) == 4
    assert told == [1, 2, 3, 4]

    passes = []
    handle = tiny_gpt2.network.register_forward_pre_hook(lambda *_: passes.append(1))

    def stop(done: int) -> None:
        if done == 2:
            raise Stopped

    try:
        with pytest.raises(Stopped):
            continued(taken, 20, stop)
    finally:
        handle.remove()
    assert len(passes) == 1  # the first token is that of the pass there was


def test_a_model_without_a_head_writes_nothing(minilm):
    with pytest.raises(InputError, match="predicts no next token") as refused:
        continued(capture(minilm, FRANCE))
    assert refused.value.field == "model"
