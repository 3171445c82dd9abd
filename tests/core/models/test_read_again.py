"""The weights of a network are compared with its files: a single other number in any of them is found."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers as t

from core.models import read_again as module
from core.models.dequantising import undone
from core.models.loading import load_model
from core.models.model import Model
from core.models.read_again import TimeIsOverError, parts_of, read_again
from core.models.weight_files import SINGLE, stored_in, weight_files
from tests.core.models.test_dequantising import quantised
from tests.core.models.test_weight_files import in_fp8, in_mxfp4
from tests.core.tiny_models import GROUPED, randomised, tiny


def others(model: Model) -> list[str]:
    """The parts of a network that are not those of its files."""
    folder = model.folder
    assert folder is not None
    stored = undone(folder, stored_in(weight_files(folder)))
    return [part for part, _, is_same in read_again(model.network, parts_of(model.network), stored) if not is_same]


def of_experts() -> t.PreTrainedModel:
    """Its experts stand in the files one by one, and in the network together."""
    return randomised(t.MixtralForCausalLM(t.MixtralConfig(**GROUPED, num_local_experts=2)))


ARCHITECTURES = ("BERT", "GPT-2", "Llama", "T5", "Marian", "gpt-oss", "ViT")
Save = Callable[[Path], object]
SAVED: dict[str, Save] = {
    **{name: partial(lambda name, folder: tiny(name).save_pretrained(folder), name) for name in ARCHITECTURES},
    "shards": lambda folder: tiny("Llama").save_pretrained(folder, max_shard_size="20KB"),
    "experts": lambda folder: of_experts().save_pretrained(folder),
    "a tower": lambda folder: tiny("CLIP").save_pretrained(folder),
    "fp8": lambda folder: in_fp8(folder, 16, 16),
    "mxfp4": in_mxfp4,
    "gptq": lambda folder: quantised(folder, "gptq"),
    "awq": lambda folder: quantised(folder, "awq"),
    "nf4, turned": lambda folder: quantised(folder, "nf4", "GPT-2"),
}
COMPUTED = {"Marian": {f"model.{part}coder.embed_positions.weight" for part in ("en", "de")}}  # no file has them


@pytest.mark.parametrize("name", SAVED)
def test_another_number_in_any_part_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 512)  # bytes; each slice counts
    SAVED[name](tmp_path)
    model = load_model(tmp_path, dtype="bfloat16")
    assert others(model) == []
    with torch.no_grad():
        for numbers in model.network.parameters():
            numbers[(-1,) * numbers.ndim] += 1
    every = {part for part, _ in model.network.named_parameters()}
    assert {*others(model)} & every == every - COMPUTED.get(name, set())


def test_rows_that_no_token_reads_may_hold_nan_and_padding_zeros(tmp_path: Path) -> None:
    network = tiny("Llama")
    network.model.embed_tokens.weight.data[9] = torch.nan
    network.save_pretrained(tmp_path)
    model = load_model(tmp_path)
    assert others(model) == []
    model.network.model.embed_tokens.weight.data[0] = 0  # as Chinese-CLIP is loaded
    assert others(model) == []
    model.network.model.embed_tokens.weight.data[1] = 0
    assert others(model) == ["model.embed_tokens.weight"]


def test_a_file_that_has_become_shorter_is_another(tmp_path: Path) -> None:
    tiny("Llama").save_pretrained(tmp_path)
    model, stored = load_model(tmp_path), stored_in([tmp_path / SINGLE])
    (tmp_path / "shorter").write_bytes((tmp_path / SINGLE).read_bytes()[:-4])
    (tmp_path / "shorter").replace(tmp_path / SINGLE)
    found = read_again(model.network, parts_of(model.network), stored)
    assert sum(not is_same for _, _, is_same in found) == 1


def test_it_ends_between_two_slices_when_there_is_no_more_time(tmp_path: Path) -> None:
    tiny("Llama").save_pretrained(tmp_path)
    model, stored = load_model(tmp_path), stored_in([tmp_path / SINGLE])
    times = iter([True, True, False])
    found = read_again(model.network, parts_of(model.network), stored, lambda: next(times))
    assert [next(found)[2], next(found)[2]] == [True, True]
    with pytest.raises(TimeIsOverError):
        next(found)
