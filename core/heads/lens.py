"""The logit lens: the next token that a model would predict if it stopped after one of its layers.

The residual stream before and after every layer goes through what the network itself has after its last layer: the last norm,
the language-model head, multipliers and soft caps (nostalgebraist 2020, "interpreting GPT: the logit lens",
https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens). A pass keeps what each layer returned, so
no layer is computed again, and no architecture needs code of its own.

The last norm and the head are trained for what the last layer returns. What they read in an earlier stream is a hint at what
it holds, not something that the model itself computes.
"""

from collections.abc import Iterator
from typing import Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..capturing.branching import Tail
from ..capturing.capture import Capture, not_captured
from ..capturing.finite import NotFiniteError
from ..capturing.sampling import most_probable
from ..errors import InputError, check_index
from ..models.calls import wide
from ..models.model import Model
from ..models.tokens import token_texts
from ..progress import OnProgress, stop_point
from .quantities import Pass

POSITIONS = 64  # the last ones of a text, unless others are asked for
MAX_ROWS = 1_000_000  # of the table
MAX_BYTES = 64 * 2**20  # of logits in float64 at a time: those of all layers would be [layers, tokens, vocabulary]
_ENTRY = np.dtype([("token", np.int64), ("rank", np.int64), ("probability", np.float64)])


class Lens(pd.DataFrame):
    """The best next tokens by layer and position, with the columns layer, position, rank, token, text and probability.

    layer        0 is the stream before the first layer, 1 the one after it; the last one is the model's own output
    position     of the token after which it stands
    rank         1 for the most probable token; of equal ones the lower number comes first
    token, text  its number and its text
    probability  from 0 to 1, over the whole vocabulary

    chosen       the same columns for one token: a row for each layer and position
    """

    _metadata = ["chosen"]  # noqa: RUF012 - pandas hands these on
    chosen: pd.DataFrame

    @property
    def _constructor(self) -> type[Self]:
        return type(self)


def logit_lens(
    capture: Pass,
    k: int = 5,
    token: int | None = None,
    *,
    positions: int | None = POSITIONS,
    on_progress: OnProgress | None = None,
) -> Lens:
    """The k most probable next tokens after each layer, and the probability and rank of one chosen token there.

    token        the number of the chosen one; None: the most probable next token
    positions    how many, from the last one back; None: all
    on_progress  called with the number of pairs of a layer and a position that are done; an error that it raises ends the work

    The last norm and the language-model head were trained for the last layer only: what earlier layers seem to predict is a
    hint. In an encoder-decoder model these are the layers of its decoder. Layers without attention count, too.

    Raises InputError for a model without a language-model head, one that exposes only its weights, a pass that kept nothing of
    its layers, a table of more than a million rows, and a token that is not in the vocabulary.
    """
    if not isinstance(capture, Capture):
        raise not_captured(capture.model)
    output = capture.predicted
    chosen = int(output.argmax()) if token is None else token
    check_index(chosen, len(output), "token")
    tail = Tail(capture)
    layers, tokens = len(tail.streams), tail.streams[0].shape[1]
    read = range(0 if positions is None else max(0, tokens - positions), tokens)
    k = min(k, len(output))
    _check_size(k, layers, len(read))
    found = np.zeros((layers, len(read), k + 1), _ENTRY)  # of the k best tokens, and of the chosen one
    for layer, start, logits in _logits(tail, read, output):
        stop_point()
        if len(off := (~logits.amax(dim=-1).isfinite()).nonzero()):
            after, position = off[0].tolist()
            where = f"what the lens reads after {layer + after} layers at token {start + position}"
            raise NotFiniteError(capture.model, where)
        here = found[layer : layer + logits.shape[0], start - read.start :][:, : logits.shape[1]]
        here["token"] = np.pad(_best(logits, k), ((0, 0), (0, 0), (0, 1)), constant_values=chosen)
        here["rank"] = np.arange(1, k + 2)
        here["rank"][..., k] = [[_rank(row, chosen) for row in of_layer] for of_layer in logits.numpy(force=True)]
        here["probability"] = _probabilities(logits, torch.tensor(here["token"], device=logits.device))
        if on_progress is not None:
            on_progress(int(np.count_nonzero(found["rank"][..., 0])))
    lens = Lens(_table(found[..., :k], read, capture.model))
    lens.chosen = _table(found[..., k:], read, capture.model)
    return lens


def ranks_first_after(lens: Lens) -> list[int]:
    """The layers, counted as in a `Lens`, after which the chosen token ranks first at the last position."""
    at_end = lens.chosen["position"] == lens.chosen["position"].max()
    return lens.chosen.loc[(at_end & (lens.chosen["rank"] == 1)).to_numpy(), "layer"].tolist()


def _table(found: NDArray, positions: range, model: Model) -> pd.DataFrame:
    """A row for each entry of `found` [layers, positions, tokens]."""
    layer, position, _ = np.indices(found.shape)
    return pd.DataFrame(
        {
            "layer": layer.ravel(),
            "position": positions.start + position.ravel(),
            "rank": found["rank"].ravel(),
            "token": found["token"].ravel(),
            "text": token_texts(model.tokenizer, found["token"].ravel().tolist()),
            "probability": found["probability"].ravel(),
        }
    )


def _logits(tail: Tail, positions: range, output: NDArray[np.floating]) -> Iterator[tuple[int, int, Tensor]]:
    """(first layer, first position, logits [some, positions, vocabulary]), together all layers at all positions.

    The last layer is computed by itself and at the last position not at all: so its logits are to the last bit what the model
    gives, which rounds otherwise where it multiplies more rows at once. They come in float64, in which the probabilities of
    next tokens are computed everywhere; those of other layers in float32. output: its logits [vocabulary] at the last position
    """
    most = max(1, MAX_BYTES // (8 * len(output)))
    last = len(tail.streams) - 1
    for start in range(positions.start, positions.stop, most):
        part = slice(start, min(start + most, positions.stop))
        at_once = max(1, most // (part.stop - part.start))
        for first in range(0, last, at_once):
            streams = tail.streams[first : min(first + at_once, last)]
            yield first, start, wide(tail.logits(torch.cat([stream[:, part] for stream in streams])))
        logits = tail.logits(tail.streams[last][:, part]).double()
        if part.stop == positions.stop:
            logits = torch.cat([logits[:, :-1], torch.from_numpy(output).to(logits)[None, None]], dim=1)
        yield last, start, logits


def _best(logits: Tensor, k: int) -> NDArray[np.int64]:
    """[..., k] the tokens with the largest logits, as `most_probable` orders them."""
    values, tokens = logits.topk(min(k + 1, logits.shape[-1]), dim=-1)
    best = tokens[..., :k].numpy(force=True)
    for at in np.argwhere((values.diff(dim=-1) == 0).any(dim=-1).numpy(force=True)):  # topk orders equal ones by chance
        best[tuple(at)] = most_probable(logits[tuple(at)].numpy(force=True), k)
    return best


def _rank(logits: NDArray[np.floating], token: int) -> int:
    """1 for the most probable token of a row [vocabulary]; of equal ones the lower number comes first."""
    before = np.count_nonzero(logits > logits[token]) + np.count_nonzero(logits[:token] == logits[token])
    return 1 + int(before)


def _probabilities(logits: Tensor, tokens: Tensor) -> NDArray[np.floating]:
    """The probabilities of some tokens [..., tokens], in the precision of the logits [..., vocabulary]."""
    highest = logits.amax(dim=-1, keepdim=True)
    total = (logits - highest).exp_().sum(dim=-1, keepdim=True)
    return ((logits.gather(-1, tokens) - highest).exp_() / total).numpy(force=True)


def _check_size(k: int, layers: int, positions: int) -> None:
    if k < 1 or positions < 1:
        raise InputError("The lens shows at least 1 token at 1 position.", field="k" if k < 1 else "positions")
    if layers * positions * k > MAX_ROWS:
        raise InputError(
            f"{layers} layers at {positions:,} positions with {k:,} tokens each are more than {MAX_ROWS:,} rows. Ask for fewer "
            f"positions or tokens.",
            field="positions",
        )
