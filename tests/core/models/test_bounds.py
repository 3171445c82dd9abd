"""Folders that would be read for ever, or built for ever: refused at once. And all the others, which are not."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path
from threading import Thread

import pytest

from core.errors import InputError
from core.models import bounds
from core.models.bounds import MAX_CONFIG_BYTES, MAX_SMALL_BYTES
from core.models.loading import load_model
from tests.conftest import PATIENCE
from tests.core.models.folders import edit_config
from tests.core.tiny_models import TINY, WEIGHTS_ONLY, WITHOUT_WEIGHTS, number_words


def refusal(folder: Path) -> str:
    """The message with which a folder is refused; a thread of its own, because the wrong answer is to hang."""
    said: list[InputError] = []

    def load() -> None:
        try:
            load_model(folder)
        except InputError as error:
            said.append(error)

    thread = Thread(target=load, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "still reading"
    assert [error.field for error in said] == ["model"], "loaded, or failed in another way"
    return str(said[0])


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    TINY["BERT"]().save_pretrained(tmp_path / "bert")
    number_words().save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


OBJECTS = (
    *("config.json", "generation_config.json", "preprocessor_config.json", "special_tokens_map.json", "tokenizer.json"),
    *("tokenizer_config.json", "model.safetensors.index.json"),
)
OTHERS = (
    *("vocab.txt", "chat_template.jinja", "additional_chat_templates/other.jinja", "model.safetensors"),
    "adapter_config.json",
)


@pytest.mark.parametrize(
    ("name", "device"),
    [
        *product((*OBJECTS, *OTHERS), [None]),
        *product(("config.json", "tokenizer.json", "model.safetensors"), ("/dev/null", "/dev/zero")),
    ],
)
def test_a_pipe_and_a_link_to_a_device_are_not_opened(name: str, device: str | None, bert: Path) -> None:
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


def test_links_to_files_are_read(bert: Path, tmp_path: Path) -> None:
    """As in the hub's cache."""
    (tmp_path / "blobs").mkdir()
    for path in list(bert.iterdir()):
        path.rename(tmp_path / "blobs" / path.name)
        path.symlink_to(Path("..", "blobs", path.name))
    assert load_model(bert).tokenizer is not None


@pytest.mark.parametrize(
    ("name", "largest"),
    [("config.json", MAX_CONFIG_BYTES), ("tokenizer.json", MAX_SMALL_BYTES), ("a.txt", MAX_SMALL_BYTES)],
)
def test_too_large_a_file(name: str, largest: int, bert: Path) -> None:
    (bert / name).touch()
    os.truncate(bert / name, largest + 1)
    assert f"holds {name!r} of" in refusal(bert)
    assert f"at most {largest // 1_000_000} MB are read" in refusal(bert)


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a":' + b"[" * 90_000, "nested too deeply"),
        (b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "nested too deeply"),
        (b"[1]", "not an object in JSON"),
        (b'{"a": "\xff"}', "codec can't decode"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "integer string conversion"),
    ],
    ids=["endless", "deep", "list", "bytes", "number"],
)
def test_json_that_is_no_object_or_too_deep_is_named(name: str, content: bytes, said: str, bert: Path) -> None:
    (bert / name).write_bytes(content)
    message = refusal(bert)
    assert f"has a {name} that cannot be read: " in message
    assert said in message


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", {"id2label": dict.fromkeys(range(100_000), "")}, "too many entries"),
        ("generation_config.json", {"bad_words_ids": [[1]] * 60_000}, "too many entries"),
        ("added_tokens.json", dict.fromkeys(range(50_001), 0), "adds 50,001 tokens in its added_tokens.json"),
        ("tokenizer_config.json", {"added_tokens_decoder": dict.fromkeys(range(50_001), "")}, "adds 50,001 tokens"),
        ("tokenizer.json", {"added_tokens": [{}] * 50_001}, "adds 50,001 tokens in its tokenizer.json; at most 50,000"),
    ],
    ids=["labels", "generation", "added", "decoder", "tokenizer"],
)
def test_what_transformers_would_copy_for_minutes_is_not_read(name: str, content: dict, said: str, bert: Path) -> None:
    (bert / name).write_text(json.dumps(content))
    assert said in refusal(bert)


def test_a_folder_of_everything_is_not_looked_through(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bounds.MAX_FILES == 10_000
    monkeypatch.setattr(bounds, "MAX_FILES", 100)
    for number in range(100):
        (bert / str(number)).touch()
    assert "is a folder of more than 100 files" in refusal(bert)


LARGER = "its config.json announces a network of more than"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_hidden_layers": 5_000_000}, "announces 5,000,000 as its num_hidden_layers; at most 1,000"),
        ({"text_config": {"n_layer": 10**12}}, "announces 1,000,000,000,000 as its n_layer; at most 1,000"),
        ({"attention_types": [[["global", "local"], 10**9]]}, "announces 1,000,000,000 as its attention_types"),
        ({"num_labels": 10**9}, "announces 1,000,000,000 as its num_labels"),
        ({"num_hidden_layers": 1_000}, LARGER),
        ({"vocab_size": 10**10}, LARGER),
        ({"hidden_size": 10**6}, LARGER),
        ({"intermediate_size": 10**9}, LARGER),
        ({"max_position_embeddings": 10**12}, LARGER),
        ({"type_vocab_size": 10**9}, LARGER),
    ],
    ids=str,
)
def test_a_network_far_larger_than_its_weights_is_not_built(changes: dict[str, object], said: str, bert: Path) -> None:
    edit_config(bert, **changes)
    assert said in refusal(bert)


def test_a_buffer_far_larger_than_the_weights_is_not_built(tmp_path: Path) -> None:
    """A table of who may look at whom, quadratic in a number for which no weights stand."""
    WEIGHTS_ONLY["GPT-Neo"]().save_pretrained(tmp_path)
    edit_config(tmp_path, max_position_embeddings=10**6)
    assert LARGER in refusal(tmp_path)


def test_a_network_that_is_tried_without_weights_has_a_bound_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a model that reads more than texts, the part that reads the images says its layers in a word of its own."""
    monkeypatch.setattr(bounds, "MAX_PARTS", 1_000)
    text = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    config = {"model_type": "qwen2_vl", "text_config": text, "vision_config": {"depth": 10**7, "embed_dim": 32}}
    edit_config(tmp_path, **config)
    assert "announces a network of more than 1,000 parts, which no model has" in refusal(tmp_path)


@pytest.mark.parametrize("name", [*TINY, *WEIGHTS_ONLY, *WITHOUT_WEIGHTS])
def test_every_architecture_is_read_as_transformers_saves_it(name: str, tmp_path: Path) -> None:
    network = (TINY | WEIGHTS_ONLY | WITHOUT_WEIGHTS)[name]()
    network.save_pretrained(tmp_path, max_shard_size="20KB")
    model = load_model(tmp_path)
    assert (type(model.network), model.notes) == (type(network), ())
