"""Path cuts: what heads read without a component, against hooks and plain code, and against what must be left of it."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from core import AttentionTrace, Edits, capture, load_model
from core.capturing.answers import pass_with_losses
from core.capturing.generation.generating import generate
from core.heads.attribution import score_attribution
from core.heads.probing import random_texts
from core.models.modules import Kind
from tests.core.capturing.edits.test_edits import (
    OTHER,
    TEXT,
    assert_refused_also_by_the_check,
    assert_same_pass,
    captured,
    last,
    model_and_twin,
    naive,
    plain,
)
from tests.core.passes import tiny_pass
from tests.core.tiny_models import TINY, number_words, tiny
from tests.depth import sampled, thorough
from tests.refusals import refused

SIZE = 8  # of the queries, keys and values of the tiny models


class Seen:
    """What every module of a network read and gave in a naive pass."""

    def __init__(self, name: str, *what: Any) -> None:
        self.network: Any = model_and_twin(name)[1].requires_grad_(False)
        self.what = name, *what
        self.read: dict[str, Tensor] = {}
        self.gave: dict[str, Tensor] = {}
        hooks = [
            module.register_forward_hook(partial(self._keep, at), with_kwargs=True)
            for at, module in self.network.named_modules()
        ]
        naive(*self.what)
        for hook in hooks:
            hook.remove()

    def _keep(self, name: str, _module: object, given: tuple, options: dict, gave: object) -> None:
        tensors = [part for part in (*given, *options.values()) if isinstance(part, Tensor)]
        if tensors:
            self.read[name] = tensors[0]
        if isinstance(gave, Tensor):
            self.gave[name] = gave

    def by_head(self, linear: str, head: int) -> Tensor:
        own = slice(head * SIZE, (head + 1) * SIZE)
        return self.read[linear][..., own] @ self.network.get_submodule(linear).weight[:, own].T


@dataclass
class Hand:
    """What heads of layer 1 read: a pass, their norm, and what some components added to what it reads."""

    seen: Seen
    norm: str
    wrote: dict[str, Tensor]

    def without(self, cuts: Mapping[str, str], kind: str, head: int, other: "Hand | None" = None) -> dict[str, Tensor]:
        """The query, key and value of a head in a pass whose norm reads these components no more."""

        def cut(_module: object, given: tuple[Tensor]) -> tuple[Tensor]:
            left = given[0].clone()
            for component, how in cuts.items():
                left -= self.wrote[component]
                if how == "mean":
                    left += self.wrote[component].mean(dim=1, keepdim=True)
                if how == "patch":
                    left += other.wrote[component]  # type: ignore[union-attr]
            return (left,)

        hook = self.seen.network.get_submodule(self.norm).register_forward_pre_hook(cut)
        again = naive(*self.seen.what)
        hook.remove()
        return again.read[kind, 1, head]


def llama(text: str = TEXT, changes: Callable = lambda *_: {}) -> Hand:
    seen, first = Seen("Llama", text, changes), "model.layers.0"
    wrote = {
        "embedding": seen.read[f"{first}.input_layernorm"],
        "0.1": seen.by_head(f"{first}.self_attn.o_proj", 1),
        "mlp 0": seen.gave[f"{first}.mlp"],
    }
    return Hand(seen, "model.layers.1.input_layernorm", wrote)


def gemma(text: str = TEXT) -> Hand:
    """With a norm after each sublayer, too, which is held."""
    seen, first = Seen("Gemma 2", text), "model.layers.0"
    after = seen.network.get_submodule(f"{first}.post_attention_layernorm")
    whole = seen.read[f"{first}.post_attention_layernorm"]
    scale = (whole.square().mean(dim=-1, keepdim=True) + after.eps).rsqrt() * (1 + after.weight)
    wrote = {
        "embedding": seen.read[f"{first}.input_layernorm"],
        "0.1": seen.by_head(f"{first}.self_attn.o_proj", 1) * scale,
        "mlp 0": seen.gave[f"{first}.post_feedforward_layernorm"],
    }
    return Hand(seen, "model.layers.1.input_layernorm", wrote)


def bert(text: str = TEXT) -> Hand:
    """A head reads the norm at the end of the block before; the norm in the middle of that block is held."""
    seen, first = Seen("BERT", text), "encoder.layer.0"
    middle, dense = f"{first}.attention.output.LayerNorm", f"{first}.output.dense"
    held = seen.network.get_submodule(middle)
    scale = held.weight / (seen.read[middle].var(dim=-1, keepdim=True, correction=0) + held.eps).sqrt()

    def past(wrote: Tensor) -> Tensor:
        return (wrote - wrote.mean(dim=-1, keepdim=True)) * scale

    wrote = {
        "embedding": past(seen.read[first]),
        "0.1": past(seen.by_head(f"{first}.attention.output.dense", 1)),
        "mlp 0": seen.read[dense] @ seen.network.get_submodule(dense).weight.T,
    }
    return Hand(seen, f"{first}.output.LayerNorm", wrote)


def t5(side: str, text: str = TEXT) -> Hand:
    """Of cross-attention: queries from the decoder's stream, keys and values from what the encoder gives in the end."""
    seen = Seen("T5", text)
    if side == "query":
        wrote = {
            "decoder embedding": seen.read["decoder.block.0.layer.0.layer_norm"],
            "cross 0.1": seen.by_head("decoder.block.0.layer.1.EncDecAttention.o", 1),
            "decoder 1.3": seen.by_head("decoder.block.1.layer.0.SelfAttention.o", 3),
            "decoder mlp 0": seen.gave["decoder.block.0.layer.2.DenseReluDense"],
        }
        return Hand(seen, "decoder.block.1.layer.1.layer_norm", wrote)
    wrote = {
        "encoder embedding": seen.read["encoder.block.0.layer.0.layer_norm"],
        "encoder 1.2": seen.by_head("encoder.block.1.layer.0.SelfAttention.o", 2),
        "encoder mlp 1": seen.gave["encoder.block.1.layer.1.DenseReluDense"],
    }
    return Hand(seen, "encoder.final_layer_norm", wrote)


HEAD = 1  # of layer 1, which shares a key head with head 0 in the grouped models
SIDES = ("query", "key", "value")
BY_HAND = {
    **{(name, side): make for name, make in (("Llama", llama), ("Gemma 2", gemma), ("BERT", bert)) for side in SIDES},
    **{("T5", side): partial(t5, side) for side in SIDES},
}


@pytest.mark.parametrize(("name", "side"), BY_HAND)
def test_a_cut_is_what_is_computed_by_hand(name, side):
    hand, other = (BY_HAND[name, side](text) for text in (TEXT, OTHER))
    kind: Kind = "cross" if name == "T5" else "self"
    hows = dict(zip(hand.wrote, ("zero", "mean", "patch", "patch"), strict=False))
    for cuts in (*({component: how} for component, how in hows.items()), hows):
        anew, at = hand.without(cuts, kind, HEAD, other)[side], (kind, 1, HEAD)
        paths = {(component, (1, HEAD, side, kind)): how for component, how in cuts.items()}
        edits = Edits(cut_paths=paths, patch_from=OTHER)
        taken = captured(name, edits, known=[plain(name)])
        assert_same_pass(taken, naive(name, changes=lambda *head, at=at, new=anew: {side: new} if head == at else {}))
        read, before = (getattr(one.trace(1, HEAD, kind), side) for one in (taken, plain(name)))
        np.testing.assert_allclose(read, anew.numpy(), rtol=2e-5, atol=2e-5)
        assert np.abs(read - before).max() > 0.01


def test_other_edits_of_the_same_head_and_of_those_before_it_count():
    """What is cut of a muted head is nothing; of a scaled one what it writes then. The rest is done to what is read."""
    others = Edits(
        scale_by={(0, 1): 3.0, (1, HEAD): 0.5}, mask={(1, 2): "none"}, mute_heads={(0, 3)}, replace_tokens={3: "7"}
    )
    cuts = Edits(
        cut_paths={
            ("0.1", (1, HEAD, "key")): "zero",
            ("0.3", (1, HEAD, "key")): "mean",
            ("mlp 0", (1, 2, "value")): "mean",
        }
    )
    words = TEXT.split()
    words[3] = "7"
    before = {(0, 1): {"factor": 3.0}, (0, 3): {"output": torch.zeros(1, 1)}}
    changes: dict[tuple[int, int], dict] = {(1, HEAD): {"factor": 0.5}, (1, 2): {"allowed": lambda *_: True}}

    def changed(_kind, *at):
        return (before | changes).get(at, {})

    hand = llama(" ".join(words), lambda _kind, *at: before.get(at, {}))
    changes[1, HEAD]["key"] = hand.without({"0.1": "zero"}, "self", HEAD)["key"]
    changes[1, 2]["value"] = hand.without({"mlp 0": "mean"}, "self", 2)["value"]
    taken = captured("Llama", others | cuts)
    assert_same_pass(taken, naive("Llama", " ".join(words), changed))
    assert_same_pass(captured("Llama", cuts | others, known=[plain("Llama")]), naive("Llama", " ".join(words), changed))


def test_generation_and_losses_have_the_cut_in_every_pass():
    model, _ = model_and_twin("Llama")
    ids, edits = [*map(int, TEXT.split())], Edits(cut_paths={("mlp 0", (1, HEAD, "value")): "zero"})

    def logits_after(text: list[int]) -> np.ndarray:
        logits = capture(model, input_ids=text, edits=edits).logits
        assert logits is not None
        return logits.astype(np.float64)

    written = generate(model, input_ids=ids, new_tokens=3, edits=edits)
    text = [*ids]
    for step in range(3):
        logits = logits_after(text)
        np.testing.assert_allclose(last(written.capture_of(step)), logits, atol=1e-5)
        text.append(int(logits.argmax()))
    assert text != [*ids, *generate(model, input_ids=ids, new_tokens=3).token_ids]
    patching = Edits(cut_paths={("mlp 0", (1, HEAD, "value")): "patch"}, patch_from=OTHER)
    patched = generate(model, input_ids=ids, new_tokens=3, edits=patching)
    read = [*ids, *patched.token_ids[:2]]
    value, own = (taken.trace(1, HEAD).value for taken in (patched.capture_of(2), capture(model, input_ids=read)))
    np.testing.assert_allclose(value[len(ids) :], own[len(ids) :], atol=1e-6)  # the other text has no such tokens
    assert np.abs(value[: len(ids)] - own[: len(ids)]).max() > 0.01
    _, losses = pass_with_losses(model, text, edits=edits)
    for position in (3, len(text) - 1):
        logits = logits_after(text[:position])
        expected = np.logaddexp.reduce(logits) - logits[text[position]]
        assert losses[position - 1] == pytest.approx(expected, abs=1e-5)


def test_scores_of_a_head_with_a_cut_are_not_attributed():
    model, _ = model_and_twin("Llama")
    edits = Edits(cut_paths={("0.1", (1, HEAD, "key")): "zero"})
    taken = capture(model, TEXT, edits=edits, components=True)
    with refused("edits", "cut"):
        score_attribution(taken, 1, HEAD, 5, 2)
    beside = score_attribution(taken, 1, 3, 5, 2, None)  # its key head is that of the head before it
    assert beside.score == pytest.approx(float(taken.trace(1, 3).scaled[5, 2]), abs=1e-5)
    assert beside.total == pytest.approx(beside.score, abs=1e-5)


def read_by(taken, kind, layer, side) -> list[str]:
    """The names of all components that a head reads before its norm. Biases may be read after it as well."""
    assert taken.components is not None
    calls = [one.where or "self" for one in taken.components.written if one.role == "head"]
    number = [at for at, own in enumerate(calls) if own == kind][layer]
    owed = taken.components.gradients(taken.components.reads[number][side == "key"].sum())
    after = (f"bias {layer}", f"{kind} bias {layer}", f"decoder bias {layer}")
    return [
        part.name
        for part in taken.components.each
        if any(owed[index] is not None for index, _ in part.places) and part.name not in after
    ]


def passed(name: str, seed: int, **options):
    chance = np.random.default_rng(seed)
    if name == "ViT":
        return tiny_pass(name, image=chance.integers(0, 256, (12, 12, 3), dtype=np.uint8), **options)
    return tiny_pass(name, input_ids=chance.integers(3, 64, 11), **options)


def assert_same_inputs(one: AttentionTrace, other: AttentionTrace) -> None:
    for side in SIDES:
        np.testing.assert_allclose(getattr(one, side), getattr(other, side), atol=1e-5)


@pytest.mark.parametrize("name", sampled(TINY))
def test_with_everything_cut_nothing_of_the_text_is_left(name):
    """Queries, keys and values are those of norm(0), made from biases alone: values are the same at every token. If all are
    patched they are those of the other text."""
    taken = passed(name, 1, components=True)
    for kind in taken.kinds:
        cuts = {
            (component, (1, HEAD, side, kind)): "zero"
            for side in SIDES
            for component in read_by(taken, kind, 1, "query" if side == "query" else "key")
        }
        texts = [passed(name, seed, edits=Edits(cut_paths=cuts)) for seed in (1, 2)]
        traces = [text.trace(1, HEAD, kind) for text in texts]
        assert_same_inputs(*traces)
        np.testing.assert_allclose(traces[0].value, traces[0].value[[0] * len(traces[0].value)], atol=1e-5)
        assert np.abs(taken.trace(1, HEAD, kind).value[0] - taken.trace(1, HEAD, kind).value[1]).max() > 0.1
        assert all(text.certificate(1, head, kind).holds for text in texts for head in range(text.heads(kind)))
        if not taken.model.reads_images:
            other = passed(name, 2)
            words = " ".join(map(str, other.input_ids))
            patched = passed(name, 1, edits=Edits(cut_paths=dict.fromkeys(cuts, "patch"), patch_from=words))
            assert_same_inputs(patched.trace(1, HEAD, kind), other.trace(1, HEAD, kind))


def test_half_precision_is_no_more_than_rounded():
    """A quarter of each vector is left by the first two cuts, and no rounding error by the last."""
    half = tiny("Llama").bfloat16()
    models = [load_model(network, tokenizer=number_words()) for network in (half, copy.deepcopy(half).float())]
    components = ["embedding", "mlp 0", *(f"0.{head}" for head in range(4))]
    for count, size in ((1, 2), (2, 2), (len(components), 0)):
        edits = Edits(cut_paths={(component, (1, HEAD, "key")): "zero" for component in components[:count]})
        rounded, exact = (capture(model, TEXT, edits=edits).trace(1, HEAD).key for model in models)
        np.testing.assert_allclose(rounded, exact, atol=0.05 * size)
        assert (np.abs(exact).max(axis=1) > size / 4).all() == bool(size)


@pytest.mark.parametrize(
    ("name", "path", "words"),
    [
        ("Llama", ("1.0", (1, 0, "key")), "“1.0”"),
        ("Llama", ("0.4", (1, 0, "key")), "“0.4”"),
        ("Llama", ("cross 0.1", (1, 0, "key")), "“cross 0.1”"),
        ("Llama", ("nothing", (1, 0, "key")), "“nothing”"),
        ("Llama", ("mlp", (1, 0, "key")), "“mlp”"),
        ("Llama", ("mlp 1", (1, 0, "key")), "“mlp 1”"),
        ("Llama", ("bias 0", (1, 0, "key")), "“bias 0”"),  # it has no biases
        ("BERT", ("bias 1", (1, 0, "key")), "“bias 1”"),
        ("Llama", ("embedding 0", (1, 0, "query")), "“embedding 0”"),
        ("Llama", ("1" * 5000, (1, 0, "query")), "…”"),
        ("Llama", ("0.1", (1, 4, "key")), "no head 4: they run from 0 to 3"),
        ("Llama", ("0.1", (2, 0, "key")), "no layer 2: they run from 0 to 1"),
        ("Llama", ("0.1", (1, 0, "key", "cross")), "no cross attention here, only self"),
        ("T5", ("encoder 0.1", (1, 0, "query", "cross")), "“encoder 0.1”"),
        ("T5", ("decoder 0.1", (1, 0, "key", "cross")), "“decoder 0.1”"),
        ("T5", ("cross 1.1", (1, 0, "query", "cross")), "“cross 1.1”"),
        ("T5", ("mlp 0", (1, 0, "query")), "“mlp 0”"),
        ("T5", ("embedding", (1, 0, "value", "decoder")), "“embedding”"),
    ],
)
def test_what_this_pass_could_not_cut(name, path, words):
    edits = Edits(cut_paths={path: "zero"})
    assert_refused_also_by_the_check(plain(name), edits, "edits", lambda: captured(name, edits), words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({("0.1", (1, 0, "scores")): "zero"}, "one of query, key, value"),
        ({("0.1", (1, 0)): "zero"}, "not a path"),
        ({("0.1", (1, 0, "key", "sideways")): "zero"}, "not a path"),
        ({("", (1, 0, "key")): "zero"}, "not a path"),
        ({(0.1, (1, 0, "key")): "zero"}, "not a path"),
        ({"0.1": "zero"}, "not a path"),
        ("0.1", "cut_paths takes paths"),
        ({("0.1", (1, 0, "key")): "half"}, "zero, mean, patch"),
    ],
)
def test_what_is_no_cut(given, words):
    with refused("edits", words):
        Edits(cut_paths=given)


@thorough
def test_without_the_previous_token_head_an_induction_head_finds_nothing(smollm):
    """18.6 finds the token after the earlier copy by what 16.0 wrote there about the token before."""
    text = random_texts(smollm, 50, 0)[0]
    ids, half = list(text.ids), len(text.ids) - text.second
    queries = np.arange(text.second, len(ids))

    plain = capture(smollm, input_ids=ids)

    def stripe(path: tuple | None) -> float:
        edits = Edits(cut_paths={path: "zero"} if path else {})
        taken = capture(smollm, input_ids=ids, edits=edits, known=[plain])
        assert taken.certificate(18, 6).holds
        return float(taken.trace(18, 6).weights[queries, queries - half + 1].mean())

    # The numbers of docs/what-if.md.
    assert stripe(None) == pytest.approx(0.93, abs=0.01)
    assert stripe(("16.0", (18, 6, "key"))) == pytest.approx(0.002, abs=0.001)
    assert stripe(("16.0", (18, 6, "query"))) == pytest.approx(0.83, abs=0.01)
