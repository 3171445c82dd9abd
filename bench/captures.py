"""Passes as files: bytes and seconds, what a changed number does to certificates, and files of other libraries.

python -m bench.captures sizes [TOKENS ...]      a saved pass of SmolLM2 over random tokens; over 32,768 only its first layer
python -m bench.captures changed                 one number changed in each head's arrays: how many certificates turn red
python -m bench.captures transformer-lens        a TransformerLens cache as a file, against a capture of the same weights
python -m bench.captures nnsight                 an nnsight trace as a file, against a capture of the same network

The last two need the library itself, in an environment of its own beside Headlight's requirements. They have to run in a
process of their own, which this is.
"""

import argparse
import copy
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from core import Capture, capture, load_model, open_capture
from core.captures.converting import save_nnsight, save_transformer_lens
from core.record_pass import record
from tests.conftest import TEXTS
from tests.core.tiny_models import number_words, tiny

MODEL = "SmolLM2-135M-Instruct"
ONE_LAYER = 8_193  # more tokens than SmolLM2 reads: only its first layer is run
STAGES = ("query", "key", "value", "weights", "output")


def sizes(lengths: list[int], folder: Path) -> None:
    model = load_model(MODEL)
    for tokens in lengths:
        ids, file = np.random.default_rng(0).integers(100, 40_000, tokens).tolist(), folder / "pass.safetensors"
        start = time.perf_counter()
        if tokens < ONE_LAYER:
            kept = capture(model, input_ids=ids)
            read = time.perf_counter() - start
            start = time.perf_counter()
            kept.save(file)
            saved = time.perf_counter() - start
        else:
            network = copy.deepcopy(model.network)
            network.model.layers = network.model.layers[:1]
            kept, read, saved = None, 0.0, 0.0
            _record_ids(network, model, ids, file)
            saved = time.perf_counter() - start
        start = time.perf_counter()
        opened = open_capture(file)
        took = time.perf_counter() - start
        start = time.perf_counter()
        holds = opened.certificate(0, 4).holds
        certified = time.perf_counter() - start
        same = "" if kept is None else np.array_equal(kept.trace(7, 4).weights, opened.trace(7, 4).weights)
        print(
            f"{tokens:,} tokens, {opened.layers()} layers: {file.stat().st_size:,} bytes; the same: {same}", flush=True
        )
        times = f"pass {read:.2f} s, saved {saved:.2f} s, opened {took:.2f} s, one certificate {certified:.2f} s"
        print(f"  {times} ({'holds' if holds else 'does not hold'})", flush=True)


def _record_ids(network: torch.nn.Module, model, ids: list[int], file: Path) -> None:
    class Tokens:
        def __call__(self, *_, **__):
            return {"input_ids": ids}

        def __getattr__(self, name):
            return getattr(model.tokenizer, name)

    record(network, Tokens(), "", file)


def changed(folder: Path) -> None:
    real = [load_model(MODEL), load_model(MODEL, dtype="bfloat16")]
    cases = [(model.label, capture(model, TEXTS[0])) for model in real]
    numbers = " ".join(str(5 + number % 50) for number in range(16))
    for name in ("Gemma 2", "T5", "gpt-oss"):
        cases.append((f"{name}, tiny", capture(load_model(tiny(name), tokenizer=number_words()), numbers)))
    for name, kept in cases:
        kept.save(file := folder / "pass.safetensors")
        _count(name, open_capture(file))


def _count(name: str, opened: Capture) -> None:
    """Change a number of every head, drawn at random, by the root mean square of the array; print how many heads say so."""
    draw, kind = np.random.default_rng(0), opened.kinds[0]
    for part in ("query", "key", "value", "output", "mask", "bias", "sinks"):
        red = heads = 0
        for call in opened.each_layer(kind):
            for head in range(call.heads):
                other = _with_another_number(call, part, head, draw)
                if other is not None:
                    heads += 1
                    red += not replace(opened, calls={kind: (other,)}).certificate(0, head).holds
        if heads:
            print(f"{name}: {part}: {red} of {heads} heads red", flush=True)


def _with_another_number(call, part, head, draw):
    array = getattr(call, part)
    if array is None:
        return None
    if part == "mask":
        runs = array.runs.copy()
        of = min(head, len(runs) - 1)
        query = draw.integers(1, runs.shape[1])
        runs[of, query, 0, 1] -= 1  # the last key that the query may attend to
        return call.reshaped(mask=replace(array, runs=runs))
    if part == "bias":
        numbers = array.numbers.clone()
        of = numbers[min(head, len(numbers) - 1)]
        of[draw.integers(len(of))] += of.square().mean().sqrt()
        return call.reshaped(bias=replace(array, numbers=numbers))
    other = array.clone()
    of_head = {
        "query": lambda: other[0, head],
        "output": lambda: other[0, :, head],
        "sinks": lambda: other[head : head + 1],
    }
    of = of_head.get(part, lambda: other[0, head // call.group])()
    place = tuple(draw.integers(size) for size in of.shape)
    of[place] += of.float().square().mean().sqrt().to(of.dtype)
    return call.reshaped(**{part: other})


def compare(ours: Capture, theirs: Capture) -> None:
    """Print the largest difference of every stage, over all layers and heads, and whether every certificate holds."""
    worst = dict.fromkeys(STAGES, 0.0)
    for layer in range(ours.layers()):
        for head in range(ours.heads()):
            one, other = ours.trace(layer, head), theirs.trace(layer, head)
            for stage in STAGES:
                worst[stage] = max(worst[stage], float(np.abs(getattr(one, stage) - getattr(other, stage)).max()))
    heads = [(layer, head) for layer in range(theirs.layers()) for head in range(theirs.heads())]
    green = sum(theirs.certificate(*head).holds for head in heads)
    print({stage: f"{number:.2e}" for stage, number in worst.items()}, f"{green} of {len(heads)} certificates hold")
    print(ours.next_tokens(3), theirs.next_tokens(3))


def transformer_lens(folder: Path) -> None:
    from transformer_lens.model_bridge import TransformerBridge

    for name, like in (("Llama", "meta-llama/Llama-3.2-1B"), ("GPT-2", "gpt2"), (MODEL, "meta-llama/Llama-3.2-1B")):
        ours = _captured(name)
        network, tokenizer = copy.deepcopy(ours.model.network), ours.model.tokenizer
        network.set_attn_implementation("eager")
        bridge = TransformerBridge.boot_transformers(like, hf_model=network, tokenizer=tokenizer, device="cpu")
        with torch.inference_mode():
            logits, cache = bridge.run_with_cache(torch.tensor([ours.input_ids]))
        save_transformer_lens(bridge, cache, ours.input_ids, file := folder / "pass.safetensors", logits)
        print(name, end=": ")
        compare(ours, open_capture(file))


def nnsight(folder: Path) -> None:
    from nnsight import LanguageModel

    for name in ("Llama", "Gemma 2", "gpt-oss", MODEL):
        ours = _captured(name)
        network = copy.deepcopy(ours.model.network)
        network.set_attn_implementation("eager" if name in ("Gemma 2", "gpt-oss") else "sdpa")
        traced = LanguageModel(network, tokenizer=ours.model.tokenizer)
        with torch.inference_mode(), traced.trace(torch.tensor([ours.input_ids])):
            calls = list().save()  # noqa: C408 (nnsight wants a call)
            for layer in traced.model.layers:
                at = layer.self_attn.source.attention_interface_1
                inputs = at.inputs
                calls.append((inputs, at.output))
            logits = traced.output.logits.save()
        file = folder / "pass.safetensors"
        save_nnsight(calls, name, ours.model.tokenizer, ours.input_ids, file, logits)
        print(name, end=": ")
        compare(ours, open_capture(file))


def _captured(name: str) -> Capture:
    if name == MODEL:
        return capture(load_model(MODEL), TEXTS[0])
    return capture(load_model(tiny(name), tokenizer=number_words()), "5 17 8 9 3 4 5 6")


PROGRAMS = {"changed": changed, "transformer-lens": transformer_lens, "nnsight": nnsight}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sizes", *PROGRAMS])
    parser.add_argument("tokens", nargs="*", type=int, default=[512, 4_096, 32_768])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if given.what == "sizes":
            sizes(given.tokens, Path(temporary))
        else:
            PROGRAMS[given.what](Path(temporary))
