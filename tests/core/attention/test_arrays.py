"""Attention weights from elsewhere: every form in which libraries give them, and what is wrong with them by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as t

from core import InputError
from core.attention import matrix_files
from core.attention.arrays import attention_arrays
from core.notebook.view import view
from tests.core.attention.test_matrix_files import npy_header, npz, zipped
from tests.core.tiny_models import SMALL, randomised, tiny
from tests.refusals import refused


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.full(shape[-1], 0.3), shape[:-1])


def test_every_form_gives_the_same_heads(tmp_path):
    network = randomised(t.BertModel(t.BertConfig(**SMALL, attn_implementation="eager")))
    returned = network.eval()(torch.arange(3, 12)[None], output_attentions=True).attentions  # with a gradient
    stacked = torch.cat(returned).detach()  # [layers, heads, queries, keys], as TransformerLens stacks patterns
    path = tmp_path / "attentions.npz"
    np.savez_compressed(path, attentions=stacked.numpy(), tokens=np.array(list("abcdefghi")))
    forms = {
        "transformers": (returned, "012345678"),
        "lists": ([layer[0].tolist() for layer in returned], "012345678"),
        "batches": (torch.stack(returned), "012345678"),
        "TransformerLens": (stacked, "012345678"),
        "NumPy": (stacked.numpy(), "012345678"),
        "NPZ": (path, "abcdefghi"),
        "another name": (npz(x=stacked.numpy(), tokens=np.array(list("abcdefghi"))), "abcdefghi"),
    }
    for name, (given, tokens) in forms.items():
        arrays = attention_arrays(given)
        assert (arrays.layers(), arrays.heads(), arrays.shape) == (2, 4, (9, 9)), name
        assert arrays.tokens() == (tuple(tokens), tuple(tokens)), name
        for place in np.ndindex(2, 4):
            np.testing.assert_array_equal(arrays.weights(*place), stacked[place].numpy(), err_msg=name)
    one_layer = attention_arrays(stacked[1])
    np.testing.assert_array_equal(one_layer.weights(0, 3), stacked[1, 3].numpy())
    assert attention_arrays(stacked[1, 3]).heads() == 1
    half = attention_arrays([layer.bfloat16() for layer in returned])
    np.testing.assert_array_equal(half.weights(1, 2), stacked[1, 2].bfloat16().float().numpy())
    # The rows of each are within what its own rounding explains, and those in half precision not within that of the other.
    exact, rounded = one_layer.weights(0, 2), half.weights(1, 2)
    errors = [abs(one.sum(axis=1, dtype=float) - 1).max() for one in (exact, rounded)]
    assert errors[0] < one_layer.rounding(0)
    assert one_layer.rounding(0) < errors[1] < half.rounding(1)


def test_tokens_of_queries_and_of_keys():
    given = weights(2, 3, 2, 5)
    queries, keys = ["<b>", "b"], np.array(list("abcde"))
    assert attention_arrays(given, (queries, keys)).tokens() == (("<b>", "b"), tuple("abcde"))
    file = npz(attentions=given, query_tokens=np.array(queries), key_tokens=keys)
    assert attention_arrays(file).tokens() == (("<b>", "b"), tuple("abcde"))
    assert attention_arrays(file, (["x", "y"], keys)).tokens()[0] == ("x", "y")
    assert attention_arrays(weights(1, 1, 2, 2), ["a", "b"]).tokens() == (("a", "b"), ("a", "b"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.nan, r"Layer 2, head 1: the weight of query 3 \('d'\) for key 0 \('a'\) is nan, the first of 2"),
        (np.inf, "Layer 2, head 1: .* is inf"),
        (-0.5, "Layer 2, head 1: .* is -0.5, .*scores, before the softmax"),
        (1e300, r"Layer 2, head 1: .* is 1e\+300"),  # whose sums would not be finite in float32
    ],
)
def test_numbers_that_are_no_weights_are_named_by_layer_and_head(value, words):
    given = weights(3, 4, 5, 5)
    given[2, 1, 3, 0] = given[2, 1, 4, 2] = value
    arrays = attention_arrays(given, list("abcde"))
    arrays.weights(2, 0)
    with refused("attentions", words):
        arrays.weights(2, 1)


BATCH = weights(2, 4, 5, 5)
WRONG = {
    "no layers": ((), None, "no layers.*eager"),
    "fused attention": ((None, None), None, "Layer 0 is None.*eager"),
    "a batch": ((BATCH, BATCH), None, r"Layer 0 holds a batch of 2 texts.*\(2, 4, 5, 5\)"),
    "other heads": ((BATCH[0], BATCH[1, :3]), None, r"Layer 1 .*\(3, 5, 5\), but layer 0 has \(4, 5, 5\)"),
    "no queries": ((BATCH[0, :, :0],), None, "Layer 0 is empty"),
    "a row": (np.ones(4), None, r"shape \(4,\)"),
    "layers of heads": ([BATCH[0, 0]], None, r"Layer 0 has the shape \(5, 5\)"),
    "complex": (torch.zeros(1, 1, 2, 2, dtype=torch.complex64), None, "not an array of numbers.*complex64"),
    "records": (np.zeros((1, 1, 2, 2), [("a", "f4")]), None, "not an array of numbers"),
    "too many heads": (np.zeros((200, 100, 1, 1), bool), None, "200 layers × 100 heads are too many"),
    "too many layers": (np.zeros((10**7, 1, 1, 1), bool), None, "layers × 1 heads are too many"),
    "too many keys": (np.zeros((1, 1, 1, 2**16 + 1), bool), None, "1 queries × 65,537 keys are too many"),
    "texts": (np.array(["a"]), None, "not an array of numbers"),
    "rows of different lengths": ([[[[0.5], [0.5, 0.5]]]], None, "Layer 0 is not an array"),
    "too few tokens": (BATCH, ["a"] * 4, "4 query tokens, but the arrays have 5"),
    "one list for two": (BATCH[:, :, :2], ["a", "b"], r"2 key tokens.*give \(query tokens, key tokens\)"),
    "numbers as tokens": (BATCH, [1, 2, 3, 4, 5], "Token 0 .* is int"),
    "a text as tokens": (BATCH, "abcde", "one text"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_shapes_and_tokens_are_refused(name):
    given, tokens, words = WRONG[name]
    with refused("attentions" if tokens is None else "tokens", words):
        attention_arrays(given, tokens)


@pytest.mark.parametrize("dtype", ["?", ">i2", "<u8", "<f2", ">f2", ">f4", "<f8", ">f8", "g"])
def test_every_real_dtype_is_read_exactly(dtype):
    given = np.zeros((1, 2, 3, 3), dtype)
    given[..., 1] = 1
    if given.dtype.kind == "f":
        tiny = np.finfo(given.dtype.newbyteorder("=")).smallest_subnormal
        given[0, 1] = [[-0.0, 0.5, 0.5], [tiny, 1, 0], [-0.0, 0, -0.0]]
    arrays = attention_arrays(given)
    assert arrays.dtype == np.dtype({"f2": "f2", "f8": "f8"}.get(dtype[1:], "f4"))
    read = arrays.weights(0, 1)
    np.testing.assert_array_equal(read, given[0, 1].astype(read.dtype))
    assert read.dtype == ("f8" if arrays.dtype == "f8" else "f4")
    sums = arrays.row_sums(0, read)
    assert (sums.least, sums.most) == (1, pytest.approx(1, abs=1e-7))
    assert (sums.is_off, sums.empty) == (False, int(given.dtype.kind == "f"))


def claiming(shape: tuple[int, ...]) -> bytes:
    """A file whose array says that it has this shape, and holds 100 bytes."""
    header = npy_header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n")
    return zipped([("attentions.npy", header + bytes(100))])


FILES = {
    "cut short": (npz(attentions=BATCH)[:900], "not an NPZ"),
    "no archive": (b"{}", "not an NPZ"),
    "pickled": (npz(attentions=np.array([None])), "pickled"),
    "two arrays": (npz(a=BATCH, b=BATCH), "no array named attentions; the file holds 'a.npy', 'b.npy'"),
    "numbers as tokens": (npz(attentions=BATCH, tokens=np.arange(5)), "tokens is not a list of texts"),
    "no letters": (
        npz(attentions=BATCH, tokens=np.full(5, 0x7FFFFFFF, "<u4").view("<U1")),
        "tokens holds something that is not text",
    ),
    "too large": (npz(attentions=np.zeros((4, 4, 100, 100))), r"1,280,\d+ bytes to read; at most 1,000,000"),
    "many steps": (npz(compress=False, **{"attentions.999999.999999": BATCH[:1]}), "1,000,000,000,000 arrays to read"),
    "steps of objects": (
        npz(compress=False, **{"attentions.0.0": BATCH[:1], "attentions.1.0": np.array([None])}),
        "pickled",
    ),
    "a step of texts": (
        npz(compress=False, **{"attentions.0.0": BATCH[:1], "attentions.1.0": np.array(["a"])}),
        "holds '<U1'",
    ),
    "a lost step": (
        npz(compress=False, **{"attentions.0.0": BATCH[:1], "attentions.2.0": BATCH[:1]}),
        r"Layer 0 of step 1 has the shape \(\)",
    ),
    "complex": (npz(attentions=BATCH.astype(complex)), "holds 'complex128'"),
    "ten gigabytes": (claiming((10, 10, 5_000, 5_000)), "announces 10,000,000,000 bytes of numbers but holds 100"),
    "sizes below zero": (claiming((-1, -1, 5, 5)), "header of the NPY file cannot be read"),
    "no heads": (npz(attentions=np.zeros((2, 0, 5, 5))), "the array is empty"),
    "no file": (Path("/there/is/nothing.npz"), "no such file"),
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_files_are_refused(name):
    data, words = FILES[name]
    with pytest.raises(InputError, match=words):
        attention_arrays(data, max_bytes=1_000_000)
    assert matrix_files.MAX_WEIGHTS_BYTES > 10**9  # without such a limit


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["▁The", "▁cap", "ital", "<s>"], [" The", " cap", "ital", "<s>"]),
        (["Ġorġ", "u", "Ġużi"], ["Ġorġ", "u", "Ġużi"]),
        (["user", "Ċ", "Hi"], ["user", "\n", "Hi"]),
        (["Ċar", "é", ""], ["Ċar", "é", ""]),
        ([" The", "Ġcap"], [" The", "Ġcap"]),
        (["The", "ĠĊ", "ĠÃ", "©"], ["The", " \n", " ‹C3›", "‹A9›"]),
        (["Straße", "kuća", "señor", "ĠÄĩ", "Ãł"], ["Straße", "kuća", "señor", " ć", "à"]),
        (["<|im_start|>", "Ġ<b>", "｜x｜"], ["<|im_start|>", " <b>", "｜x｜"]),
    ],
)
def test_texts_stay_as_they_are(given, shown):
    assert list(attention_arrays(np.full((len(given), len(given)), 1 / len(given)), given).key_tokens) == shown


# --- what `generate` returns step by step, against the weights of one pass over the whole text


IDS = torch.tensor([[3, 14, 15, 9, 26]])
WRITTEN = 6


def written(name: str, **options: Any):
    """(the network, what it returns for the tokens that it writes)."""
    network = tiny(name)
    network.set_attn_implementation("eager")
    asked = {"max_new_tokens": WRITTEN, "min_new_tokens": WRITTEN, "do_sample": False, "return_dict_in_generate": True}
    return network, network.generate(IDS, output_attentions=True, pad_token_id=0, **asked | options)  # type: ignore[operator]


def agree(given, expected, **how: Any) -> None:
    """Both are the weights of all layers, and those of one pass are a tuple of tensors."""
    arrays = attention_arrays(given, **how)
    assert arrays.layers() == len(expected)
    for layer, whole in enumerate(expected):
        for head in range(arrays.heads()):
            np.testing.assert_allclose(arrays.weights(layer, head), whole[0, head].detach(), rtol=0, atol=1e-6)


def as_file(steps: tuple, **others: np.ndarray) -> bytes:
    """As docs/arrays.md says."""
    numbered = {
        f"attentions.{step}.{layer}": weights.numpy()
        for step, layers in enumerate(steps)
        for layer, weights in enumerate(layers)
        if weights is not None
    }
    return npz(compress=False, **numbered, **others)


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Mistral"])  # Mistral keeps the last keys of its window alone
def test_the_steps_of_a_decoder(name: str) -> None:
    network, returned = written(name)
    read = returned.sequences[:, :-1]  # the last token was not read
    whole = network(read, output_attentions=True).attentions
    agree(returned.attentions, whole)
    agree(as_file(returned.attentions), whole)
    tokens = [str(number) for number in returned.sequences[0].tolist()]
    assert attention_arrays(returned.attentions, tokens).query_tokens == tuple(tokens[:-1])
    assert attention_arrays(returned.attentions, tokens[:-1]).key_tokens == tuple(tokens[:-1])


@pytest.mark.parametrize("stop", [None, 0, 1])
@pytest.mark.parametrize("name", ["Llama", "T5"])
def test_the_steps_of_one_beam(name: str, stop: int | None) -> None:
    """Each token of the text that is returned was read at another place among the beams."""
    options = {
        "num_beams": 4,
        "num_return_sequences": 4,
        "early_stopping": True,
        "min_new_tokens": 1,
        "eos_token_id": stop,
    }
    network, returned = written(name, **options)
    places = {tuple(row.tolist()) for row in returned.beam_indices}
    assert any(len({*row}) > 1 for row in places)
    for text, beams in zip(returned.sequences, returned.beam_indices, strict=True):
        given = returned.decoder_attentions if name == "T5" else returned.attentions
        count = int((beams >= 0).sum()) + (0 if name == "T5" else IDS.shape[1]) - 1
        read = {"decoder_input_ids": text[None, : count + 1]} if name == "T5" else {}
        ids = IDS if name == "T5" else text[None, :count]
        whole = network(ids, **read, output_attentions=True)
        expected = whole.decoder_attentions if name == "T5" else whole.attentions
        agree(given, expected, beams=beams)
        agree(as_file(given, beams=beams.numpy()), expected)


@pytest.mark.parametrize("beams", [[0, 4], [[0, 0]], [-1], [0.0], [0] * 9, []])
def test_beams_that_these_steps_do_not_have(beams: list) -> None:
    steps = [(square(4, 2, 3, 3),), (square(4, 2, 1, 4),)]
    with refused("beams", "one row of beam_indices: for each of 2 steps at most, a place from 0 to 3"):
        attention_arrays(steps, beams=beams)


def test_the_steps_of_an_encoder_decoder() -> None:
    network, returned = written("T5")
    whole = network(IDS, decoder_input_ids=returned.sequences[:, :-1], output_attentions=True)
    agree(returned.decoder_attentions, whole.decoder_attentions)
    agree(returned.cross_attentions, whole.cross_attentions)


def test_a_layer_without_weights_is_left_out_and_said() -> None:
    _, returned = written("GPT-2")
    steps = tuple((step[0], None, step[1]) for step in returned.attentions)
    for given in (steps, as_file(steps)):
        arrays = attention_arrays(given)
        assert (arrays.layers(), arrays.left_out) == (2, (1,))
    assert "Layers without weights are left out, and not counted here. In the model they are 1." in view(steps).notes


def test_a_sliding_window_over_a_long_text_is_refused_before_it_takes_the_memory() -> None:
    step = (square(1, 4, 1, 1),)
    with refused("attentions", "20,001 queries × 20,001 keys of every head are too many to join. Give fewer steps"):
        attention_arrays(((square(1, 4, 2, 2),), *[step] * 19_999))
    with refused("attentions", "801 queries × 801 keys of every head are too many"):  # of a file far fewer are read
        attention_arrays(as_file(((square(1, 4, 2, 2),), *[step] * 799)), max_bytes=2**20)


def square(*shape: int) -> torch.Tensor:
    return torch.full(shape, 1 / shape[-1])


@pytest.mark.parametrize(
    ("steps", "says"),
    {
        "beams": (((square(2, 4, 3, 3),), (square(2, 4, 1, 4),)), "2 texts or beams.*num_beams=1"),
        "layers": (((square(1, 4, 3, 3),), (square(1, 4, 1, 4),) * 2), "different numbers of layers"),
        "heads": (((square(1, 4, 3, 3),), (square(1, 2, 1, 4),)), "Layer 0 of step 1 has the shape"),
        "two queries": (((square(1, 4, 3, 3),), (square(1, 4, 2, 5),)), "with one query from step 1 on"),
        "too many keys": (((square(1, 4, 3, 3),), (square(1, 4, 1, 9),)), "9 keys, where 4 tokens were there"),
        "fewer keys of a source": (((square(1, 4, 1, 3),), (square(1, 4, 1, 2),)), "2 keys, where 3 tokens were there"),
        "a step without weights": (((square(1, 4, 3, 3),), (None,)), "Layer 0 of step 1 has the shape"),
        "no steps of arrays": (((0.25, 0.75), (1.0, 0.0)), "Layer 0 of step 0 has the shape"),
    }.values(),
)
def test_steps_that_cannot_be_joined(steps: tuple, says: str) -> None:
    with refused("attentions", says):
        attention_arrays(steps)
