"""The training: what it learns from, and that a seed settles it. A few steps of it, not the whole."""

import math
from itertools import islice

import torch

from tools.training.batches import BATCH, batches
from tools.training.dates import split
from tools.training.learning import train
from tools.training.network import make_tokenizer


def test_a_held_out_date_is_never_learned_from() -> None:
    tokenizer, (known, held_out) = make_tokenizer(), split()
    seen = [text for batch in islice(batches(tokenizer, 0), 16) for text in tokenizer.batch_decode(batch.wanted)]
    assert len(seen) == 16 * BATCH
    days = {text.removesuffix("</s>") for text in seen}
    assert days <= {day.isoformat() for day in known}
    assert not days & {day.isoformat() for day in held_out}


def test_the_decoder_is_given_what_comes_before_the_character_that_it_shall_write() -> None:
    tokenizer = make_tokenizer()
    batch = next(batches(tokenizer, 0))
    given, wanted = (tokenizer.batch_decode(ids) for ids in (batch.decoder_input_ids, batch.wanted))
    assert given[0] == f"<s>{wanted[0].removesuffix('</s>')}"
    assert batch.attention_mask.sum(-1).tolist() == (batch.input_ids != tokenizer.pad_token_id).sum(-1).tolist()


def test_a_seed_settles_the_losses_and_the_weights() -> None:
    (network, _, losses), (again, _, same) = train(2, 0), train(2, 0)
    assert losses == same
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), again.parameters(), strict=True))
    assert train(1, 1)[2][0] != losses[0]
    # Untrained it knows nothing of its 99 characters, nor is it sure of any.
    assert abs(losses[0] - math.log(99)) < 0.2
