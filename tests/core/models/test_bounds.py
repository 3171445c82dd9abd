"""Folders that would be read for ever, or built for ever: refused at once. And all the others, which are not."""

import os
from itertools import product
from pathlib import Path
from threading import Thread

import pytest

from core.models import bounds
from core.models.bounds import MAX_CONFIG_BYTES, MAX_SMALL_BYTES
from core.models.loading import load_model
from tests.conftest import PATIENCE
from tests.core.models import folders
from tests.core.tiny_models import EVERY, TINY, WEIGHTS_ONLY, WITHOUT_WEIGHTS, number_words
from tests.depth import QUICK, sampled


def refusal(folder: Path) -> str:
    """The message with which a folder is refused; a thread of its own, because the wrong answer is to hang."""
    said: list[str] = []
    thread = Thread(target=lambda: said.append(folders.refusal(folder)), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "still reading"
    assert said, "loaded, or failed in another way"
    return said[0]


@pytest.fixture
def bert(tmp_path) -> Path:
    TINY["BERT"]().save_pretrained(tmp_path / "bert")
    number_words().save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


OBJECTS = ["config.json", "generation_config.json", "preprocessor_config.json", "special_tokens_map.json"]
OBJECTS += ["tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json"]
OTHERS = ["vocab.txt", "chat_template.jinja", "additional_chat_templates/other.jinja", "model.safetensors"]
PIPES = product([*OBJECTS, *OTHERS, "adapter_config.json"], [None])
DEVICES = product(["config.json", "tokenizer.json", "model.safetensors"], ["/dev/null", "/dev/zero"])


@pytest.mark.parametrize(("name", "device"), [*PIPES, *DEVICES])
def test_a_pipe_and_a_link_to_a_device_are_not_opened(name, device, bert):
    path = bert / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if device is None:
        os.mkfifo(path)
    else:
        (bert / "link").symlink_to(device)
        path.symlink_to("link")
    said = refusal(bert)
    assert "which is a pipe or a device" in said
    assert device or repr(path.name) in said


def test_links_to_files_are_read(bert, tmp_path):
    (tmp_path / "blobs").mkdir()
    for path in list(bert.iterdir()):
        path.rename(tmp_path / "blobs" / path.name)
        path.symlink_to(Path("..", "blobs", path.name))
    assert load_model(bert).tokenizer is not None


@pytest.mark.parametrize(
    ("name", "largest"),
    [("config.json", MAX_CONFIG_BYTES), ("tokenizer.json", MAX_SMALL_BYTES), ("a.txt", MAX_SMALL_BYTES)],
)
def test_too_large_a_file(name, largest, bert):
    (bert / name).touch()
    os.truncate(bert / name, largest + 1)
    assert f"holds {name!r} of" in refusal(bert)
    assert f"at most {largest // 1_000_000} MB are read" in refusal(bert)


NO_OBJECTS = {
    "endless": (b'{"a":' + b"[" * 90_000, "nested too deeply"),
    "deep": (b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "nested too deeply"),
    "list": (b"[1]", "not an object in JSON"),
    "bytes": (b'{"a": "\xff"}', "codec can't decode"),
    "number": (b'{"a": ' + b"9" * 100_000 + b"}", "integer string conversion"),
    "twice": (b'{"a": {"eps": 1e-05, "b": 1, "eps": 5.0, "b": 1}}', "it gives eps twice, as 1e-05 and 5.0"),
}


@pytest.mark.parametrize(
    ("name", "kind"), [*product(OBJECTS, ["endless"]), *product(["config.json", "tokenizer.json"], NO_OBJECTS)]
)
def test_json_that_is_no_object_or_too_deep_is_named(name, kind, bert):
    content, said = NO_OBJECTS[kind]
    (bert / name).write_bytes(content)
    message = refusal(bert)
    assert f"has a {name} that cannot be read: " in message
    assert said in message


def test_a_folder_of_everything_is_not_looked_through(bert, monkeypatch):
    assert bounds.MAX_FILES == 10_000
    monkeypatch.setattr(bounds, "MAX_FILES", 100)
    for number in range(100):
        (bert / str(number)).touch()
    assert "is a folder of more than 100 files" in refusal(bert)


CONFIG, LARGER = "config.json", "its config.json announces a network of more than"


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        (CONFIG, {"id2label": dict.fromkeys(range(100_000), "")}, "too many entries"),
        ("generation_config.json", {"bad_words_ids": [[1]] * 60_000}, "too many entries"),
        ("added_tokens.json", {str(n): 0 for n in range(50_001)}, "adds 50,001 tokens in its added_tokens.json"),
        ("tokenizer_config.json", {"added_tokens_decoder": dict.fromkeys(range(50_001), "")}, "adds 50,001 tokens"),
        ("tokenizer.json", {"added_tokens": [{}] * 50_001}, "adds 50,001 tokens in its tokenizer.json; at most 50,000"),
        (CONFIG, {"num_hidden_layers": 5_000_000}, "announces 5,000,000 as its num_hidden_layers; at most 1,000"),
        (CONFIG, {"text_config": {"n_layer": 10**12}}, "announces 1,000,000,000,000 as its n_layer; at most 1,000"),
        (CONFIG, {"attention_types": [[["global", "local"], 10**9]]}, "announces 1,000,000,000 as its attention_types"),
        (CONFIG, {"num_labels": 10**9}, "announces 1,000,000,000 as its num_labels"),
        (CONFIG, {"num_hidden_layers": 1_000}, LARGER),
        (CONFIG, {"vocab_size": 10**10}, LARGER),
        (CONFIG, {"hidden_size": 10**6}, LARGER),
        (CONFIG, {"intermediate_size": 10**9}, LARGER),
        (CONFIG, {"max_position_embeddings": 10**12}, LARGER),
        (CONFIG, {"type_vocab_size": 10**9}, LARGER),
    ],
)
def test_what_transformers_would_copy_or_build_for_minutes_is_refused(name, changes, said, bert):
    folders.edit(bert / name, **changes)
    assert said in refusal(bert)


def test_a_buffer_far_larger_than_the_weights_is_not_built(tmp_path):
    """A table of who may look at whom, quadratic in a number for which no weights stand."""
    WEIGHTS_ONLY["GPT-Neo"]().save_pretrained(tmp_path)
    folders.edit_config(tmp_path, max_position_embeddings=10**6)
    assert LARGER in refusal(tmp_path)


def test_a_network_that_is_tried_without_weights_has_a_bound_of_its_own(tmp_path, monkeypatch):
    """Of a model that reads more than texts, the part that reads the images says its layers in a word of its own."""
    monkeypatch.setattr(bounds, "MAX_PARTS", 1_000)
    text = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    vision = {"depth": 10**7, "embed_dim": 32}
    folders.edit_config(tmp_path, model_type="qwen2_vl", text_config=text, vision_config=vision)
    assert "announces a network of more than 1,000 parts, which no model has" in refusal(tmp_path)


@pytest.mark.parametrize("name", sampled([*TINY, *WEIGHTS_ONLY, *WITHOUT_WEIGHTS], (*QUICK, *WITHOUT_WEIGHTS)))
def test_every_architecture_is_read_as_transformers_saves_it(name, tmp_path):
    network = EVERY[name]()
    network.save_pretrained(tmp_path, max_shard_size="20KB")
    model = load_model(tmp_path)
    notes = [note for note in model.notes if "preprocessor_config.json" not in note]  # which a network does not save
    assert (type(model.network), notes) == (type(network), [])
