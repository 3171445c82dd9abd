"""Sentence vectors against formulas written out, from folders as sentence-transformers writes them; files from anybody."""

import json
from itertools import product

import numpy as np
import pytest
import torch
import transformers as t

from core import capture, cosine_attribution, load_model
from core.capturing.answers import vectors
from core.capturing.branching import Branches
from core.capturing.edits.edits import Edits
from core.models.inputs import all_inputs
from core.models.sentences import SentenceVector
from tests.core.tiny_models import number_words, tiny

TEXT, OTHER = "5 17 8 9 3 4 5 6", "7 7 40 2 9 11"
KINDS = ("Transformer", "Pooling", "Normalize")
HOME, MEAN = "sentence_transformers.models.", {"pooling_mode": "mean"}
FORMULAS = {
    "mean": lambda x: x.sum(0) / len(x),
    "cls": lambda x: x[0],
    "lasttoken": lambda x: x[len(x) - 1],
    "max": lambda x: np.max(x, 0),
    "weightedmean": lambda x: sum(n * row for n, row in enumerate(x, 1)) / (len(x) * (len(x) + 1) / 2),
    "mean_sqrt_len_tokens": lambda x: x.sum(0) / np.sqrt(len(x)),
}


def folder(path, pooling=MEAN, network=None, kinds=KINDS, inside="", **settings):
    """A folder as sentence-transformers writes it. inside: the network's own folder in it"""
    (path / inside).mkdir(parents=True, exist_ok=True)
    (network or tiny("BERT")).save_pretrained(path / inside)
    number_words().save_pretrained(path / inside)
    modules = [
        {"idx": n, "name": str(n), "path": f"{n}_{kind}" if n else inside, "type": kind if "." in kind else HOME + kind}
        for n, kind in enumerate(kinds)
    ]
    (path / "modules.json").write_text(json.dumps(modules))
    for module in modules[1:]:
        (path / module["path"]).mkdir(exist_ok=True)
    if "Pooling" in kinds:
        (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (path / inside / "sentence_bert_config.json").write_text(json.dumps(settings))
    return path


def formula(names, normalized, x):
    joined = np.concatenate([FORMULAS[name](x) for name in names])
    return joined / np.linalg.norm(joined) if normalized else joined


@pytest.mark.parametrize(
    ("pooling", "kinds"), [*(([name], KINDS) for name in FORMULAS), ([*FORMULAS], KINDS), (["cls", "max"], KINDS[:2])]
)
def test_a_sentence_vector_is_what_the_folder_says_wherever_one_is_spoken_of(pooling, kinds, tmp_path):
    given = {"pooling_mode": pooling if len(pooling) > 1 else pooling[0]}
    model = load_model(folder(tmp_path, given, kinds=kinds))
    assert not model.notes
    taken, other = (capture(model, text, components=True) for text in (TEXT, OTHER))
    ours, theirs = (formula(pooling, len(kinds) > 2, one.vectors.astype(float)) for one in (taken, other))
    np.testing.assert_allclose(taken.sentence_vector, ours, rtol=0, atol=1e-6)
    np.testing.assert_allclose(Branches(model, all_inputs(model, TEXT)).answer, ours, rtol=0, atol=1e-5)
    cosine = ours @ theirs / np.linalg.norm(ours) / np.linalg.norm(theirs)
    table = cosine_attribution(taken, other)
    assert table.holds
    assert table.number == pytest.approx(cosine, abs=1e-6)
    muted = capture(model, TEXT, edits=Edits(mute_heads={0}))
    after = formula(pooling, len(kinds) > 2, muted.vectors.astype(float))
    turned = 1 - ours @ after / np.linalg.norm(ours) / np.linalg.norm(after)
    assert vectors(taken, muted).sentence == pytest.approx(turned, abs=1e-6)


@pytest.mark.parametrize("name", ["Llama", "T5"])
def test_the_network_is_what_its_vectors_are_made_of_and_not_what_it_was_made_from(name, tmp_path):
    model = load_model(folder(tmp_path, {"pooling_mode": "lasttoken"}, tiny(name)))
    taken = capture(model, TEXT)
    assert (taken.kinds, taken.logits) == (("self",), None)
    assert [note for note in model.notes if " leaves out " not in note] == []
    bare = {"Llama": t.LlamaModel, "T5": t.T5EncoderModel}[name].from_pretrained(tmp_path)
    with torch.inference_mode():
        last = bare(torch.tensor([taken.input_ids])).last_hidden_state[0, -1].numpy()
    np.testing.assert_allclose(taken.sentence_vector, last / np.linalg.norm(last), rtol=0, atol=1e-6)


def flags(*names):
    return {f"pooling_mode_{name}": name in names for name in ("cls_token", "mean_tokens", "max_tokens", "lasttoken")}


READ = {
    "old flags": ({"pooling": flags("mean_tokens", "cls_token")}, SentenceVector(("cls", "mean"), True)),
    "no flag": ({"pooling": flags()}, SentenceVector(("mean",), True)),
    "a length": ({"max_seq_length": 6}, SentenceVector(max_tokens=6, normalized=True)),
    "small letters": ({"do_lower_case": True}, SentenceVector(lower_case=True, normalized=True)),
    "a folder of its own": ({"inside": "0_Transformer"}, SentenceVector(normalized=True)),
    "a step without effect": ({"kinds": ("Transformer", "Pooling", "Dropout")}, SentenceVector()),
}
LEFT_OUT = {
    "a matrix": ({"kinds": ("Transformer", "Pooling", "Dense", "Normalize")}, "Dense"),
    "somebody's code": ({"kinds": ("Transformer", "Pooling", "custom_st.Gate")}, "custom_st.Gate"),
    "no pooling": ({"kinds": ("Transformer",)}, "its own pooling"),
    "another beginning": ({"kinds": ("CLIPModel", "Pooling")}, "sentence_transformers.models.CLIPModel"),
    "another task": ({"transformer_task": "fill-mask"}, "transformer_task fill-mask"),
    "other outputs": ({"modality_config": {"text": {"method": "encode"}}}, "text {'method': 'encode'}"),
    "arguments": ({"tokenizer_args": {"padding_side": "left"}}, "tokenizer_args"),
    "an unknown pooling": ({"pooling": {"pooling_mode": "median"}}, "the pooling median, which cannot be read"),
    "pooling by lists": ({"pooling": {"pooling_mode": [["mean"]]}}, "the pooling [['mean']], which cannot be read"),
    "no kind": ({"pooling": []}, "1_Pooling/config.json, which cannot be read"),
}


@pytest.mark.parametrize(("given", "expected"), READ.values(), ids=READ)
def test_settings_are_read(given, expected, tmp_path):
    model = load_model(folder(tmp_path, **given))
    assert (model.sentence, model.notes, model.trained_tokens) == (expected, (), expected.max_tokens)
    assert (tmp_path.name, len(capture(model, TEXT).input_ids)) == (model.name, 8)


@pytest.mark.parametrize(("given", "named"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_is_left_out_is_said(given, named, tmp_path):
    (note,) = load_model(folder(tmp_path, **given)).notes
    said = f"is not that of sentence-transformers, which also uses what is left out here: {named}. Here it is the "
    assert said in note


def test_a_prompt_and_another_kind_of_model_are_said(tmp_path):
    about = {"model_type": "CrossEncoder", "default_prompt_name": "query", "prompts": {"query": "<b>: "}}
    (folder(tmp_path) / "config_sentence_transformers.json").write_text(json.dumps(about))
    (note,) = load_model(tmp_path).notes
    assert "the kind of model, CrossEncoder, the prompt “<b>: ” before every text" in note


OUTWARDS = b'[{"type": "sentence_transformers.models.Transformer", "path": ".."}]'
DAMAGED = [b"", b"{}", b"[", b"[" * 100_000, b'["x"]', b"\xff", b"[NaN]", b" " * 2_000_000, b"[{}]", OUTWARDS]


OTHERS = ("1_Pooling/config.json", "sentence_bert_config.json")


@pytest.mark.parametrize(("name", "content"), [*product(["modules.json"], DAMAGED), *product(OTHERS, DAMAGED[:3])])
def test_a_damaged_file_stops_nothing(name, content, tmp_path):
    (folder(tmp_path) / name).write_bytes(content)
    model = load_model(tmp_path)
    assert capture(model, TEXT).sentence_vector.shape == (32,)
    if content != b"{}":
        assert "which cannot be read" in model.notes[0]


def test_small_letters(tmp_path):
    words = number_words()
    words.add_tokens(["abc"])
    folder(tmp_path, do_lower_case=True)
    words.save_pretrained(tmp_path)
    assert load_model(tmp_path).tokenizer("ABC")["input_ids"] == words("abc")["input_ids"]


def test_minilm_was_made_for_256_tokens_and_its_vector_is_the_mean_of_them(minilm):
    text = "Hello world, " * 120
    assert (minilm.trained_tokens, minilm.max_tokens, minilm.notes) == (256, 512, ())
    whole, cut = capture(minilm, text), capture(minilm, text, truncate=True, max_tokens=minilm.trained_tokens)
    assert f"The text has {len(whole.input_ids)} tokens. all-MiniLM-L6-v2 was made for at most 256" in whole.notes[0]
    assert (len(cut.input_ids), cut.notes) == (256, ())
    np.testing.assert_allclose(cut.sentence_vector, formula(["mean"], True, cut.vectors.astype(float)), atol=1e-6)
    assert whole.sentence_vector @ cut.sentence_vector < 0.995
