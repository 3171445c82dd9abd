"""Every class of transformers that reads texts or images, built small and compared with transformers' own code.

    python -m bench.architectures LlamaForCausalLM ViTModel    these classes
    python -m bench.architectures                              every class, in about a quarter of an hour on two idle cores
    python -m bench.architectures --write                      and renews the tables in docs/architectures.md

Each class is built by the rules in bench/small_networks.py, with shaken weights, in a process of its own with a limit of time
and of memory. The judge of the check-up (core.capturing.checking.own_code) compares its numbers with those of the class as
transformers runs it alone. Then a head is muted by an edit and by a hook in the eager code, tokens are written beyond every
window, chunk and first length, and the contributions of all components are added up.
"""

import argparse
import gc
import json
import os
import re
import resource
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from transformers import PreTrainedModel

from bench.architectures_table import renew
from bench.eager_weights import eager_weights
from bench.small_networks import FIRST_LENGTH, SPECIAL, every_class, small_network
from bench.small_pictures import picture_and_text
from core import (
    Capture,
    Edits,
    InputError,
    Model,
    Place,
    attention_weights,
    capture,
    cosine_attribution,
    generate,
    load_model,
    logit_attribution,
)
from core.capturing.capture import read
from core.capturing.checking.own_code import compare_with_own_code
from core.models.images import Tiles, as_tiles
from core.models.inputs import all_inputs, image_inputs
from core.models.modules import Kind
from core.models.own_copy import own_copy

SECONDS, BYTES = 120, 8 << 30  # of its processor and of memory, for one class
READ = np.random.default_rng(1).integers(3, SPECIAL, 24)  # longer than windows, chunks and first lengths
TARGET = np.random.default_rng(2).integers(3, SPECIAL, 9).tolist()
PICTURE = np.random.default_rng(3).integers(0, 256, (80, 60, 3), dtype=np.uint8)
WHOLE = 0.0, 0.0, 1.0, 1.0  # of the picture, which a tile shows
BEGINNING = READ[:6]
WRITTEN = FIRST_LENGTH + 16 - len(BEGINNING)  # tokens: 16 beyond the first length, and more beyond a window or a chunk
CLOSE = 1e-4  # of the largest logit, where a head is muted: float32 rounds to 6e-8
OUTPUTS = ("o_proj", "out_proj", "dense", "c_proj")
# What changes the choice of a token in `generate` and is not done here.
PLAIN = {"do_sample": False, "num_beams": 1, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0}


@dataclass
class Found:
    """What was found of one class.

    result       "exact", "weights only", "refused", "cannot be built", "no reference", "wrong" or "traceback"
    why          the refusal, transformers' error, or what differs
    reads        "text", "picture", "picture and text", or "text alone" of a class that reads pictures with texts
    heads        the kinds of attention with their layers and heads, in words
    differences  the largest difference of the numbers, of the weights, of what is written and of a muted head, as a share of
                 the largest number
    notes        what was not compared or is refused, by what it is, with the reason
    """

    name: str
    mappings: list[str]
    result: str = ""
    why: str = ""
    reads: str = ""
    heads: str = ""
    differences: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def differs(self, what: str, size: float, allowed: float, detail: str = "") -> None:
        self.differences[what] = max(size, self.differences.get(what, 0.0))
        if not size <= allowed:  # NaN is not
            self.is_wrong(f"{detail or what}: off by {size:.2g}")

    def is_wrong(self, why: str) -> None:
        self.result = "wrong"
        self.why = self.why or why

    @property
    def worst(self) -> float:
        return max(self.differences.values(), default=0.0)


def examine(name: str) -> Found:
    """Build a class and compare all that Headlight shows of it."""
    found = Found(name, every_class().get(name, []))
    try:
        network = never_ending(small_network(name))
    except Exception as error:
        found.result, found.why = "cannot be built", said(error)
        return found
    try:
        compare_everything(found, load_model(network))
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        found.result = "traceback"
        found.why = f"{said(error)} ({' '.join(f'{Path(frame.filename).name}:{frame.lineno}' for frame in frames)})"
    return found


def never_ending(network: PreTrainedModel) -> PreTrainedModel:
    """The same network, which writes on after any token."""
    if network.can_generate():
        network.generation_config.eos_token_id = network.generation_config.forced_eos_token_id = None
    return network


def compare_everything(found: Found, model: Model) -> None:
    given: dict[str, Any] = {"image": PICTURE} if model.reads_images else {"input_ids": READ}
    if model.is_encoder_decoder:
        given["target"] = TARGET
    try:
        taken = capture(model, **given)
    except InputError as error:
        compare_weights_only(found, model, error)
        return
    found.result, found.reads, found.heads = "exact", "picture" if model.reads_images else "text", in_words(taken)
    inputs = image_inputs(model, PICTURE) if model.reads_images else all_inputs(model, **given)
    compare_numbers(found, model, inputs)
    compare_muted(found, taken, taken.kinds[-1], inputs, lambda edits: capture(model, **given, edits=edits))
    compare_written(found, model)
    compare_attribution(found, model, given)
    if "picture and text" in found.mappings:
        compare_with_picture(found, model)


def in_words(taken: Capture) -> str:
    return ", ".join(f"{kind} {taken.layers(kind)} × {taken.heads(kind)}" for kind in taken.kinds)


# --- what is compared


def compare_with_picture(found: Found, model: Model) -> None:
    """The same numbers over a picture with a text, and those of the tower that reads the picture."""
    found.reads = "text alone"
    if model.is_encoder_decoder:
        found.notes["picture"] = "with a picture only decoders are read"
        return
    try:
        inputs = picture_and_text(own_copy(model.network))
    except LookupError as error:
        found.notes["picture"] = str(error)
        return
    tiles = Tiles((WHOLE,) * len(as_tiles(inputs["pixel_values"], inputs, 1)))
    try:
        taken = read(model, inputs, tiles=tiles)
    except InputError as error:
        found.notes["picture"] = str(error)
        return
    found.reads, found.heads = "picture and text", in_words(taken)
    compare_numbers(found, model, inputs)
    compare_tower(found, taken, inputs)
    for kind in taken.kinds:
        compare_muted(found, taken, kind, inputs, lambda edits: read(model, inputs, edits, tiles=tiles))


def compare_numbers(found: Found, model: Model, inputs: dict[str, Tensor]) -> None:
    """Logits or vectors at all positions, the weights of every head, and eight written tokens: what the judge compares."""
    judged = compare_with_own_code(model, inputs)
    if judged.holds is None:
        found.result, found.why = "no reference", judged.detail
    for what, size, allowed in judged.differences.itertuples(index=False):
        kind = "weights" if what.startswith("weights") else "written" if "written" in what else "numbers"
        found.differs(kind, size, allowed, what)
    for sentence in judged.why_not:
        found.notes["written" if "written" in sentence else "weights"] = sentence


def compare_tower(found: Found, taken: Capture, inputs: dict[str, Tensor]) -> None:
    """The weights of the tower that reads pictures, which few classes return, with those that its eager code computes."""
    if "vision" not in taken.kinds:
        return
    try:
        expected = eager_weights(taken.model.network, inputs)
    except Exception as error:
        found.notes["vision weights"] = f"the eager code ends in {said(error)}"
        return
    names = {id(module): name for name, module in taken.model.network.named_modules()}
    for layer, call in enumerate(taken.each_layer("vision")):
        weights = expected[names[id(call.module)]]
        ours = np.stack([taken.trace(layer, head, "vision").weights for head in range(len(weights))])
        found.differs(
            "vision weights", float(np.abs(ours - weights.numpy()).max()), CLOSE, f"weights of vision layer {layer}"
        )
    if "(vision attention)" in found.notes.get("weights", ""):  # all that the judge has left out
        del found.notes["weights"]


def is_one(model: Model, inputs: dict[str, Tensor]) -> bool:
    """Whether the class computes the same by default and in its eager code."""
    networks = own_copy(model.network), own_copy(model.network, "eager")
    with torch.inference_mode():
        default, eager = (next(iter(network(**inputs).values())) for network in networks)
    return torch.allclose(default, eager, rtol=0, atol=CLOSE * float(default.abs().max()))


def compare_muted(
    found: Found, taken: Capture, kind: Kind, inputs: dict[str, Tensor], edited: Callable[[Edits], Capture]
) -> None:
    """A head muted by an edit, with its output set to 0 where the eager code hands it on."""
    layer, head = taken.layers(kind) // 2, taken.heads(kind) - 1
    call = taken.layer_call(layer, kind)
    visit = sum(earlier.module is call.module for earlier in taken.calls[kind][:layer])
    name = next(name for name, module in taken.model.network.named_modules() if module is call.module)
    muted = edited(Edits(mute_heads=[Place(layer, head, kind)]))
    ours = muted.logits if muted.logits is not None else muted.vectors
    if ours is None:
        found.notes["edits"] = "the pass returns neither logits of a next token nor vectors"
        return
    try:
        eager = own_copy(taken.model.network, "eager")
        returned = passed_without(eager, name, call.output[0], head, visit, inputs)
    except LookupError as error:
        found.notes["edits"] = str(error)
        return
    except Exception as error:
        found.notes["edits"] = f"the eager code ends in {said(error)}"
        return
    own = (returned.logits[0, -1] if muted.logits is not None else returned.last_hidden_state[0]).float().numpy()
    size = float(np.abs(ours - own).max() / np.abs(own).max())
    if not size <= CLOSE and not is_one(taken.model, inputs):
        found.notes["edits"] = (
            "its eager code computes other numbers than its default code, whose numbers are those of Headlight"
        )
        return
    found.differs("muted head", size, CLOSE)


def passed_without(
    eager: PreTrainedModel, name: str, output: Tensor, head: int, visit: int, inputs: dict[str, Tensor]
) -> Any:
    """What the eager code returns if a head of the attention module `name` gives nothing.

    output  [queries, heads, d_v], what all of its heads give
    visit   which time the pass comes to this module: ALBERT goes through a layer several times

    Raises LookupError if no module reads that.
    """
    visits = count()

    def passed() -> Any:
        with torch.inference_mode():
            return eager(**inputs)

    def emptied(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if next(visits) != visit:
            return None
        outputs, size = args[0].clone(), output.shape[-1]
        outputs[..., head * size : (head + 1) * size] = 0
        return (outputs, *args[1:])

    hook = reader_of_heads(eager, name, output, passed).register_forward_pre_hook(emptied)
    try:
        return passed()
    finally:
        hook.remove()


def reader_of_heads(network: PreTrainedModel, name: str, output: Tensor, passed: Callable[[], Any]) -> nn.Module:
    """The module that reads the outputs of all heads of the attention module `name` in a pass.

    That is the first one whose input has the values of `output`; where a gate comes first, the module's own map to what it
    gives, by its name.
    """
    flat = output.flatten(1)
    outputs = {part for of, part in network.get_submodule(name).named_children() if of in OUTPUTS}
    same: list[nn.Module] = []
    sized: list[nn.Module] = []

    def look(module: nn.Module, args: tuple[Any, ...]) -> None:
        if not args or not isinstance(args[0], Tensor) or args[0].shape[-1:] != flat.shape[-1:]:
            return
        if args[0].numel() == flat.numel() and torch.allclose(args[0].reshape(flat.shape), flat, 1e-3, 1e-3):
            same.append(module)
        if module in outputs:
            sized.append(module)

    hooks = [module.register_forward_pre_hook(look) for module in network.modules()]
    passed()
    for hook in hooks:
        hook.remove()
    for module in (*same, *reversed(sized)):
        return module
    raise LookupError("no module of the layer reads the outputs of its heads")


def compare_written(found: Found, model: Model) -> None:
    """The most probable token, again and again, beyond every window, chunk and first length."""
    if not model.has_language_model_head:
        return
    try:
        ours = list(generate(model, input_ids=BEGINNING, new_tokens=WRITTEN).token_ids)
    except InputError as error:
        found.notes["written"] = str(error)
        return
    try:
        own = own_copy(model.network)
        if ours == (theirs := written(own)):
            return
        if ours == written(own, use_cache=False):
            found.notes["written"] = (
                "generate() writes other tokens with its cache than without; these are those without"
            )
            return
    except Exception as error:
        found.notes["written"] = f"generate() ends in {said(error)}"
        return
    same = next((number for number, pair in enumerate(zip(ours, theirs, strict=False)) if len({*pair}) > 1), len(ours))
    found.is_wrong(f"written: another token than generate() from token {same} of {WRITTEN}")


def written(own: PreTrainedModel, **options: Any) -> list[int]:
    """The tokens that transformers writes."""
    with torch.inference_mode():
        ids = torch.tensor(BEGINNING)[None]
        both = own.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=WRITTEN, **PLAIN, **options)
    return both[0, -WRITTEN:].tolist()


def compare_attribution(found: Found, model: Model, given: dict[str, Any]) -> None:
    """Whether the contributions of all components add up to the number that they are read for."""
    try:
        taken = capture(model, **given, components=True)
        summed = logit_attribution(taken) if model.has_language_model_head else cosine_attribution(taken, taken)
    except InputError as error:
        found.notes["attribution"] = str(error)
        return
    if not summed.holds:
        found.is_wrong(f"attribution: the sum is {summed.total:.6g}, the number {summed.number:.6g}")


def compare_weights_only(found: Found, model: Model, refusal: InputError) -> None:
    """The weights of a class that keeps its queries, keys and values to itself."""
    found.result, found.why = "refused", str(refusal)
    if model.captures or model.reads_images:
        return
    try:
        taken = attention_weights(model, input_ids=READ)
    except InputError as error:
        found.why = str(error)
        return
    found.result = "weights only"
    found.heads = f"{taken.kinds[0]} {taken.layers()} × {taken.heads()}"
    inputs = {"input_ids": torch.tensor(READ)[None]}
    if model.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.tensor([[1]])
    with torch.inference_mode():
        returned = own_copy(model.network, "eager")(**inputs, output_attentions=True)
    layers = returned.encoder_attentions if model.is_encoder_decoder else returned.attentions
    for layer, weights in enumerate(layers):
        ours = np.stack([taken.weights(layer, head) for head in range(weights.shape[1])])
        found.differs("weights", float(np.abs(ours - weights[0].numpy()).max()), CLOSE)


def said(error: BaseException) -> str:
    """An error's kind and what it says first, without the name of the check that raised it."""
    text = re.sub(r"Class validation error for validator '\w+': \w+: ", "", " ".join(str(error).split()))
    return f"{type(error).__name__}: {text[:160]}"


# --- running


def each(names: Collection[str], processes: int = 1) -> Iterator[Found]:
    """`examine` for each class, in a process of its own, so many at once."""
    examine("LlamaForCausalLM")  # what transformers prepares once, it prepares for all processes here
    waiting, running = list(names)[::-1], {}
    while waiting or running:
        while waiting and len(running) < processes:
            name = waiting.pop()
            process, pipe = begun(name)
            running[pipe] = process, name
        for pipe in select.select([*running], [], [])[0]:
            process, name = running.pop(pipe)
            with pipe:
                said = pipe.read()
            _, status = os.waitpid(process, 0)
            yield Found(**json.loads(said)) if said else ended(name, status)


def begun(name: str) -> tuple[int, IO[str]]:
    """A process that examines a class, and what it will write."""
    reading, writing = os.pipe()
    if process := os.fork():
        os.close(writing)
        return process, os.fdopen(reading)
    warnings.filterwarnings("ignore")
    gc.disable()
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    with os.fdopen(writing, "w") as pipe:
        json.dump(asdict(examine(name)), pipe)
    os._exit(0)


def ended(name: str, status: int) -> Found:
    """What is known of a class whose process has written nothing."""
    is_slow = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
    why = (
        f"not done within {SECONDS} seconds of the processor" if is_slow else f"the process ended with status {status}"
    )
    return Found(name, every_class().get(name, []), "traceback", why)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="classes; none: all")
    parser.add_argument("--write", action="store_true", help="renew the tables in docs/architectures.md")
    parser.add_argument("--processes", type=int, default=1, help="how many classes at once")
    parser.add_argument("--out", type=Path, help="a file for what was found, a line of JSON a class")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"transformers {transformers.__version__}", flush=True)
    rows = []
    for found in each(options.names or every_class(), options.processes):
        rows.append(asdict(found))
        print(f"{found.name:44} {found.result:15} {found.worst:7.1e}  {found.heads:24} {found.why[:160]}", flush=True)
        if options.names:
            print(
                *(f"    {what}: {why}" for what, why in (found.differences | found.notes).items()), sep="\n", flush=True
            )
        if options.out is not None:
            with options.out.open("a") as file:
                print(json.dumps(rows[-1]), file=file)
    if options.write:
        renew(rows)


if __name__ == "__main__":
    sys.exit(main())
