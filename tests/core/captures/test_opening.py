"""Passes that are saved and opened again: the same to the last bit, without the model, and nothing in a file is trusted."""

import json
import struct
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
import transformers as t
from safetensors.torch import load_file, safe_open, save_file

import core
from core import Edits, InputError, capture, load_model, logit_attribution, open_capture
from core.captures.__main__ import command
from core.captures.opening import unchecked
from core.exporting.exhibit import KeptHead
from core.heads.views import HeadView, ViewMatrix
from core.models.words import token_classes, word_starts
from core.notebook import bundles
from core.record_pass import FORMAT, SEAL, PassFile, sealed
from tests.conftest import TEXTS
from tests.core.models.vocabularies import VOCABULARIES
from tests.core.passes import every_head
from tests.core.tiny_models import GROUPED, number_words, randomised, tiny
from tests.core.tiny_seeing import PLACES, SEEING, seeing
from tests.refusals import exit_status, refused

TEXT = "5 17 8 9 3 4 5 6"
EDITS = Edits(
    mute_heads={(0, 1)},
    scale_by={(1, 2): 2.0},
    mask={(1, 0): "window 2"},
    block_pairs={(0, 2): [(4, 1)]},
    softmax={(1, 3): "hardmax"},
    pattern={(0, 3): "previous", (1, 1): {2: {0: 0.25, 5: 0.75}}},
)
STAGES = ("query", "key", "value", "bias", "mask", "raw", "scaled", "masked", "weights", "output")
VECTORS = ("query", "key", "value", "output")


@cache
def taken(name, edits=None, dtype="float32", text=TEXT):
    model = load_model(tiny(name).to(getattr(torch, dtype)), tokenizer=number_words())
    if model.reads_images:
        return capture(model, image=np.zeros((12, 12, 3)))
    target = {"target": [3, 4, 5]} if model.is_encoder_decoder else {}
    return capture(model, text, edits=edits, **target)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "pass.safetensors"


def opened_again(saved, file):
    """What was saved, from its file: the same in everything, and once more saved the same file."""
    saved.save(file)
    opened = open_capture(file)
    assert_the_same(saved, opened)
    again = file.with_name("again.safetensors")
    opened.save(again)
    assert again.read_bytes() == file.read_bytes()
    return opened


def assert_the_same(one, other):
    """In every number of every head, and in what is said of them."""
    for of in ("kinds", "edits", "input_ids", "target_ids", "sides", "grid"):
        assert getattr(one, of) == getattr(other, of)
    for name in ("logits", "vectors"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for kind in one.kinds:
        assert one.tokens(kind) == other.tokens(kind)
        assert core.layer_labels(one, kind) == core.layer_labels(other, kind)
        assert one.layers(kind) == other.layers(kind)
    for at in every_head(one):
        assert one.certificate(*at) == other.certificate(*at)
        assert_same_stages(one.trace(*at), other.trace(*at))


def assert_same_stages(one, other, atol=0):
    """In two traces; by default to the last bit."""
    for stage in STAGES:
        ours, theirs = (getattr(of, stage) for of in (one, other))
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol, err_msg=stage)


OF_OTHER_TEXTS = Edits(
    patch_heads={(0, 1)}, patch_from="7 7 8 9 3 4 5 6", mean_heads={(1, 2)}, mean_over="5 6", softmax={1: "sigmoid"}
)


@pytest.mark.parametrize(
    ("name", "edits"),
    [*product(("BERT", "Llama", "T5", "Gemma 2", "gpt-oss"), (None, EDITS)), ("ViT", None), ("Llama", OF_OTHER_TEXTS)],
)
def test_every_trace_is_the_same_after_saving_and_opening(name, edits, file):
    saved = taken(name, edits, "bfloat16" if name == "Llama" else "float32")
    opened = opened_again(saved, file)
    assert core.head_metrics(opened).equals(core.head_metrics(saved))
    assert bundles.capture(opened) == bundles.capture(saved)
    assert KeptHead.of(opened, 1, 2, saved.kinds[0]).same_as(KeptHead.of(saved, 1, 2, saved.kinds[0]))
    assert_the_same(saved, open_capture(file.read_bytes()))


@pytest.mark.parametrize("model", ["minilm", "smollm"])
def test_the_tokens_of_a_real_model_are_known_without_its_tokenizer(model, file, request):
    model = request.getfixturevalue(model)
    saved = capture(model, TEXTS[2])
    saved.save(file)
    opened = open_capture(file)
    assert opened.tokens() == saved.tokens()
    assert opened.model.text_of(opened.input_ids[1:3]) == saved.model.text_of(saved.input_ids[1:3])
    ours, theirs = (token_classes(one.model.tokenizer, one.input_ids) for one in (saved, opened))
    np.testing.assert_array_equal(ours, theirs)
    words = [ViewMatrix(one, "self", HeadView(heads=((0, 0),), by_word=True)).labels for one in (saved, opened)]
    assert vars(words[0]) == vars(words[1])
    if saved.logits is not None:
        assert opened.next_tokens(20) == saved.next_tokens(20)


@pytest.mark.parametrize(
    "name", ["letters with accents, added", "bytes of ByT5", "Maltese in SentencePiece", "WordPiece"]
)
def test_what_tokens_write_is_known_without_the_tokenizer(name, file):
    case, network = VOCABULARIES[name], t.LlamaForCausalLM(t.LlamaConfig(**GROUPED | {"vocab_size": 400}))
    saved = capture(load_model(randomised(network), tokenizer=case.make()), case.text)
    opened = opened_again(saved, file)
    assert "|".join(opened.tokens()[0]) == case.tokens
    labels = [ViewMatrix(one, "self", HeadView(heads=((0, 0),), by_word=True)).labels for one in (saved, opened)]
    assert "|".join(labels[0].keys) == "|".join(labels[1].keys) == case.words
    assert opened.next_tokens(20) == saved.next_tokens(20)


@pytest.mark.parametrize("model", ["minilm", "smollm"])
def test_files_of_earlier_versions_say_how_pieces_are_spelled(model, file, request):
    saved = capture(request.getfixturevalue(model), "An unbelievably naïve test, 東京 \n x.")
    saved.save(file)
    with safe_open(file, "pt") as opened:
        content = json.loads(opened.metadata()[FORMAT])
    del content["vocabulary"]["written"], content[SEAL]
    arrays = load_file(file)
    save_file(arrays, file, {FORMAT: sealed(json.dumps(content), arrays)})
    earlier = open_capture(file)
    assert earlier.tokens() == saved.tokens()
    words = [word_starts(one.model.tokenizer, one.input_ids).tolist() for one in (saved, earlier)]
    assert words[0] == words[1]
    earlier.save(again := file.with_name("again"))
    assert open_capture(again).tokens() == saved.tokens()


@pytest.mark.parametrize("name", ["Qwen2.5-VL", "Idefics 3", "LLaVA"])
def test_a_pass_over_an_image_with_a_text_knows_where_its_tokens_lie(name, file):
    picture = np.random.default_rng(0).integers(0, 256, (60, 1500, 3), dtype=np.uint8)
    saved = capture(seeing(name), PLACES[name], image=picture[:, :90])
    opened = opened_again(saved, file)
    np.testing.assert_array_equal(opened.image, picture[:, :90])
    for kind in saved.kinds:
        np.testing.assert_array_equal(opened.image_boxes(kind), saved.image_boxes(kind))
        for one, other in zip(saved.image_grids(kind), opened.image_grids(kind), strict=True):
            for part in ("across", "down", "tokens"):
                np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    if name == "LLaVA":  # a large image is kept small
        capture(seeing(name), PLACES[name], image=picture).save(file)
        np.testing.assert_array_equal(open_capture(file).image, picture[::3, ::3])


def test_what_needs_the_model_says_so(file):
    taken("Llama").save(file)
    opened = open_capture(file)
    for need in (
        lambda: capture(opened.model, TEXT),
        lambda: capture(opened.model, input_ids=[1, 2], edits=Edits(mute_heads={(0, 0)})),
        lambda: logit_attribution(opened),
        lambda: core.logit_lens(opened),
        lambda: core.head_weights(opened.model, 0, 0),
    ):
        with refused("model", r"opened from a file.*Load the model itself"):
            need()
    assert "as a file describes it" in repr(opened.model)
    assert "LlamaForCausalLM" in bundles.model(opened.model)["text/html"]


def test_what_is_kept_of_masks_and_biases_grows_with_the_text_and_not_with_its_square(file):
    for name, form in (("Gemma 2", "runs.0"), ("T5", "by_distance.0")):
        sizes = []
        for tokens in (16, 32):
            taken(name, text=" ".join(["7 5"] * (tokens // 2))).save(file)
            arrays = load_file(file)
            kept = [array for part, array in arrays.items() if part.startswith(("runs", "by_", "bias"))]
            sizes.append(sum(array.nbytes for array in kept))
            assert form in arrays
        assert sizes[1] <= 2.1 * sizes[0]


def test_a_mask_of_any_shape_and_an_additive_one_with_numbers_in_it():
    """Keys that are parted by others, rows without any, and numbers that are added."""
    torch.manual_seed(0)
    allowed, file = torch.rand(3, 7, 9) < 0.5, PassFile()
    allowed[:, 2] = False
    bias = torch.randn(3, 7, 9)
    both = torch.where(allowed, bias, torch.finfo(torch.float32).min)
    arrays = {part: torch.zeros(3, rows, 2) for part, rows in zip(VECTORS, (7, 9, 9, 7), strict=True)}
    entries = [file.add("self", 0, arrays, mask=mask, scale=1.0, softcap=None, label="") for mask in (allowed, both)]
    assert entries[0]["mask"] == entries[1]["mask"]  # equal ones are kept once
    assert entries[0]["bias"] == "none"
    drawn = torch.zeros(3, 7, 9, dtype=torch.bool)
    for head, query, run, _ in np.ndindex(*file.arrays[entries[0]["mask"]].shape):
        first, stop = file.arrays[entries[0]["mask"]][head, query, run]
        drawn[head, query, first:stop] = True
    assert torch.equal(drawn, allowed)
    assert torch.equal(file.arrays[entries[1]["bias"]][allowed], bias[allowed])


@cache
def file_of(of):
    """What is in the file of such a pass."""
    if of in SEEING:
        saved = capture(seeing(of), PLACES[of], image=np.zeros((30, 50, 3), np.uint8))
    else:
        edits = {"edited": EDITS, "of other texts": OF_OTHER_TEXTS}.get(of)
        saved = taken(of) if edits is None else taken("Llama", edits)
    with TemporaryDirectory() as folder:
        saved.save(file := Path(folder) / "pass")
        return file.read_bytes()


def changed(file, of, change):
    """The file of such a pass with other arrays or another description, sealed anew, as whoever wrote it so would have."""
    file.write_bytes(file_of(of))
    with safe_open(file, "pt") as opened:
        about = opened.metadata()
    arrays = {name: array.clone() for name, array in load_file(file).items()}
    content = json.loads(about[FORMAT])
    change(arrays, content)
    content.pop(SEAL, None)
    save_file(arrays, file, {FORMAT: sealed(json.dumps(content), arrays)})
    return file


def test_components_that_earlier_versions_kept_are_left_aside_and_said(file):
    def keep(arrays, content):
        arrays["components.final"] = torch.ones(1, 2, 8)
        arrays["components.final.parts"] = torch.arange(2, dtype=torch.int32)
        content["components"] = {"factor": None, "each": [["embedding", "", None, None], ["mlp", "", 0, None]]}

    opened = open_capture(changed(file, "Llama", keep))
    assert_the_same(opened, taken("Llama"))
    assert "also holds what components gave" in " ".join(opened.model.notes)
    with refused("model", "Attribution needs the model itself"):
        logit_attribution(opened)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        *(("Gemma 2", f"self.0.{part}") for part in VECTORS),
        ("Gemma 2", "runs.0"),
        ("T5", "by_distance.0"),
        ("gpt-oss", "self.0.sinks"),
    ],
)
def test_one_changed_number_turns_a_certificate_red(name, array, file, capsys):
    taken(name).save(file)
    assert exit_status(command, "check", str(file)) == 0

    def change(arrays, _):
        arrays[array].view(-1)[{"self.0.query": -1, "runs.0": -2}.get(array, 0)] += 1

    kind = "encoder" if name == "T5" else "self"
    opened = open_capture(changed(file, name, change))
    assert not all(opened.certificate(0, head, kind).holds for head in range(opened.heads(kind)))
    assert exit_status(command, "check", str(file)) == 1
    assert "does not agree with its output: " in capsys.readouterr().out


def _array(name, of):
    """Another array in the place of one, or none."""

    def change(arrays, _):
        array = arrays.pop(name)
        if of is not None:
            arrays[name] = of(array)

    return change


def _said(*path, to):
    def change(_, content):
        place = content
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = to

    return change


def _sides(sides):
    return lambda arrays, _: arrays.update(sides=torch.tensor(sides, dtype=torch.int8))


def _renamed(before, after):
    def change(_, content):
        lines = [line.replace(before, after) for line in content["edits"]]
        assert lines != content["edits"]
        content["edits"] = lines

    return change


def _nan(array):
    array[0, 1, 2] = torch.nan
    return array


def _narrower(array):
    return array[:, :-1].clone()


def _shorter(array):
    return array[:-1].clone()


LAYER, GRID = ("calls", "self", 0), ("on_image", "self", 0)
EDIT = (*LAYER, "edits", 0)
FALLING = [[1 - of / 6, 1 - of / 7] for of in range(6)]
COLOURS = "is not red, green and blue of at most 512"
# Of a pass of Gemma 2, and below of others.
CHANGES = {
    "NaN": (_array("self.1.value", _nan), "“self.1.value” holds NaN, infinity or numbers beyond"),
    "whole numbers": (_array("self.0.key", lambda array: array.int()), "“self.0.key” holds int32"),
    "bools": (_array("self.0.key", lambda array: array > 0), "“self.0.key” holds BOOL"),
    "too large": (_array("self.0.key", lambda array: array * 0 + 1e29), "scores of self.0 would be too large"),
    "another size": (_array("self.0.key", _narrower), "do not fit each other"),
    "tokens left out": (_array("input_ids", _shorter), "tokens do not fit its self attention"),
    "empty": (_array("self.0.output", lambda array: array[:0].clone()), "at least 1"),
    "flat": (_array("self.0.output", lambda array: array.flatten()), "not 3 dimensions"),
    "another precision": (_array("self.0.value", lambda array: array.half()), "differ in precision"),
    "keys beyond the text": (_array("runs.0", lambda array: array + 5), "names keys that are not there"),
    "mask of fewer": (_array("runs.0", lambda array: array[:, 1:].clone()), "does not fit the queries and keys"),
    "another head count": (_array("self.1.query", lambda array: array[:2].clone()), "do not fit each other"),
    "tokens below 0": (_array("input_ids", lambda array: array - 50), "not from 0"),
    "a mask by another name": (_said(*LAYER, "mask", to="self.0.key"), "not none, causal or runs"),
    "a bias by another name": (_said(*LAYER, "bias", to="../x"), "not none, by_distance or bias"),
    "a missing bias": (_said(*LAYER, "bias", to="by_distance.7"), "is missing"),
    "a scale in words": (_said(*LAYER, "scale", to="1"), "scale is not a number"),
    "a soft cap of 0": (_said(*LAYER, "softcap", to=0), "is not above 0"),
    "a kind that is none": (_said("calls", to={"sideways": []}), "not lists of layers by kind"),
    "no layers": (_said("calls", to={"self": []}), "no layer of self attention"),
    "a dtype that is none": (_said("model", "dtype", to="int8"), "dtype is not one of"),
    "a name that never ends": (_said("model", "name", to="x" * 2_000), "at most 1,000 characters"),
    "tokens that never end": (_said("vocabulary", "pieces", to={"5": "x" * 2_000}), "at most 1,000 characters"),
    "tokens by names": (_said("vocabulary", "pieces", to={"²": "x"}), "not a table of tokens"),
    "edits that are none": (_said("edits", to=["format the disk"]), "edits cannot be read"),
    "a token without a piece": (_array("input_ids", lambda of: of * 0 + 99), "lacks token 99, a token of the text"),
    "likely next tokens without pieces": (
        _said("vocabulary", "pieces", to=dict.fromkeys(TEXT.split(), "x")),
        "one of the most probable next tokens",
    ),
    "a logit that nothing can have": (_array("logits", lambda array: array * 0 - torch.inf), "allow no next token"),
    "too many edits": (_said("edits", to=["mute 0.1"] * 10_001), "it names 10,001 edits"),
    "fewer heads in one layer": (
        lambda arrays, _: arrays.update({f"self.1.{part}": arrays[f"self.1.{part}"][:2].clone() for part in VECTORS}),
        "differ in their numbers of heads",
    ),
    "no tokens": (_array("input_ids", None), "neither the tokens of a text nor an image"),
    "tokens that are fractions": (_array("input_ids", lambda array: array.float()), "“input_ids” holds float32"),
    "tokens of 40 bits": (_array("input_ids", lambda array: array + 2**40), "not from 0 to 2,147,483,647"),
    "no logits": (_array("logits", None), "does not hold what it says that its model gives"),
    "logits of a model that predicts nothing": (_said("model", "predicts", to=False), "does not hold what it says"),
    "an encoder that is not there": (_said("model", "both", to=True), "says that its model has an encoder"),
    "a dtype that allows more rounding": (_said("model", "dtype", to="bfloat16"), "outputs are in another precision"),
    "another soft cap": (_said(*LAYER, "label", to="soft cap 7"), "is called “soft cap 7” and is not that"),
    "sinks that are not there": (_said(*LAYER, "label", to="sinks"), "is called “sinks” and is not that"),
    "two layers of one number": (_said("calls", "self", 1, "layer", to=0), "do not rise"),
    "edits of a plain pass": (_said("edits", to=["mute 0.1"]), "its edits are not the changes of its heads"),
    "edits of a layer beyond": (_said("edits", to=["mute 7"]), "its edits do not fit its layers"),
    "tokens that write nothing": (_said("vocabulary", "written", to={}), "does not say what token"),
    "tokens that write no bytes": (
        _said("vocabulary", "written", "5", to=["5g", True, True]),
        "does not say what token 5",
    ),
    "special tokens that are not there": (_said("vocabulary", "special", to=[99]), "special tokens that are not in it"),
    "an array more": (lambda arrays, _: arrays.update(more=torch.zeros(1)), "“more”, of which its description says"),
    "another pooling": (_said("model", "sentence", "pooling", to=["median"]), "how its model makes a sentence vector"),
    "a head that is not there": (_said(*LAYER, "edits", to=[{"head": 9}]), "no head 9: they run from 0 to 3"),
}
OF_OTHERS = {
    "sides of fewer tokens": ("BERT", _sides([0, 0, 0]), "its sides do not fit its tokens"),
    "words that are special tokens": ("BERT", _sides([-1] * 8), "its sides do not fit its tokens"),
    "the second text first": ("BERT", _sides([1, 0] * 4), "its sides do not fit its tokens"),
    "fewer sinks than heads": ("gpt-oss", _array("self.0.sinks", _shorter), "not one number a head"),
    "a bias of fewer distances": ("T5", _array("by_distance.0", _narrower), "does not fit the queries"),
    "a bias of fewer keys": (
        "Gemma 2",
        lambda arrays, content: (
            arrays.update({"bias.0": torch.zeros(1, 1, 3)}),
            _said(*LAYER, "bias", to="bias.0")(arrays, content),
        ),
        "does not fit the queries",
    ),
    "pairs beyond the text": ("edited", _said(*EDIT, "blocked", to=[[99, 0]]), "pairs that are not there"),
    "weights beyond the text": ("edited", _said(*EDIT, "painted", to=[[8, [0], [1.0]]]), "weights that are not"),
    "an output of fewer numbers": ("edited", _array("self.0.instead.1", _narrower), "does not fit the values"),
    "fewer vectors": ("BERT", _array("vectors", _shorter), "vectors do not fit its tokens"),
    **{
        f"other edits: {before}": ("edited", _renamed(before, after), "not the changes of its heads")
        for before, after in (("0.1", "0.3"), ("scale 2", "scale 3"), ("window 2", "window 3"), ("previous", "first"))
    },
    "other edits of other texts": ("of other texts", _renamed("sigmoid", "hardmax"), "not the changes of its heads"),
    "no edits": ("edited", _said("edits", to=[]), "not the changes of its heads"),
    "a muted head that gives something": ("edited", _array("self.0.instead.1", lambda of: of + 1), "not the changes"),
    "image of another shape": ("LLaVA", _array("image", lambda _: torch.zeros(5, 5, 4)), "holds float32"),
    "image of four colours": ("LLaVA", _array("image", lambda _: torch.zeros(5, 5, 4).byte()), COLOURS),
    "image too large": ("LLaVA", _array("image", lambda _: torch.zeros(513, 5, 3).byte()), COLOURS),
    "no image": ("LLaVA", _array("image", None), "does not fit the rest"),
    "tokens twice": ("LLaVA", _array("grid.self.0", lambda grid: grid * 0), "names tokens twice"),
    "tokens beyond": ("LLaVA", _array("grid.self.0", lambda grid: grid + 999), "that are not there"),
    "no grid": ("LLaVA", _array("grid.self.0", None), "is missing"),
    "rows without height": ("LLaVA", _said(*GRID, "down", to=[[0.5, 0.5]] * 6), "rows and columns of"),
    "rows in words": ("LLaVA", _said(*GRID, "down", to=[["0", 1]] * 6), "rows and columns of"),
    "columns that are too few": ("LLaVA", _said(*GRID, "across", to=[[0, 1]]), "rows and columns of"),
    "columns in another order": ("LLaVA", _said(*GRID, "across", to=FALLING), "rows and columns of"),
    "columns without end": ("LLaVA", _said(*GRID, "across", to=[[of, 1e9] for of in range(6)]), "rows and columns of"),
    "another kind of grid": ("LLaVA", _said("on_image", to={"sideways": []}), "does not fit the rest"),
    "parts of fewer": ("Qwen2.5-VL", _array("parts.0", lambda array: array[1:].clone()), "do not fit them"),
    "no grids": ("LLaVA", _said("on_image", to={"self": []}), "rows and columns of"),
}
CASES = {case: ("Gemma 2", *expected) for case, expected in CHANGES.items()} | OF_OTHERS


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_somebody_has_changed_is_refused_in_words(case, file):
    of, change, message = CASES[case]
    with refused("file", "cannot be opened") as error:
        open_capture(changed(file, of, change))
    assert message in str(error.value)


def test_a_file_without_vectors_says_so(file):
    opened = open_capture(changed(file, "BERT", _array("vectors", None)))
    with pytest.raises(InputError, match="this pass holds no vectors"):
        _ = opened.sentence_vector


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_tokens_are_whole_numbers_of_any_width(dtype, file):
    def narrow(arrays, _):
        arrays |= {name: arrays[name].to(getattr(torch, dtype)) for name in ("input_ids", "runs.0")}

    opened = open_capture(changed(file, "Gemma 2", narrow))
    assert opened.input_ids == taken("Gemma 2").input_ids
    assert opened.certificate(0, 0).holds


def test_any_number_or_word_that_is_changed_afterwards_is_noticed(file, capsys):
    saved = taken("Gemma 2")
    saved.save(file)
    with safe_open(file, "pt") as opened:
        about, arrays = opened.metadata(), load_file(file)
    others = [(arrays, {FORMAT: about[FORMAT].replace('"revision": "in memory"', '"revision": "in_memory"')})]
    for name, array in arrays.items():
        other = array.clone()
        other.view(-1)[-1] += 1
        others.append((arrays | {name: other}, about))
    for numbers, words in others:
        save_file(numbers, file, words)
        with pytest.raises(InputError, match="it was changed after it was written"):
            open_capture(file)
    content = json.loads(about[FORMAT])
    del content[SEAL]
    save_file(arrays, file, {FORMAT: json.dumps(content)})
    assert exit_status(command, "check", str(file)) == 0
    assert "whether it is as it was written, which it does not say" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("part", "name", "change"),
    [
        ("the vectors, and how they make a sentence vector", "BERT", _array("vectors", lambda array: array * -5)),
        ("the tokens and their texts", "BERT", _array("input_ids", lambda array: array.flip(0))),
        ("the logits", "Gemma 2", _array("logits", lambda array: array + array.roll(1))),
        ("the model's name and revision", "Gemma 2", _said("model", "name", to="another")),
        ("labels of layers", "BERT", _said(*LAYER, "label", to="sliding window 4")),
        ("queries, keys and values", "BERT", _array("self.0.query", lambda array: array)),
        ("the image, and where tokens lie on it", "ViT", _said(*GRID, "across", 0, to=[0.0, 0.9])),
    ],
)
def test_what_only_the_model_could_confirm_is_listed(part, name, change, file, capsys):
    """Whatever can be changed without being noticed is in the list."""
    assert exit_status(command, "check", str(changed(file, name, change))) == 0
    assert part in capsys.readouterr().out.splitlines()[-1]
    assert unchecked(taken("BERT")) == ""


def _with_header(header, rest=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + rest


def _said_of(content):
    return _with_header({"__metadata__": content})


def _with_arrays(names="a", rest=b"0" * 64, **of):
    said = {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]} | of
    return _with_header({"__metadata__": {FORMAT: '{"version": 1}'}} | dict.fromkeys(names, said), rest)


BAD = {
    "empty": (b"", "too short"),
    "no safetensors": (b"PK\x03\x04" + b"x" * 90, "its header would have"),
    "an endless header": (struct.pack("<Q", 2**63) + b"{" * 90, "header would have 9,223,372,036,854,775,808 bytes"),
    "a header that is cut short": (_with_header({}, length=5_000), "ends within its header"),
    "a header of brackets": (_with_header(b"[" * 2_000_000), "description is too large"),
    "deep brackets": (_with_header(b"[" * 100_000), "description cannot be read"),
    "another safetensors file": (_said_of({"format": "pt"}), "holds no recorded pass"),
    "nothing said": (_with_header({}), "holds no recorded pass"),
    "a later version": (_said_of({FORMAT: '{"version": 2}'}), "Update Headlight"),
    "10 GB announced": (_with_arrays(data_offsets=[0, 10**10]), "10,000,000,000 bytes of numbers and holds 64"),
    "sizes that do not add up": (_with_arrays(shape=[2_500_000_000]), "do not fit their sizes"),
    "overlapping arrays": (_with_arrays("ab"), "do not fit their sizes"),
    "places in words": (_with_arrays(rest=b"", shape=[1], data_offsets="0"), "where its “a” is"),
    "another dtype": (_with_arrays(rest=b"0", dtype="BOOL", shape=[1], data_offsets=[0, 1]), "holds BOOL"),
    "nothing in it": (_with_arrays("", b""), "not lists of layers by kind"),
    "NaN in the description": (_said_of({FORMAT: '{"calls": NaN}'}), "description cannot be read"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_is_no_pass_is_refused_in_words(case, file):
    data, message = BAD[case]
    file.write_bytes(data)
    for given in (file, data):
        with refused("file", message):
            open_capture(given)


def test_a_file_that_the_system_does_not_let_read():
    unreadable = Path("/proc/self/mem")  # a file, of which nothing stands at its beginning
    if not unreadable.is_file():
        pytest.skip("only Linux has this file")
    with refused("file", "The file cannot be read: "):
        open_capture(unreadable)


def test_no_file_a_folder_and_markup(file, tmp_path):
    for missing in (file, tmp_path):
        with pytest.raises(InputError, match="no file"):
            open_capture(missing)
    markup = "<img src=x onerror=alert(1)>"
    opened = open_capture(changed(file, "BERT", _said("vocabulary", "pieces", "5", to=markup)))
    assert opened.tokens()[0][0] == markup
    assert markup not in bundles.capture(opened)["text/html"]


def test_the_pass_that_was_there_stays_if_a_new_one_cannot_be_written(file):
    saved = taken("BERT")
    saved.save(file)
    before = file.read_bytes()
    file.with_name(f"{file.name}.part").mkdir()
    with pytest.raises(OSError, match="directory"):
        saved.save(file)
    assert file.read_bytes() == before


def test_a_pass_says_what_the_checkup_of_its_model_found(file):
    one = taken.__wrapped__("Llama")  # a model of its own
    one.save(file)
    assert not open_capture(file).model.checkup, "nothing is known"
    assert "check-up" not in unchecked(open_capture(file))
    found = core.check_model(one.model, seconds=600)
    opened = opened_again(one, file)
    assert found.holds
    assert opened.model.checkup == found.summary.replace(" on this machine", "")
    assert "what the check-up of the model found" in unchecked(opened)


def test_nothing_of_a_model_whose_checkup_failed_holds(file, capsys):
    one = taken.__wrapped__("Llama")
    of_live = one.certificate(0, 0)
    assert of_live.holds
    one.model.network.model.layers[0].self_attn.scaling = 1.0
    core.check_model(one.model, seconds=600)
    opened = opened_again(one, file)
    for certificate in (of_live, one.certificate(0, 0), opened.certificate(0, 0)):
        assert certificate.agrees
        assert not certificate.holds
        assert str(certificate).startswith("Not to be relied on. 2 of 1")
    again = opened_again(opened, file.with_name("again.safetensors"))
    assert not again.certificate(0, 0).holds
    assert exit_status(command, "check", str(file)) == 1
    assert "Not to be relied on. The check-up of the model where this was written: 2 of 1" in capsys.readouterr().out
