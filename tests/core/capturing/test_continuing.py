"""Passes that continue from another one: to the last bit what whole ones give, and no layer computed that need not be."""

import gc
import weakref

import pytest
from transformers import PreTrainedModel

from core import Edits, Place, capture, load_model
from core.capturing import continuing
from core.capturing.continuing import Layers
from core.models.model import Model
from tests.core.passes import READ, assert_same_bits, every_head, given_to
from tests.core.tiny_models import TINY, TWO_TOWERS, number_words, tiny
from tests.depth import sampled


class Reader:
    """A model that reads the same in every pass, and how many attention calls its latest pass has made."""

    def __init__(self, network: PreTrainedModel) -> None:
        self.model = load_model(network, tokenizer=number_words())
        self.given = given_to(self.model)
        self.made = 0

    def read(self, edits: Edits | None = None, **known):
        self.made = 0
        return capture(self.model, **self.given, edits=edits, on_progress=self._count, **known)

    def _count(self, _: int) -> None:
        self.made += 1


@pytest.mark.parametrize("name", sampled(TINY))
def test_every_layer_of_every_architecture(name):
    reader = Reader(tiny(name))
    plain = reader.read()
    calls = reader.made
    for layer, kind in [(layer, kind) for layer, head, kind in every_head(plain) if head == 0]:
        edits = Edits(mute_heads={Place(layer, 1, kind)}, scale_by={Place(layer, 2, kind): 1.5})
        whole = reader.read(edits)
        assert reader.made == calls
        continued = reader.read(edits, known=[plain])
        assert_same_bits(continued, whole)
        changed = plain.begun.calls.index(plain.layer_call(layer, kind))
        in_the_layer_before = 1 if kind == "cross" else 0
        assert reader.made == calls - changed + in_the_layer_before
        kept = [one is other for one, other in zip(continued.begun.calls, plain.begun.calls, strict=True)]
        assert kept == [number < calls - reader.made for number in range(calls)]


def test_a_pass_continues_from_the_one_that_is_most_alike():
    reader = Reader(tiny("ALBERT"))
    plain, low = reader.read(), Edits(mute_heads={(1, 0)})
    both, other = low | Edits(scale_by={(3, 2): 3.0}), low | Edits(softmax={(2, 1): "hardmax"})
    known = [plain, reader.read(low), reader.read(other)]
    whole = reader.read(both)
    assert reader.made == 4
    assert_same_bits(reader.read(both, known=known), whole)
    assert reader.made == 1
    assert_same_bits(reader.read(low, known=[*known, whole]), known[1])
    assert reader.made == 0, "an edit that is switched off needs nothing"
    reader.read(known=[whole])
    assert reader.made == 3
    continued = reader.read(low, known=[plain])  # which can be continued, too
    assert_same_bits(reader.read(both, known=[continued]), whole)


def test_nothing_is_taken_from_what_was_read_otherwise():
    reader, edits = Reader(tiny("Llama")), Edits(mute_heads={(1, 0)})
    expected = reader.read(edits)
    reader.given["input_ids"] = [*READ[:-1], READ[-1] - 1]
    others = [reader.read(), Reader(tiny("Llama")).read()]
    reader.given["input_ids"] = READ
    assert_same_bits(reader.read(edits, known=others), expected)
    assert reader.made == 2


def test_a_long_text_keeps_nothing_and_is_read_whole(monkeypatch):
    reader, edits = Reader(tiny("Llama")), Edits(mute_heads={(1, 0)})
    plain, expected = reader.read(), reader.read(edits)
    assert plain.nbytes == sum(call.nbytes for call in plain.begun.calls) + plain.begun.nbytes
    assert plain.begun.nbytes == 2 * len(READ) * 32 * 4
    monkeypatch.setattr(continuing, "MAX_BYTES", plain.begun.nbytes - 1)
    plain = reader.read()
    assert (plain.begun.returned, plain.begun.nbytes) == ((), 0)
    assert_same_bits(reader.read(edits, known=[plain]), expected)
    assert reader.made == 2


def test_attention_between_the_layers_is_not_continued():
    """Such as that of a network whose first layer stands beside the list of the others."""
    reader, edits = Reader(tiny("Llama")), Edits(mute_heads={(1, 0)})
    expected = reader.read(edits)
    network = reader.model.network.model
    network.before, network.layers = network.layers[0], network.layers[1:]
    rotary = network.rotary_emb.forward

    def first_layer_too(hidden, **options):
        positions = rotary(hidden, **options)
        hidden.copy_(network.before(hidden, position_embeddings=positions))
        return positions

    network.rotary_emb.forward = first_layer_too
    plain = reader.read()
    assert reader.made == 2
    assert plain.begun.returned == ()
    assert_same_bits(reader.read(edits, known=[plain]), expected)


def test_layers_that_write_into_what_others_returned_are_not_continued():
    reader, edits = Reader(tiny("Llama")), Edits(mute_heads={(1, 0)})
    norm = reader.model.network.model.layers[1].input_layernorm
    forward = norm.forward
    norm.forward = lambda hidden: forward(hidden.mul_(1.5))
    plain = reader.read()
    assert plain.begun.returned == ()
    assert_same_bits(reader.read(edits, known=[plain]), reader.read(edits))


@pytest.mark.parametrize("components", [False, True])
def test_a_pass_that_is_forgotten_frees_its_memory_at_once(components):
    """Without the garbage collector, which may not come for long."""
    reader = Reader(tiny("Llama"))
    gc.collect()
    gc.disable()
    try:
        plain = reader.read(components=components)
        kept = [one.tensor for one in plain.components.written] if components else [plain.begun.returned[0][0]]
        gone = [weakref.ref(tensor) for tensor in kept]
        del plain, kept
        assert all(ref() is None for ref in gone)
    finally:
        gc.enable()


def test_the_twin_has_no_numbers_of_its_own(smollm: Model):
    own, shared = Layers(smollm).model().network, smollm.network
    for one, other in zip([*own.parameters(), *own.buffers()], [*shared.parameters(), *shared.buffers()], strict=True):
        assert one is other
    assert own is not shared
    assert not any("forward" in vars(module) for module in shared.modules())


@pytest.mark.parametrize("name", ["CLIP", "OWL-ViT", "ALIGN", "CLAP"])
def test_the_text_tower_of_two(name):
    reader = Reader(TWO_TOWERS[name]().eval())
    plain, edits = reader.read(), Edits(mute_heads={(1, 0)})
    assert_same_bits(reader.read(edits, known=[plain]), reader.read(edits))
