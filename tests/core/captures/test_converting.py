"""One text of a batch with padding, as the attention calls of a pass that another library has recorded."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from core import InputError, capture, load_model, open_capture
from core.captures.converting import save_nnsight, save_transformer_lens
from core.record_pass import record
from tests.core.captures.test_opening import assert_same_stages
from tests.core.tiny_models import number_words, tiny
from tests.refusals import refused

TEXTS = ([5, 17, 8, 9, 3], [7, 7, 40])
IDS = {"right": [TEXTS[0], [*TEXTS[1], 1, 1]], "left": [TEXTS[0], [1, 1, *TEXTS[1]]]}
MASKS = {"right": [[1] * 5, [1, 1, 1, 0, 0]], "left": [[1] * 5, [0, 0, 1, 1, 1]]}
POSITIONS = {"right": None, "left": [[0, 1, 2, 3, 4], [0, 0, 0, 1, 2]]}


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


def given(side, **other):
    return {"input_ids": IDS[side], "attention_mask": MASKS[side], "position_ids": POSITIONS[side]} | other


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
    config = SimpleNamespace(
        positional_embedding_type="rotary",
        use_local_attn=False,
        attention_dir="causal",
        n_layers=2,
        attn_scores_soft_cap=-1,
        attn_scale=-1,
        use_attn_scale=True,
        model_name="/home/somebody/models/Llama",
    )
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
