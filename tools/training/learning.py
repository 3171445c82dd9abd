"""Training: next-character cross-entropy on dates that are drawn anew for every step, the answer so far given."""

import math
from itertools import islice

import torch
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import BartForConditionalGeneration, PreTrainedTokenizerFast

from .batches import batches
from .network import make_network, make_tokenizer

LEARNING_RATE = 2e-3
WARM_UP = 200


def train(steps: int, seed: int) -> tuple[BartForConditionalGeneration, PreTrainedTokenizerFast, list[float]]:
    """A network trained from nothing, its tokenizer, and the loss of every step. The same seed gives the same losses."""
    torch.manual_seed(seed)
    tokenizer = make_tokenizer()
    network = make_network(tokenizer)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    losses: list[float] = []
    network.train()
    with tqdm(islice(batches(tokenizer, seed), steps), total=steps, unit="step", mininterval=5) as bar:
        for batch in bar:
            loss = cross_entropy(network(**batch.inputs).logits.flatten(0, 1), batch.wanted.flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            bar.set_postfix(loss=f"{sum(losses[-100:]) / len(losses[-100:]):.4f}", refresh=False)
    return network.eval(), tokenizer, losses


def _rate(step: int, steps: int) -> float:
    """The share of the learning rate at a step: up along a line, then down along half a cosine."""
    return min((step + 1) / WARM_UP, (1 + math.cos(math.pi * step / steps)) / 2)
