"""Writing a pass to a file, from which it can be opened without its model: docs/captures.md describes the file."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor

from ..attention.shaping import BY_HEAD
from ..models.calls import Call
from ..models.checkups import fault_of, outcome
from ..models.images import ImageGrid
from ..models.model import Model, RecordedModel
from ..models.modules import Kind
from ..progress import stop_point
from ..record_pass import BEST, CELLS, PassFile, runs_of, vocabulary
from .calls.edited_call import EditedCall, HeadEdit
from .calls.rows import ByDistance, Runs
from .edits.edits import Edits
from .edits.lines import lines_of
from .layer_labels import LayerLabel
from .sampling import most_probable


def save_pass(
    path: str | os.PathLike[str],
    model: Model,
    layers: Mapping[Kind, Iterable[tuple[LayerLabel, Call]]],
    arrays: Mapping[str, NDArray | Sequence[int] | None],
    edits: Edits,
    image: NDArray[np.uint8] | None,
    on_image: Mapping[Kind, Sequence[ImageGrid]],
) -> None:
    """Write a pass to a safetensors file: every array in the dtype that it has.

    layers  the attention calls by kind, each with its label
    image    small, or None; on_image: where tokens of each kind lie on it
    arrays  input_ids, target_ids, sides, logits, vectors, as in a capture; those that are empty or None are left out
    """
    file = PassFile()
    for kind, calls in layers.items():
        for label, call in calls:
            stop_point()
            _add(file, kind, label, call)
    given = {name: torch.as_tensor(np.asarray(array)) for name, array in arrays.items() if array is not None}
    file.arrays |= {name: array for name, array in given.items() if array.numel()}
    if image is not None:
        file.arrays["image"] = torch.tensor(image)
    for kind, grids in on_image.items():
        tokens = {f"grid.{kind}.{number}": grid.tokens for number, grid in enumerate(grids)}
        file.arrays |= {name: torch.tensor(of, dtype=torch.int32) for name, of in tokens.items()}
    best = most_probable(given["logits"].numpy(), BEST) if "logits" in given else ()
    ids = {*map(int, best), *(int(token) for name in ("input_ids", "target_ids") for token in given[name])}
    if isinstance(model, RecordedModel):
        known = model.vocabulary
    else:
        known = None if model.tokenizer is None else vocabulary(model.tokenizer, ids)
    description = {
        "model": {
            "name": model.name,
            "revision": model.revision,
            "dtype": model.dtype,
            "predicts": model.has_language_model_head,
            "both": model.is_encoder_decoder,
            "registers": model.register_tokens,
            "notes": list(model.notes),
            "sentence": asdict(model.sentence),
            **({"checkup": checked} if (checked := outcome(model)) else {}),
            **({"failed": True} if fault_of(model) else {}),
        },
        "vocabulary": known,
        "edits": list(lines_of(edits)),
    }
    if on_image:
        description["on_image"] = {
            kind: [{"across": grid.across.tolist(), "down": grid.down.tolist()} for grid in grids]
            for kind, grids in on_image.items()
        }
    try:
        file.save(path, **description)
    except SafetensorError as error:
        raise OSError(str(error)) from None


def _add(file: PassFile, kind: Kind, label: LayerLabel, call: Call) -> None:
    """Add a layer. A mask or bias that was opened from a file is in its form already."""
    arrays = {
        "query": call.query[0],
        "key": call.key[0],
        "value": call.value[0],
        "output": call.output[0].transpose(0, 1),
    }
    mask, bias = (part[0] if isinstance(part, Tensor) else None for part in (call.mask, call.bias))
    values: dict[str, Any] = {"scale": call.scale, "softcap": call.softcap, "label": label.words}
    arrays |= {name: of.flatten() for name in BY_HEAD if (of := getattr(call.shaping, name)) is not None}
    entry = file.add(kind, label.number, arrays, mask=mask, bias=bias, causal=call.causal, **values)
    if call.parts is not None:
        entry["parts"] = file.keep("parts", call.parts.int())
    if isinstance(opened := call.mask, Runs):
        entry["mask"] = file.keep("runs", torch.from_numpy(opened.runs))
    if isinstance(opened := call.bias, ByDistance):
        entry["bias"] = file.keep("by_distance", opened.numbers)
    if isinstance(call, EditedCall):
        place, size = f"{kind}.{len(file.calls[kind]) - 1}", (call.query.shape[2], call.key.shape[2])
        entry["edits"] = [_edit(file, f"{place}.instead.{head}", head, edit, size) for head, edit in call.edits.items()]


def _edit(file: PassFile, name: str, head: int, edit: HeadEdit, size: tuple[int, int]) -> dict[str, Any]:
    """What an edit has changed in a head."""
    if edit.output is not None:
        file.arrays[name] = edit.output.detach().cpu().contiguous()
    return {
        "head": head,
        "scale_by": edit.scale_by,
        "unscaled": edit.unscaled,
        "mask": None if edit.mask is None else file.keep("runs", runs_of(_drawn(edit, *size))),
        "blocked": [list(pair) for pair in edit.blocked],
        "weighing": edit.weighing,
        "pattern": edit.pattern,
        "painted": [[query, list(row), list(row.values())] for query, row in edit.painted.items()],
    }


def _drawn(edit: HeadEdit, queries: int, keys: int) -> Iterator[Tensor]:
    """The mask of an edit in blocks of rows: [1, rows, keys] bool."""
    assert edit.mask is not None
    size = max(1, CELLS // keys)
    for start in range(0, queries, size):
        rows = np.arange(start, min(start + size, queries))[:, None]
        yield torch.from_numpy(np.array(np.broadcast_to(edit.mask(rows, np.arange(keys)), (len(rows), keys))))[None]
