"""What is captured against transformers' own eager attention on the real models, and everything that can go wrong.

The architectures are in test_architectures.py.
"""

import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers as t

from core import capture, load_model
from core.attention.masks import causal, grid
from core.attention.pooling import pool
from core.capturing.certifying import certified_head
from core.errors import InputError, WeightsOnlyError
from core.models.calls import IMPLEMENTATION, Call
from core.models.inputs import TooLongError
from tests.conftest import PATIENCE, TEXTS, eager_attentions
from tests.core.certificates import certify
from tests.core.tiny_models import TINY, tiny
from tests.refusals import refused

FIELD = {
    "self": "attentions",
    "encoder": "encoder_attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}


def worst_difference(taken, expected):
    """Over every kind, layer and head, between the weights of our traces and those of the eager pass."""
    differences = []
    for kind in taken.kinds:
        layers = getattr(expected, FIELD[kind])
        assert (len(layers), layers[0].shape[1]) == (taken.layers(kind), taken.heads(kind))
        for layer, heads in enumerate(layers):
            for head, weights in enumerate(heads[0].float().numpy()):
                differences.append(np.abs(taken.trace(layer, head, kind).weights - weights).max())
    return max(differences)


def test_every_layer_in_turn(minilm):
    taken = capture(minilm, TEXTS[0])
    assert list(taken.each_layer("self")) == [taken.layer_call(layer) for layer in range(taken.layers())]
    with pytest.raises(InputError, match="no layer 6"):
        taken.layer_call(6)


def test_an_encoder_decoder_reads_a_text_and_what_was_written(minilm):
    config = t.T5Config(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
    config.vocab_size = len(minilm.tokenizer)
    model = load_model(t.T5ForConditionalGeneration(config).eval(), tokenizer=minilm.tokenizer)
    taken = capture(model, "the cat sat", target="a cat")
    assert taken.tokens("encoder")[0] == ("[CLS]", "the", "cat", "sat", "[SEP]")
    assert taken.tokens("cross") == (("[PAD]", "a", "cat"), ("[CLS]", "the", "cat", "sat", "[SEP]"))
    assert taken.trace(0, 0, "cross").shape == (3, 5)
    assert taken.trace(0, 0, "decoder").shape == (3, 3)
    assert len(taken.next_tokens(3)) == 3


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("model", ["minilm", "smollm"])
def test_every_head_of_the_real_models_agrees_with_eager(model, text, request):
    model = request.getfixturevalue(model)
    taken = capture(model, text)
    worst = worst_difference(taken, eager_attentions(model, taken))
    agreement = max(taken.agreement(layer) for layer in range(taken.layers()))
    print(f"\n{model.name}, {len(taken.input_ids)} tokens: weights {worst:.2e}, output {agreement:.2e}")
    assert worst < 2e-5
    assert agreement < 2e-5


def test_the_next_token(smollm):
    (token, probability), *_ = capture(smollm, "The capital of France is").next_tokens(3)
    assert token == " Paris"
    assert probability == pytest.approx(0.772, abs=0.005)


def test_capturing_changes_nothing(smollm):
    """On the very same weights: a copy of them lies elsewhere in memory, where torch may add up in another order."""
    network, ids = smollm.network, torch.tensor([smollm.tokenizer("The cat saw the other cat")["input_ids"]])

    def logits():
        with torch.inference_mode():
            return network(ids, use_cache=False, logits_to_keep=1).logits[0, -1].numpy()

    captured, outside = capture(smollm, input_ids=ids[0]).logits, logits()
    network.set_attn_implementation("sdpa")
    try:
        expected = logits()
    finally:
        network.set_attn_implementation(IMPLEMENTATION)
    np.testing.assert_array_equal(captured, expected)
    np.testing.assert_array_equal(outside, expected)  # outside a capture nothing is recorded, and nothing differs


def test_grouped_heads_share_their_key_head(smollm):
    taken = capture(smollm, TEXTS[0])
    assert [taken.key_head(0, head) for head in range(9)] == [(head // 3, 3) for head in range(9)]
    np.testing.assert_array_equal(taken.trace(4, 3).key, taken.trace(4, 5).key)
    assert not np.array_equal(taken.trace(4, 2).key, taken.trace(4, 3).key)


def test_sessions_do_not_see_each_other():
    model = load_model(tiny("BERT"))
    texts = [np.arange(3, 12) + number for number in range(4)]
    expected = [capture(model, input_ids=text).trace(1, 3).weights for text in texts]
    wrong = []

    def work(number):
        for _ in range(20):
            taken = capture(model, input_ids=texts[number])
            if len(taken.calls["self"]) != 2 or not np.allclose(taken.trace(1, 3).weights, expected[number], atol=1e-6):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number % 4,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class Stopped(BaseException):
    """Not an Exception, as what a stop button raises may not be."""


def forwards(network, kind):
    """How often modules of this class ran, counted in the returned list of names."""
    ran = []
    for name, module in network.named_modules():
        if isinstance(module, kind):
            module.register_forward_pre_hook(lambda *_, name=name: ran.append(name))
    return ran


@pytest.mark.parametrize("name", [name for name in TINY if name != "ViT"])
def test_a_pass_is_watched_call_by_call(name):
    model = load_model(tiny(name))
    seen = []
    taken = capture(model, input_ids=np.arange(3, 15), on_progress=seen.append)
    assert seen == list(range(1, model.attention_calls + 1))
    assert len(seen) == sum(taken.layers(kind) for kind in taken.kinds)


@pytest.mark.parametrize("stop", [Stopped, ValueError, KeyboardInterrupt])
def test_what_the_watcher_raises_ends_the_pass(stop):
    network = tiny("Llama")
    model = load_model(network)
    ran = forwards(network, t.models.llama.modeling_llama.LlamaDecoderLayer)

    def on_progress(_count):
        raise stop("enough")

    with pytest.raises(stop, match="enough"):
        capture(model, input_ids=[3, 4, 5], on_progress=on_progress)
    assert ran == ["model.layers.0"]
    with torch.inference_mode():  # nobody records any more: the watcher would raise
        network(torch.tensor([[1, 2, 3]]))
    assert capture(model, input_ids=[3, 4, 5]).layers() == 2


def test_stopping_one_session_stops_no_other(minilm):
    third, go_on = threading.Event(), threading.Event()
    taken = []

    def patient(count):
        if count == 3:
            third.set()
            assert go_on.wait(PATIENCE)

    def stop(_count):
        raise Stopped

    other = threading.Thread(target=lambda: taken.append(capture(minilm, TEXTS[0], on_progress=patient)))
    other.start()
    assert third.wait(PATIENCE)
    with pytest.raises(Stopped):
        capture(minilm, TEXTS[1], on_progress=stop)
    go_on.set()
    other.join()
    expected = capture(minilm, TEXTS[0])
    np.testing.assert_array_equal(taken[0].trace(5, 11).weights, expected.trace(5, 11).weights)
    assert taken[0].layers() == 6


def test_the_certificate_holds_and_breaks_when_the_scale_is_off_by_one_percent(minilm, smollm):
    for model in (minilm, smollm):
        taken = capture(model, TEXTS[0])
        for layer in range(taken.layers()):
            for head in range(taken.heads()):
                good = taken.certificate(layer, head)
                assert good.holds
                assert good.cells == len(taken.input_ids) * taken.trace(layer, head).value.shape[1]
                call = taken.calls["self"][layer]
                off = taken.trace(layer, head).changed(scale=call.scale * 1.01)
                assert not certify(off, call.output[0, :, head].numpy(), model).holds, (layer, head)


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Gemma 2", "gpt-oss", "T5", "BART"])
def test_a_certificate_is_the_same_in_blocks_of_rows(name, monkeypatch):
    taken = capture(load_model(tiny(name)), input_ids=np.arange(3, 20))
    monkeypatch.setattr("core.attention.rowwise.CELLS", 40)
    for kind in taken.kinds:
        trace, output = taken.trace(1, 2, kind), taken.model_output(1, 2, kind)
        whole, blocks = certify(trace, output, taken.model), taken.certificate(1, 2, kind)
        assert (whole.cells, whole.mask, whole.scale) == (blocks.cells, blocks.mask, blocks.scale)
        assert blocks.holds
        assert abs(whole.rounding - blocks.rounding) < 5
        if kind != "decoder":  # a single token has all the attention whatever the scale
            broken = replace(taken, calls={kind: (replace(taken.calls[kind][1], scale=trace.scale * 1.5),)})
            assert not broken.certificate(0, 2, kind).holds


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Gemma 2", "gpt-oss", "T5", "BART"])
def test_one_sweep_gives_the_overview_and_the_certificate(name, monkeypatch):
    monkeypatch.setattr("core.attention.rowwise.CELLS", 40)
    taken = capture(load_model(tiny(name)), input_ids=np.arange(3, 20))
    for kind in taken.kinds:
        trace = taken.trace(1, 2, kind)
        overview, certificate = taken.certified_overview(1, 2, kind, max_cells=5)
        whole = certify(trace, taken.model_output(1, 2, kind), taken.model)
        assert replace(certificate, rounding=0, difference=0) == replace(whole, rounding=0, difference=0)
        assert certificate.holds
        assert abs(whole.rounding - certificate.rounding) < 5
        expected = pool(trace.weights, 5, trace.mask)
        np.testing.assert_allclose(overview.matrices["weights"].values, expected.values, atol=1e-6)
        if kind != "decoder":  # a single token has all the attention whatever the scale
            broken = taken.head(1, 2, kind).changed(scale=trace.scale * 1.5)
            assert not certified_head(broken, taken.model_output(1, 2, kind), taken.model, whole.mask)[1].holds


def test_the_certificate_names_what_it_speaks_of(smollm):
    certificate = capture(smollm, TEXTS[0]).certificate(3, 1)
    assert (certificate.model, certificate.dtype, certificate.mask) == (smollm.name, "float32", "causal")
    assert certificate.scale == 0.125
    assert certificate.revision == smollm.revision


def test_a_row_that_may_attend_to_nothing_is_left_out():
    rng = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 1, 4, 8, generator=rng) for _ in range(3))
    mask = grid(causal, 4, 4)
    mask[2] = False
    model = SimpleNamespace(name="m", revision="r", dtype="float32")
    call = Call(None, query, key, value, torch.from_numpy(mask)[None, None], False, 0.3, None, None, None, value)
    taken = __import__("core.capturing.capture", fromlist=["Capture"]).Capture(
        model, (1, 2, 3, 4), (), {"self": (call,)}, None
    )
    trace = taken.trace(0, 0)
    expected = np.nan_to_num(torch.nn.functional.scaled_dot_product_attention(query, key, value, call.mask, scale=0.3))
    expected[0, 0, 2] = 99  # what an implementation puts there is its own affair
    certificate = certify(trace, expected[0, 0], model)
    assert certificate.holds
    assert (certificate.left_out, certificate.cells) == (1, 24)


def test_an_argument_nobody_knows_is_named():
    from transformers import AttentionInterface

    attention = AttentionInterface()["headlight"]
    network = tiny("BERT")
    model = load_model(network)
    original = network.encoder.layer[0].attention.self.forward

    def forward(*arguments, **options):
        return original(*arguments, **options, relative_twist=torch.ones(1))

    network.encoder.layer[0].attention.self.forward = forward
    assert attention is not None
    with pytest.raises(WeightsOnlyError, match="relative_twist"):
        capture(model, input_ids=[3, 4, 5])


def test_weights_only_architectures_say_so():
    config = t.GPTJConfig(n_embd=32, n_layer=2, n_head=4, vocab_size=64, n_positions=64, rotary_dim=4)
    model = load_model(t.GPTJForCausalLM(config))
    with pytest.raises(WeightsOnlyError, match="GPTJForCausalLM keeps its queries"):
        capture(model, input_ids=[3, 4, 5])


@pytest.mark.parametrize("text", ["", "   \n\t", None])
def test_blank_text_is_refused(minilm, text):
    with refused("text", "blank"):
        capture(minilm, text)


def test_too_long_text_says_count_and_limit_and_can_be_cut(minilm):
    text = "word " * 600
    with pytest.raises(TooLongError, match=r"602 tokens; at most 512 can be read") as caught:
        capture(minilm, text)
    assert (caught.value.count, caught.value.limit) == (602, 512)
    taken = capture(minilm, text, truncate=True)
    assert len(taken.input_ids) == 512
    assert taken.tokens()[0][-1] == "[SEP]"
    with pytest.raises(TooLongError, match="at most 100 can be read"):
        capture(minilm, text, max_tokens=100)
    assert len(capture(minilm, text, max_tokens=100, truncate=True).input_ids) == 100


def test_pairs_only_where_they_are_read(minilm, smollm):
    taken = capture(minilm, "It rains.", pair="The street is wet.")
    assert taken.tokens()[0].count("[SEP]") == 2
    with pytest.raises(InputError, match="not a pair"):
        capture(smollm, "It rains.", pair="The street is wet.")


@pytest.mark.parametrize("ids", [[], [-1], [64], [0.5]])
def test_impossible_token_numbers_are_refused(ids):
    with pytest.raises(InputError, match="from 0 to 63"):
        capture(load_model(tiny("BERT")), input_ids=ids)


def test_places_that_do_not_exist_are_named(minilm):
    taken = capture(minilm, "Hello")
    for arguments, words in (((6, 0), "no layer 6"), ((0, 12), "no head 12"), ((-1, 0), "no layer -1")):
        with pytest.raises(InputError, match=words):
            taken.trace(*arguments)
    with pytest.raises(InputError, match="no cross attention, only self"):
        taken.trace(0, 0, "cross")
    with pytest.raises(InputError, match="no language-model head"):
        taken.next_tokens()


def test_tokens_are_readable(minilm, smollm):
    assert capture(minilm, "the cat, unbelievably the cat").tokens()[0] == (
        *("[CLS]", "the", "cat", ",", "un", "##bel", "##ie", "##va", "##bly", "the", "cat", "[SEP]"),
    )
    tokens = capture(smollm, "The café\n\n東 <b>").tokens()[0]
    assert tokens[:2] == ("The", " café")
    assert "".join(token for token in tokens if "‹" not in token).startswith("The café\n\n")


def test_a_character_split_over_tokens_shows_its_bytes(smollm):
    taken = capture(smollm, "鬱")
    pieces = [token for token in taken.tokens()[0] if token.startswith("‹")]
    assert len(pieces) > 1
    assert bytes.fromhex("".join(piece.strip("‹› ") + " " for piece in pieces)).decode() == "鬱"
