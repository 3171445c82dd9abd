"""Checks against the files of a model: its tokens, its weights, and what the network leaves out of them."""

import torch
from safetensors import safe_open
from tokenizers import Tokenizer

from ...models.added_tokens import text_notes
from ...models.bounds import UnreadableError
from ...models.checkups import Finding
from ...models.dequantising import Undone, undone
from ...models.weight_files import lost, notes_of, read_as_they_are, stored_in, weight_files
from .reading import LINEAR, TEXT, Reading

ROWS = 64  # of each matrix that are read again
IN_MEMORY = "The model was not read from files, or was changed afterwards."


def beginning_of_text(reading: Reading) -> Finding:
    """The tokenizer puts one beginning and one end around a text."""
    ids = reading.capture.input_ids
    if reading.model.tokenizer is None or not ids:
        return Finding(None, "The model has no tokenizer.")
    notes = text_notes(reading.model, ids, reading.capture.target_ids)
    return Finding.of(notes, "The tokenizer puts at most one beginning and one end around a text.")


def tokens_of_the_file(reading: Reading) -> Finding:
    """The tokens of the fixed text are those of tokenizer.json, read without transformers."""
    model = reading.model
    file = None if model.folder is None else model.folder / "tokenizer.json"
    if model.tokenizer is None or file is None or not file.is_file():
        return Finding(None, "There is no tokenizer.json to compare with.")
    own = Tokenizer.from_file(str(file))
    # Some files ask for a fixed length.
    own.no_padding()
    own.no_truncation()
    expected, found = own.encode(TEXT).ids, model.tokenizer(TEXT)["input_ids"]
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
    try:
        stored = undone(folder, stored_in(weight_files(folder)))
        notes = notes_of(reading.model.network, stored, lost(folder), ())
    except UnreadableError as error:
        return Finding(False, f"The folder {error}.")
    return Finding(True, " ".join(notes) or f"The network reads all {len(stored):,} tensors of its files.")


def weights_of_the_file(reading: Reading) -> Finding:
    """The weights of the chosen layers are those of the files, bit for bit after the conversion of their dtype."""
    if (folder := reading.model.folder) is None:
        return Finding(None, IN_MEMORY)
    stored = undone(folder, stored_in(weight_files(folder)))
    names, failures, compared = read_as_they_are(reading.model.network, stored), [], 0
    parts = dict(reading.model.network.named_parameters())
    linear = [name for name, visit in reading.visits.items() if isinstance(visit.module, LINEAR)]
    for part in (f"{name}.{of}" for name in linear for of in ("weight", "bias")):
        if part not in parts or (name := names.get(part)) is None or isinstance(stored[name], Undone):
            continue
        with safe_open(stored[name].file, framework="pt") as file:
            given = file.get_slice(name)[:ROWS]
        own = parts[part].detach()[:ROWS].cpu()
        compared += 1
        if not torch.equal(given.to(own.dtype), own):
            failures.append(f"{part} has other numbers than {name} in {stored[name].file.name}.")
    if not compared:
        return Finding(None, "The files hold the weights in another form, which is undone when they are read.")
    return Finding.of(failures, f"{compared} matrices and biases of the chosen layers are those of the files.")
