"""GGUF files as files: a model in several shards, and what may lie between and behind tensors."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from core.models.conversion import converted, file_sha256
from core.models.gguf_files import read_gguf
from core.models.loading import load_model, model_size
from tests.core.models.folders import Change, refusal, removed
from tests.core.models.test_conversion import tiny_tensors, write_tiny
from tests.refusals import refused

pytestmark = pytest.mark.usefixtures("cache")
SHARDS = ONE, TWO, THREE = [f"tiny-0000{number}-of-00003.gguf" for number in (1, 2, 3)]


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "shards").mkdir()
    write_tiny(tmp_path / "shards" / "tiny.gguf", tiny_tensors(), shards=3)
    assert sorted(path.name for path in (tmp_path / "shards").iterdir()) == SHARDS
    return tmp_path / "shards"


def test_shards_are_one_model(folder, tmp_path):
    whole = converted(write_tiny(tmp_path / "tiny.gguf", tiny_tensors()))
    made = {converted(folder / name) for name in SHARDS}
    (one,) = made
    lines = "".join(f"{file_sha256(folder / name)}\n" for name in SHARDS)
    assert one.sha256 == hashlib.sha256(lines.encode()).hexdigest()
    assert one.folder.name == f"tiny-{one.sha256[:12]}-v3"
    wanted, found = (load_file(each.folder / "model.safetensors") for each in (whole, one))
    assert wanted.keys() == found.keys()
    assert all(np.array_equal(wanted[name], found[name]) for name in wanted)
    model = load_model(folder)
    assert (model.name, model.revision) == ("tiny", f"sha256 {one.sha256} (GGUF, F32)")
    assert load_model(folder / THREE).revision == model.revision
    assert model_size(folder / TWO) == model_size(folder) == model_size(tmp_path / "tiny.gguf")


def mix(other: dict[str, np.ndarray]) -> Change:
    def put(folder: Path) -> None:
        folder.with_name("other").mkdir()
        write_tiny(folder.with_name("other") / "tiny.gguf", other, shards=3)
        shutil.copy(folder.with_name("other") / TWO, folder / TWO)

    return put


def copied(name: str, to: str) -> Change:
    return lambda folder: shutil.copy(folder / name, folder / to)


def renamed(name: str) -> Change:
    return lambda folder: (folder / ONE).rename(folder / name)


OTHER = "tiny-00001-of-00004.gguf"
FEWER = dict([*tiny_tensors().items()][:-2])
TURNED_ROUND = dict(reversed(tiny_tensors().items()))
MISNAMED = "is a shard of a model in 3 files, and its name does not say so"
THE_THIRD = f"{TWO} is shard 3 of 3 by its own words, and stands in the place of 2 of 3"


@pytest.mark.parametrize(
    ("change", "opened", "why"),
    [
        (removed(TWO), ONE, f"is one of 3 shards, of which {TWO} is missing"),
        (removed(ONE), THREE, f"is one of 3 shards, of which {ONE} is missing"),
        (renamed("renamed.gguf"), "renamed.gguf", MISNAMED),
        (renamed(OTHER), OTHER, MISNAMED),
        (copied(THREE, TWO), ONE, THE_THIRD),
        (copied(ONE, TWO), THREE, f"{TWO} is shard 1 of 3"),
        (mix(FEWER), ONE, f"{TWO} says another split.tensors.count than {ONE}"),
        (mix(TURNED_ROUND), ONE, "holds 2 tensors named"),
        (copied(ONE, "other.gguf"), "", f"has 2 GGUF models: other.gguf, {ONE}"),
    ],
)
def test_what_are_not_the_shards_of_one_model(change, opened, why, folder):
    change(folder)
    assert why in refusal(folder / opened)


@pytest.mark.parametrize("name", ["whole-00001-of-00002.gguf", "whole-00001-of-00000.gguf"])
def test_a_file_that_is_named_like_a_shard(name, tmp_path):
    """One that announces no shards is whole, whatever its name is."""
    path = write_tiny(tmp_path / name, tiny_tensors())
    assert read_gguf(path).parts == (path,)
    assert model_size(tmp_path) == model_size(path)


def test_the_padding_of_the_last_tensor_may_be_left_out(tmp_path):
    tensors = tiny_tensors() | {"output_norm.weight": np.ones(32, np.float32)}
    tensors["rope_freqs.weight"] = np.ones(4, np.float32)  # 16 bytes, and 16 of padding
    path = write_tiny(tmp_path / "padded.gguf", tensors)
    whole = path.read_bytes()
    for cut in (0, 16):
        path.write_bytes(whole[: len(whole) - cut])
        assert len(read_gguf(path).tensors) == len(tensors)
    path.write_bytes(whole[:-17])
    with refused("model", "ends after"):
        read_gguf(path)


@pytest.mark.parametrize("alignment", [0, 33, 32.0])
def test_an_alignment_that_cannot_be(alignment, tmp_path):
    path = write_tiny(tmp_path / "odd.gguf", tiny_tensors(), **{"general.alignment": alignment})
    with refused("model", r"has an alignment of .* bytes, which has to be a power of two"):
        read_gguf(path)
