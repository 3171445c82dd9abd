"""The recorder that is copied elsewhere, and what other libraries have recorded, against `capture`: the very same numbers."""

import copy
import importlib.util
import shutil
import sys
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface, T5Config, T5ForConditionalGeneration
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from core import InputError, capture, load_model, open_capture
from core.captures.converting import save_nnsight, save_transformer_lens
from core.record_pass import record
from tests.core.captures.test_opening import TEXT, assert_same_stages
from tests.core.passes import assert_eager_weights
from tests.core.tiny_models import T5, eager, number_words, tiny
from tests.refusals import refused
from tests.source_files import ROOT, imports, text

TEXTS = ([5, 17, 8, 9, 3], [7, 7, 40])
IDS = {"right": [TEXTS[0], [*TEXTS[1], 1, 1]], "left": [TEXTS[0], [1, 1, *TEXTS[1]]]}
MASKS = {"right": [[1] * 5, [1, 1, 1, 0, 0]], "left": [[1] * 5, [0, 0, 1, 1, 1]]}
POSITIONS = {"right": None, "left": [[0, 1, 2, 3, 4], [0, 0, 0, 1, 2]]}


def given(side, **other):
    return {"input_ids": IDS[side], "attention_mask": MASKS[side], "position_ids": POSITIONS[side]} | other


@pytest.fixture
def recorder(tmp_path):
    """The file by itself, as somebody has copied it."""
    copied = shutil.copy(ROOT / "core/record_pass.py", tmp_path / "copied.py")
    spec = importlib.util.spec_from_file_location("copied", copied)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_one_short_file_that_needs_nothing_of_headlight():
    source = text(ROOT / "core/record_pass.py")
    used = {name.partition(".")[0] for name in imports(source)}
    assert used - sys.stdlib_module_names == {"torch", "transformers", "tokenizers", "safetensors"}
    assert len(source.splitlines()) <= 539


RECORDED = ["BERT", "Llama", "T5", "Gemma 2", "gpt-oss", "Phi-3", "DeepSeek V3.2", "DiffLlama"]


@pytest.mark.parametrize("name", RECORDED)
def test_what_it_records_is_what_a_capture_keeps(name, recorder, tmp_path):
    file = tmp_path / "pass.safetensors"
    network = tiny(name).to(torch.bfloat16 if name == "Llama" else torch.float32)
    network.set_attn_implementation("eager")
    both = network.config.is_encoder_decoder
    recorder.record(network, number_words(), TEXT, file, target="3 4 5" if both else None)
    assert network.config._attn_implementation == "eager"
    whole = open_capture(file)
    recorder.record(network, number_words(), TEXT, file, target="3 4 5" if both else None, layers=[1], heads=[3, 1])
    some = open_capture(file)
    model = load_model(network, tokenizer=number_words())
    expected = capture(model, TEXT, **{"target": [3, 4, 5]} if both else {})
    assert (whole.kinds, whole.input_ids, whole.target_ids) == (expected.kinds, expected.input_ids, expected.target_ids)
    for ours, theirs in ((whole.logits, expected.logits), (whole.vectors, expected.vectors)):
        np.testing.assert_array_equal(ours, theirs)
    for kind in expected.kinds:
        assert whole.tokens(kind) == expected.tokens(kind)
        assert (some.layers(kind), some.heads(kind)) == (1, 2)
        pairs = [((layer, head), (whole, layer, head)) for layer in (0, 1) for head in range(4)]
        for (layer, head), (opened, at, of) in [*pairs, ((1, 1), (some, 0, 0)), ((1, 3), (some, 0, 1))]:
            assert_same_stages(opened.trace(at, of, kind), expected.trace(layer, head, kind))
            assert opened.certificate(at, of, kind).holds
    assert some.model.labels[expected.kinds[0]] == [(1, some.model.labels[expected.kinds[0]][0][1])]
    assert some.model.labels[expected.kinds[0]][0][1].endswith("heads 1, 3 of 4")


@pytest.mark.parametrize("name", ["NLLB-MoE", "PEGASUS-X", "Splinter"])
def test_nothing_but_masks_makes_it_causal_where_the_network_says_nothing_of_it(name, recorder, tmp_path):
    network, file = tiny(name), tmp_path / "pass.safetensors"
    inputs = {"input_ids": torch.tensor([TEXTS[0]])}
    if both := network.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.tensor([[network.config.decoder_start_token_id, 3, 4, 5]])
        network.get_encoder().config = copy.copy(network.config)
        network.get_encoder().config._attn_implementation = "sdpa"
    expected = eager(network, **inputs)
    recorder.record(network, number_words(), "5 17 8 9 3", file, target="3 4 5" if both else None)
    assert_eager_weights(open_capture(file), expected)
    parts = (network.get_encoder(), network) if both else (network,)
    assert [part.config._attn_implementation for part in parts] == ["sdpa", "eager"][-len(parts) :]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", ["Llama", "BERT", "T5", "gpt-oss"])
def test_a_text_of_a_batch_is_what_it_is_alone(name, side, recorder, tmp_path):
    network, file, both = tiny(name), tmp_path / "pass.safetensors", name == "T5"
    batch = {word: torch.tensor(one) for word, one in given(side).items() if one is not None}
    if both and side == "left":  # it takes no positions
        with pytest.raises(ValueError, match=r"Padding comes before the text.* or put the padding after the text"):
            recorder.record(network, number_words(), batch, file, row=1)
        return
    recorder.record(network, number_words(), batch, file, row=1, target="3 4 5" if both else None, heads=[3, 1])
    opened, model = open_capture(file), load_model(network, tokenizer=number_words())
    alone = capture(model, input_ids=TEXTS[1], **{"target": [3, 4, 5]} if both else {})
    assert (opened.input_ids, opened.target_ids) == (alone.input_ids, alone.target_ids)
    for ours, theirs in ((opened.logits, alone.logits), (opened.vectors, alone.vectors)):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)
    for kind, layer, (at, head) in product(alone.kinds, (0, 1), enumerate((1, 3))):
        assert_same_stages(opened.trace(layer, at, kind), alone.trace(layer, head, kind), 2e-5)
        assert opened.certificate(layer, at, kind).holds


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "Llama",
            {word: one for word, one in given("right").items() if one},
            "passes over 2 texts. Choose one with row=0",
        ),
        (
            "Llama",
            ["5 17", "7"],
            r"Give a text, or what tokenizer\(texts, padding=True, return_tensors=\"pt\"\) returns",
        ),
        ("BLOOM", TEXT, "Nothing was recorded"),
        ("DeepSeek V4", TEXT, "has [0-9]+ queries or keys where there are [0-9]+ tokens"),
        ("T5 without a start", TEXT, "names no decoder_start_token_id"),
    ],
)
def test_what_it_would_record_wrongly_is_refused(name, text, words, recorder, tmp_path):
    network = T5ForConditionalGeneration(T5Config(**T5)) if name == "T5 without a start" else tiny(name)
    with pytest.raises(ValueError, match=words):
        recorder.record(network, number_words(), text, tmp_path / "pass")
    assert not (tmp_path / "pass").exists()


def recorded(name, **inputs):
    """The attention calls of a pass in transformers' own code, as an nnsight trace gives them, and the logits."""
    network, seen = tiny(name), []

    def attention(module, *given, **options):
        output = sdpa_attention_forward(module, *given, **options)
        seen.append((((module, *given), options), output))
        return output

    AttentionInterface.register("recorded_by_a_test", attention)
    AttentionMaskInterface.register("recorded_by_a_test", sdpa_mask)
    network.set_attn_implementation("recorded_by_a_test")
    with torch.inference_mode():
        given = {word: torch.tensor(one) for word, one in inputs.items() if one is not None}
        returned = network(**given, **({} if name == "BERT" else {"use_cache": False}))
    return seen, getattr(returned, "logits", None)


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", ["Llama", "GPT-2", "BERT", "Mistral"])
def test_the_text_is_what_it_is_alone(name, side, row, tmp_path):
    calls, logits = recorded(name, **given(side))
    save_nnsight(calls, name, number_words(), path=(file := tmp_path / "pass"), logits=logits, row=row, **given(side))
    opened, alone = open_capture(file), capture(load_model(tiny(name), tokenizer=number_words()), input_ids=TEXTS[row])
    assert opened.tokens() == alone.tokens()
    for layer, head in np.ndindex(2, 4):
        assert_same_stages(opened.trace(layer, head), alone.trace(layer, head), 2e-5)
        assert opened.certificate(layer, head).holds
    if logits is not None:
        assert [token for token, _ in opened.next_tokens(3)] == [token for token, _ in alone.next_tokens(3)]
        np.testing.assert_allclose(opened.logits, alone.logits, rtol=0, atol=2e-5)


READ_ALL, NO_PLACES, LEFT = {"attention_mask": None}, {"position_ids": None}, {"side": "left"}
LATER = {"position_ids": [[0, 1, 2, 3, 4]] * 2}
REFUSED = {  # what the pass is given, what the converter is told, the field and the words of the error
    "two texts": ({}, READ_ALL, "attention_mask", "passes over 2 texts. Choose one with row=0 to row=1"),
    "no such text": ({}, {"row": 2}, "row", "There is no row 2"),
    "a gap": ({}, {"attention_mask": [[1] * 5, [1, 0, 1, 0, 0]]}, "attention_mask", "several in a row"),
    "nothing": ({}, {"attention_mask": [[1] * 5, [0] * 5]}, "attention_mask", "several in a row"),
    "other tokens": ({}, {"input_ids": TEXTS[1]}, "input_ids", "There are 3 input_ids, and the pass has 5 tokens"),
    "positions not known": ({"name": "BERT"} | NO_PLACES, LEFT | NO_PLACES, "position_ids", "Padding comes before"),
    "later positions": (LATER, LEFT | LATER, "position_ids", "have the positions 2 to 4"),
    "padding that was read": (READ_ALL | NO_PLACES, LEFT, "attention_mask", "attend to padding"),
    "padding that an encoder read": ({"name": "BERT"} | READ_ALL, {}, "attention_mask", "attend to padding"),
    "logits of padding": ({"logits": slice(-1, None)}, {}, "logits", "only at padding after it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_the_text_alone_is_refused(case, tmp_path):
    of_pass, told, field, words = REFUSED[case]
    side, name = told.get("side", "right"), of_pass.get("name", "Llama")
    calls, logits = recorded(name, **given(side, **{word: one for word, one in of_pass.items() if word in given(side)}))
    logits = None if logits is None else logits[:, of_pass.get("logits", slice(None))]
    told = given(side, row=1) | {word: one for word, one in told.items() if word != "side"}
    with refused(field, words):
        save_nnsight(calls, name, number_words(), path=tmp_path / "pass", logits=logits, **told)
    assert not (tmp_path / "pass").exists()


def test_padding_that_nobody_speaks_of_is_seen_by_its_token(tmp_path):
    words = number_words()
    words.pad_token = "1"
    calls, logits = recorded("Llama", input_ids=[IDS["right"][1]])
    with pytest.raises(InputError, match="begins or ends with padding"):
        save_nnsight(calls, "Llama", words, IDS["right"][1], tmp_path / "pass", logits)
    mask = MASKS["right"][1]
    save_nnsight(calls, "Llama", words, IDS["right"][1], tmp_path / "pass", logits, attention_mask=mask)
    assert open_capture(tmp_path / "pass").input_ids == (*TEXTS[1],)


def test_a_cache_of_transformer_lens_is_read_in_the_same_way(tmp_path):
    calls, logits = recorded("Llama", **given("right"))
    words = {
        "positional_embedding_type": "rotary",
        "attention_dir": "causal",
        "model_name": "/home/somebody/models/Llama",
    }
    numbers = {"n_layers": 2, "attn_scores_soft_cap": -1, "attn_scale": -1}
    config = SimpleNamespace(**words, **numbers, use_attn_scale=True, use_local_attn=False)
    cache = {}
    for layer, (((_, query, key, value, *_), _), (output, _)) in enumerate(calls):
        named = {"rot_q": query, "rot_k": key, "v": value}
        of_heads = {f"blocks.{layer}.attn.hook_{word}": array.transpose(1, 2) for word, array in named.items()}
        cache |= of_heads | {f"blocks.{layer}.attn.hook_z": output}
    bridge, file = SimpleNamespace(cfg=config, tokenizer=number_words()), tmp_path / "pass"
    with pytest.raises(InputError, match="passes over 2 texts"):
        save_transformer_lens(bridge, cache, IDS["right"][1], file, logits)
    save_transformer_lens(bridge, cache, path=file, logits=logits, row=1, **given("right"))
    opened, alone = open_capture(file), capture(load_model(tiny("Llama")), input_ids=TEXTS[1])
    np.testing.assert_allclose(opened.logits, alone.logits, rtol=0, atol=2e-5)
    assert opened.certificate(1, 2).holds
    assert b"somebody" not in file.read_bytes()


@pytest.mark.parametrize("place", ["/home/somebody/tiny", "C:\\Users\\somebody\\tiny", "~/somebody/tiny/", "tiny"])
def test_a_file_names_no_folders_of_the_machine(place, tmp_path):
    network, file = tiny("Llama"), tmp_path / "pass"
    network.config._name_or_path = place
    record(network, number_words(), "5 17", file)
    assert open_capture(file).model.name == "tiny"
    assert b"somebody" not in file.read_bytes()
    calls, logits = recorded("Llama", input_ids=[TEXTS[0]])
    save_nnsight(calls, place, number_words(), TEXTS[0], file, logits)
    assert open_capture(file).model.name == "tiny"
