"""Checks against the files of a model: its tokens, its weights, and what the network leaves out of them."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from ...errors import first_line
from ...models.adapters import added_by, changed_by
from ...models.added_tokens import text_notes
from ...models.bounds import UnreadableError
from ...models.checkups import OVER, Finding
from ...models.dequantising import undone
from ...models.own_copy import own_copy
from ...models.read_again import TimeIsOverError, parts_of, read_again
from ...models.weight_files import lost, notes_of, stored_in, weight_files
from ...threads import processor_time
from .reading import TEXT, Reading

IN_MEMORY = "The model was not read from files, or was changed afterwards."
NOT_HELD = "Not looked at, as no file holds it as it is: "


def beginning_of_text(reading: Reading) -> Finding:
    """The tokenizer puts one beginning and one end around a text."""
    ids = reading.capture.input_ids
    if reading.model.tokenizer is None or not ids:
        return Finding(None, "The model has no tokenizer.")
    notes = text_notes(reading.model, ids, reading.capture.target_ids)
    return Finding.of(notes, "The tokenizer puts at most one beginning and one end around a text.")


def tokens_of_the_file(reading: Reading) -> Finding:
    """The tokens of the fixed text are those of tokenizer.json, read without transformers."""
    tokenizer: Any = reading.model.tokenizer
    folder = getattr(tokenizer, "name_or_path", "")  # of an adapter, which may have its own
    if not folder or not (file := Path(folder) / "tokenizer.json").is_file():
        return Finding(None, "There is no tokenizer.json to compare with.")
    own = Tokenizer.from_file(str(file))
    # Some files ask for a fixed length.
    own.no_padding()
    own.no_truncation()
    expected, found = own.encode(TEXT).ids, tokenizer(TEXT)["input_ids"]
    length = min(len(expected), len(found))
    different = [at for at in range(length) if expected[at] != found[at]] or [length] * (len(expected) != len(found))
    return Finding.of(
        [f"The text is not split as tokenizer.json says, first at token {at}." for at in different[:1]],
        f"The {len(found)} tokens of the text are those of tokenizer.json.",
    )


def leftovers(reading: Reading) -> Finding:
    """The network reads all weights of its files, but for those that are known to change no number."""
    if (folder := reading.model.folder) is None:
        return Finding(None, IN_MEMORY)
    if reading.model.tower_of is not None:
        return Finding(None, "The network is one tower of the two in the files.")
    try:
        stored = undone(folder, stored_in(weight_files(folder)))
        notes = notes_of(reading.model.network, stored, lost(folder), ())
    except UnreadableError as error:
        return Finding(False, f"The folder {error}.")
    except SafetensorError as error:
        return Finding(False, f"The folder has damaged or incomplete weights: {first_line(error)}.")
    return Finding(True, " ".join(notes) or f"The network reads all {len(stored):,} tensors of its files.")


def weights_of_the_file(reading: Reading, seconds: float = math.inf) -> Finding:
    """All weights are those of the files, bit for bit after the conversion of their dtype; those to which an adapter has added
    are the sum, but for rounding, and those that the class computes are what it computes when it is built anew.

    seconds  of this thread's processor time: what is left then is not looked at
    """
    if (folder := reading.model.folder) is None:
        return Finding(None, IN_MEMORY)
    network, begun, adapter = reading.model.network, processor_time(), reading.model.adapter
    stored = undone(folder, stored_in(weight_files(folder)))
    changed = set() if adapter is None else changed_by(adapter, network)
    added = {} if adapter is None else added_by(adapter, network)
    every = parts_of(network)
    parts = {name: part for name, part in every.items() if name in added or name not in changed}
    seen, failures, computed, is_over = set(), [], 0, False

    def is_in_time() -> bool:
        return processor_time() - begun <= seconds

    try:
        for part, name, is_same in read_again(network, parts, stored, is_in_time, added):
            seen.add(id(parts[part]))
            if not is_same:
                failures.append(f"{part} has other numbers than {name} in {stored[name].file.name}.")
        unread = [name for name, part in every.items() if id(part) not in seen]
        for part, is_same in _computed(network, unread):
            seen.add(id(every[part]))
            computed += 1
            if not is_same:
                failures.append(f"{part} has other numbers than {type(network).__name__} computes.")
    except TimeIsOverError:
        is_over = True
    left = [*{id(part): name for name, part in every.items() if id(part) not in seen}.values()]
    why = OVER.format(seconds) if is_over else NOT_HELD + _counted(left)
    if not seen:
        return Finding(None, why, is_over)
    said = f"{len(seen):,} of {len(seen) + len(left):,} tensors of the network are those of the files. {why}"
    said = said if left else f"All {len(seen):,} tensors of the network are those of the files."
    said += f" Of these, {computed} are what the class computes." if computed else ""
    return replace(Finding.of(failures, said), is_cut=is_over)


def _computed(network: PreTrainedModel, unread: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """The parts that no file holds because the class computes them (Marian's positions), and whether it still does so."""
    if names := [name for name in unread if name in (network._keys_to_ignore_on_save or ())]:
        anew = own_copy(network, without=names).state_dict()
        yield from ((name, torch.equal(network.get_parameter(name), anew[name])) for name in names)


def _counted(names: list[str]) -> str:
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return f"{names[0]}{more}." if names else ""
