"""Opening a pass from a file, without its model. Nothing in the file is trusted: every part is checked before it is used."""

import io
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, get_args

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor, nn

from ..attention.shaping import BY_HEAD, Shaping
from ..attention.trace import WEIGHINGS
from ..capturing.calls.edited_call import PATTERNS, EditedCall, HeadEdit
from ..capturing.calls.rows import ByDistance, Runs
from ..capturing.capture import Capture
from ..capturing.edits.applying import Editor
from ..capturing.edits.edits import Edits, every
from ..capturing.edits.lines import edits_of
from ..capturing.layer_labels import layer_labels
from ..errors import InputError, shortened
from ..models.calls import Call
from ..models.devices import DTYPES
from ..models.fields import LARGEST, MAX_TEXT, Fields, are_whole, broken, is_number, read_json
from ..models.images import SMALL, ImageGrid
from ..models.model import NoNetwork, RecordedModel
from ..models.modules import Kind
from ..models.sentences import POOLINGS, SentenceVector
from ..models.tokens import Piece, RecordedTokens
from ..pieces import BYTE_OF
from ..progress import stop_point
from ..record_pass import BEST, CELLS, FORMAT, SEAL, VERSION, sealed

MAX_HEADER = 32 * 2**20  # bytes of the names, shapes and description
MAX_LISTS = 1_000_000
MAX_LAYERS, MAX_EDITS, MAX_WORDS, MAX_GRIDS = 10_000, 10_000, 200_000, 1_000
EARLIER = "This file also holds what components gave, as earlier versions kept it. It is not read: attribution needs the model."
_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_WHOLE = {getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}
_HEX = re.compile(rf"([0-9a-f]{{2}}){{0,{4 * MAX_TEXT}}}")  # bytes of a token
# Dtypes as safetensors calls them.
_NAMES = {"F16", "BF16", "F32", "F64", *(f"{sign}{bits}" for sign in "IU" for bits in (8, 16, 32, 64))}


def open_capture(file: str | os.PathLike[str] | bytes) -> Capture:
    """Open a pass that `Capture.save` or a recorder has written; docs/captures.md describes the file.

    file  its path, or its contents

    The capture needs no model: traces, tokens, certificates, metrics and exports are those of the pass. What needs the model
    (another text, a what-if, components) raises InputError.

    Raises InputError (field "file") for a file that is not a pass, is damaged, or holds what no pass has: arrays of other
    sizes or dtypes, numbers that are not finite. Nothing in it is ever run.
    """
    content, arrays, is_sealed = _content(file)
    return _Opening(Fields(content), arrays, is_sealed=is_sealed).capture()


def unchecked(capture: Capture) -> str:
    """A sentence about what cannot be checked of a pass from a file; "" for any other pass.

    Whatever else a file says twice is compared when it is opened, and certificates compare the output of each head with what
    follows from its queries, keys and values.
    """
    model = capture.model
    if not isinstance(model, RecordedModel):
        return ""
    parts = {
        "the model's name and revision": True,
        "what the check-up of the model found": bool(model.checkup),
        "the tokens and their texts": bool(capture.input_ids),
        "the side of each token": bool(capture.sides),
        "queries, keys and values": True,
        "labels of layers": True,
        "the logits": capture.logits is not None,
        "the vectors, and how they make a sentence vector": capture.vectors is not None,
        "the image, and where tokens lie on it": capture.image is not None or capture.grid is not None,
        "the other texts of its changes": bool(capture.edits.other_texts),
        "whether it is as it was written, which it does not say": not model.is_sealed,
    }
    listed = ", ".join(part for part, is_there in parts.items() if is_there)
    return f"Not checked, because only the model could: {listed}."


# --- the file


def _content(file: str | os.PathLike[str] | bytes) -> tuple[dict[str, Any], dict[str, Tensor], bool]:
    """(the description, the arrays, whether the file says that it is as it was written), after the header has shown that the
    file holds what it announces."""
    if isinstance(file, bytes):
        text, description = _header(io.BytesIO(file), len(file))
    else:
        path = Path(file)
        if not path.is_file():
            raise InputError(f"There is no file {shortened(str(path))}.", field="file")
        with _readable(), path.open("rb") as stream:
            text, description = _header(stream, path.stat().st_size)
    with _readable():
        if isinstance(file, bytes):
            arrays = safetensors.torch.load(file)
        else:  # copied, since the file could change after its numbers have been checked
            arrays = {name: array.clone() for name, array in safetensors.torch.load_file(file).items()}
    before = text.rpartition(f', "{SEAL}": ')[0]
    if (is_sealed := SEAL in description) and text != sealed(before + "}", arrays):
        raise broken("it was changed after it was written")
    return description, arrays, is_sealed


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except SafetensorError:
        raise broken("the places of its arrays do not fit their sizes") from None
    except OSError as error:
        raise InputError(f"The file cannot be read: {error.strerror}.", field="file") from None


def _header(stream: BinaryIO, size: int) -> tuple[str, dict[str, Any]]:
    """The description in the header, as a text and read. Raises InputError unless the arrays that the header announces can be
    there."""
    length = int.from_bytes(stream.read(8), "little")
    if size < 10:
        raise broken("it is too short to be a safetensors file")
    if length > MAX_HEADER:
        raise broken(f"its header would have {length:,} bytes, and at most {MAX_HEADER:,} are read")
    if length > size - 8:
        raise broken("it ends within its header: it is cut short")
    header = read_json(stream.read(length), MAX_LISTS)
    entries = Fields(header)
    about = entries.part("__metadata__")
    if FORMAT not in about.values:
        raise broken("it is a safetensors file that holds no recorded pass")
    text = about.text(FORMAT, MAX_HEADER)
    description = read_json(text.encode(), MAX_LISTS)
    version = Fields(description).number("version")
    if version > VERSION:
        why = f"This pass has version {version:g}; this Headlight reads {VERSION}. Update Headlight to open it."
        raise InputError(why, field="file")
    end = max((_end(name, entries.part(name)) for name in header if name != "__metadata__"), default=0)
    if end > size - 8 - length:
        raise broken(f"it announces {end:,} bytes of numbers and holds {size - 8 - length:,}: it is cut short")
    return text, description


def _end(name: str, fields: Fields) -> int:
    """The end of an array in the file. Raises InputError for a dtype that no part of a pass has."""
    if fields.values.get("dtype") not in _NAMES:
        raise broken(
            f"its {_called(name)} holds {shortened(str(fields.values.get('dtype')), 20)}, which no part of a pass does"
        )
    offsets = fields.values.get("data_offsets")
    if not isinstance(offsets, list) or not all(type(offset) is int for offset in offsets) or len(offsets) != 2:
        raise broken(f"it does not say where its {_called(name)} is")
    return max(offsets)


def _called(name: str) -> str:
    return f"“{shortened(name, 60)}”"


# --- what it holds


class _Opening:
    """Makes a capture of the description and the arrays of a file. is_sealed: whether it is known to be as it was written"""

    def __init__(self, description: Fields, arrays: Mapping[str, Tensor], *, is_sealed: bool) -> None:
        self._description, self._arrays, self._is_sealed = description, arrays, is_sealed
        self._left = {*arrays}  # those that nothing has asked for

    def _array(
        self, name: str, dimensions: int, dtypes: set[torch.dtype] = _FLOATS, *, or_lower: bool = False
    ) -> Tensor:
        """An array that is not empty, whose numbers are finite. or_lower: or -inf, or close to it"""
        stop_point()
        array = self._arrays.get(name)
        self._left.discard(name)
        if array is None:
            raise broken(f"its {_called(name)} is missing")
        if array.ndim != dimensions or 0 in array.shape:
            why = f"its {_called(name)} has the shape {tuple(array.shape)}, not {dimensions} dimensions of at least 1"
            raise broken(why)
        if array.dtype not in dtypes:
            raise broken(f"its {_called(name)} holds {str(array.dtype).removeprefix('torch.')}")
        if array.dtype in _FLOATS and not bool(((array if or_lower else array.abs()) < LARGEST).all()):
            advice = ". Record the pass in bfloat16, which holds larger numbers" * (array.dtype == torch.float16)
            raise broken(f"its {_called(name)} holds NaN, infinity or numbers beyond {LARGEST:g}{advice}")
        return array

    def _numbers(self, name: str, dimensions: int, *, or_lower: bool = False) -> Any:
        if name not in self._arrays:
            return None
        array = self._array(name, dimensions, or_lower=or_lower)
        return (array if array.dtype == torch.float64 else array.float()).numpy()

    def _whole(self, name: str, dimensions: int, least: int = 0, most: int = 2**31 - 1) -> Tensor:
        """An array of whole numbers, of whatever width, as int32."""
        array = self._array(name, dimensions, _WHOLE).long()
        if bool((array < least).any()) or bool((array > most).any()):
            raise broken(f"its {_called(name)} holds numbers that are not from {least} to {most:,}")
        return array.int()

    def _ids(self, name: str, least: int = 0, most: int = 2**31 - 1) -> tuple[int, ...]:
        return tuple(self._whole(name, 1, least, most).tolist()) if name in self._arrays else ()

    def capture(self) -> Capture:
        calls = self._description.part("calls")
        kinds = [kind for kind in get_args(Kind) if kind in calls.values]
        if not kinds or len(calls.values) != len(kinds):
            raise broken(f"its calls are not lists of layers by kind: {', '.join(get_args(Kind))}")
        entries = {kind: calls.parts(kind, MAX_LAYERS) for kind in kinds}
        layers = {kind: self._layers(kind, entries[kind]) for kind in kinds}
        labels = {kind: [(one.whole("layer"), one.text("label")) for one in entries[kind]] for kind in kinds}
        ids, target = self._ids("input_ids"), self._ids("target_ids")
        opened = Capture(
            self._model(labels),
            ids,
            target,
            layers,
            logits=self._logits(),
            vectors=self._numbers("vectors", 2),
            edits=self._edits(),
            sides=self._ids("sides", -1, 1),
            on_image=self._on_image(layers),
            image=self._image(),
        )
        self._check(opened)
        self._check_edits(opened)
        if "components" in self._description.values:
            self._left = {name for name in self._left if not name.startswith("components.")}
        if left := sorted(self._left):
            raise broken(f"it holds {_called(left[0])}, of which its description says nothing")
        return opened

    def _logits(self) -> Any:
        """That of a token that never comes next may be -inf."""
        logits = self._numbers("logits", 1, or_lower=True)
        if logits is not None and logits.max() < -LARGEST:
            raise broken("its “logits” allow no next token")
        return logits

    def _model(self, labels: Mapping[Kind, list[tuple[int, str]]]) -> RecordedModel:
        fields = self._description.part("model")
        network: Any = NoNetwork()
        tokens: Any = self._tokens()
        return RecordedModel(
            fields.text("name"),
            network,
            tokens,
            fields.text("revision"),
            dtype=fields.word("dtype", tuple(DTYPES)),
            has_language_model_head=fields.flag("predicts"),
            is_encoder_decoder=fields.flag("both"),
            register_tokens=fields.whole("registers") if "registers" in fields.values else 0,
            notes=(
                *(fields.texts("notes") if "notes" in fields.values else ()),
                *([EARLIER] if "components" in self._description.values else []),
            ),
            sentence=_sentence(fields.part("sentence")) if "sentence" in fields.values else SentenceVector(),
            is_sealed=self._is_sealed,
            checkup=fields.text("checkup") if "checkup" in fields.values else "",
            failed=fields.flag("failed") if "failed" in fields.values else False,
            labels=labels,
        )

    def _tokens(self) -> RecordedTokens | None:
        if self._description.values.get("vocabulary") is None:
            return None
        fields = self._description.part("vocabulary")
        pieces, special = fields.values.get("pieces"), fields.values.get("special", [])
        around = fields.values.get("around", [[], []])
        are_around = isinstance(around, list) and len(around) == 2 and all(map(are_whole, around))
        if not isinstance(pieces, dict) or not all(map(_is_number, pieces)) or not are_whole(special) or not are_around:
            raise broken("its vocabulary is not a table of tokens by their numbers")
        texts = {int(token): None if piece is None else Fields(pieces).text(token) for token, piece in pieces.items()}
        if not texts.keys() >= {*special, *around[0], *around[1]}:
            raise broken("its vocabulary names special tokens that are not in it")
        read = _written if "written" in fields.values else _spelled
        written = {token: None if piece is None else read(fields, token, piece) for token, piece in texts.items()}
        return RecordedTokens(written, frozenset(special), (around[0], around[1]), fields.values)

    def _edits(self) -> Edits:
        lines = self._description.texts("edits", MAX_WORDS) if "edits" in self._description.values else ()
        if len(lines) > MAX_EDITS:
            raise broken(f"it names {len(lines):,} edits")
        try:
            return every(map(edits_of, lines))
        except InputError as error:
            raise broken(f"its edits cannot be read: {str(error).rstrip('.')}") from None

    def _image(self) -> NDArray[np.uint8] | None:
        if "image" not in self._arrays:
            return None
        image = self._array("image", 3, {torch.uint8})
        if image.shape[2] != 3 or max(image.shape) > SMALL:
            raise broken(f"its image is not red, green and blue of at most {SMALL} × {SMALL} pixels")
        return image.numpy()

    def _on_image(self, layers: Mapping[Kind, tuple[Call, ...]]) -> dict[Kind, tuple[ImageGrid, ...]]:
        """Where tokens lie on the image."""
        if "on_image" not in self._description.values:
            return {}
        given = self._description.part("on_image").values
        kinds: list[Kind] = [kind for kind in layers if kind in given]
        if not kinds or len(kinds) != len(given) or "image" not in self._arrays:
            raise broken("where its tokens lie on its image does not fit the rest")
        return {kind: tuple(self._grids(kind, given[kind], layers[kind][0].key.shape[2])) for kind in kinds}

    def _grids(self, kind: Kind, lines: Any, keys: int) -> Iterator[ImageGrid]:
        taken: set[int] = set()
        for number, of in enumerate(lines if isinstance(lines, list) and 0 < len(lines) <= MAX_GRIDS else [None]):
            name = f"grid.{kind}.{number}"
            tokens = self._whole(name, 2)
            own = {*tokens.flatten()[: keys + 1].tolist()}
            if len(own) < tokens.numel() or own & taken or min(own) < 0 or max(own) >= keys:
                raise broken(f"its {_called(name)} names tokens twice, or some that are not there")
            taken |= own
            sides = zip(("down", "across"), tokens.shape, strict=True)
            down, across = (
                _lines(of.get(side) if isinstance(of, dict) else None, count, name) for side, count in sides
            )
            yield ImageGrid(across, down, tokens.numpy())

    # --- layers

    def _layers(self, kind: Kind, entries: list[Fields]) -> tuple[Call, ...]:
        if not entries:
            raise broken(f"it has no layer of {kind} attention")
        calls = tuple(self._call(kind, f"{kind}.{number}", entry) for number, entry in enumerate(entries))
        shapes = {(call.heads, call.query.shape[2], call.key.shape[2]) for call in calls}
        if len(shapes) > 1:
            raise broken(f"its layers of {kind} attention differ in their numbers of heads or tokens")
        return calls

    def _call(self, kind: Kind, name: str, entry: Fields) -> Call:
        query, key, value, output = (self._array(f"{name}.{part}", 3) for part in ("query", "key", "value", "output"))
        (heads, queries, d_k), (key_heads, keys, _), d_v = query.shape, key.shape, value.shape[2]
        fits = key.shape[2] == d_k and value.shape[:2] == (key_heads, keys) and output.shape == (heads, queries, d_v)
        if not fits or heads % key_heads:
            raise broken(f"the sizes of the queries, keys, values and outputs of {name} do not fit each other")
        if len({array.dtype for array in (query, key, value)}) > 1:
            raise broken(f"the queries, keys and values of {name} differ in precision")
        by_head = {of: self._array(at, 1) for of in BY_HEAD if (at := f"{name}.{of}") in self._arrays}
        for of, numbers in by_head.items():
            if len(numbers) != heads:
                raise broken(f"the {of} of {name} are not one number a head")
        softcap = entry.number_or_none("softcap")
        if softcap is not None and softcap <= 0:
            raise broken(f"the soft cap of {name} is not above 0")
        mask = self._mask(entry.text("mask"), heads, queries, keys)
        bias = self._bias(entry.text("bias"), heads, queries, keys)
        scale, causal = entry.number("scale"), entry.values["mask"] == "causal"
        shaping = Shaping(scale, mask, bias, softcap, **by_head)
        inputs, parts = (query[None], key[None], value[None]), self._parts(entry, queries, keys)
        of, layer = {"parts": parts, "kind": kind}, int(name.rpartition(".")[2])
        call = Call(nn.Module(), *inputs, shaping, output.transpose(0, 1)[None], causal, **of, layer=layer)
        edits = {_below(one, "head", heads): self._edit(name, one, call) for one in entry.parts("edits", heads)}
        call = EditedCall(**vars(call), edits=edits) if edits else call
        largest = math.prod(float(array.abs().max()) for array in (query, key)) * d_k
        factor = max((abs(edit.scale(scale)) for edit in edits.values()), default=0.0)
        if not largest * max(1.0, abs(scale), factor) < LARGEST:
            raise broken(f"the scores of {name} would be too large")
        return call

    def _parts(self, entry: Fields, queries: int, keys: int) -> Tensor | None:
        """The number of the part of an image that each token belongs to."""
        if "parts" not in entry.values:
            return None
        parts = self._whole(entry.text("parts"), 1)
        if not len(parts) == queries == keys:
            raise broken("the parts of the image within which tokens attend do not fit them")
        return parts

    def _mask(self, form: str, heads: int, queries: int, keys: int) -> Runs | None:
        if form in ("none", "causal"):
            return None
        if not form.startswith("runs."):
            raise broken(f"its mask {_called(form)} is not none, causal or runs")
        runs = self._whole(form, 4)
        if runs.shape[0] not in (1, heads) or runs.shape[1] != queries or runs.shape[3] != 2:
            raise broken(f"the mask {form} does not fit the queries and keys")
        first, stop = runs[..., 0], runs[..., 1]
        if runs.shape[2] >= 2**15 or not bool(((first >= 0) & (first <= stop) & (stop <= keys)).all()):
            raise broken(f"the mask {form} names keys that are not there")
        return Runs(runs.numpy(), keys)

    def _bias(self, form: str, heads: int, queries: int, keys: int) -> Tensor | ByDistance | None:
        if form == "none":
            return None
        if form.startswith("by_distance."):
            numbers = self._array(form, 2)
            if numbers.shape[0] not in (1, heads) or numbers.shape[1] != queries + keys - 1:
                raise broken(f"the bias {form} does not fit the queries and keys")
            return ByDistance(numbers, queries)
        if not form.startswith("bias."):
            raise broken(f"its bias {_called(form)} is not none, by_distance or bias")
        bias = self._array(form, 3)
        if bias.shape[0] not in (1, heads) or bias.shape[1] not in (1, queries) or bias.shape[2] != keys:
            raise broken(f"the bias {form} does not fit the queries and keys")
        return bias[None]

    def _edit(self, name: str, fields: Fields, call: Call) -> HeadEdit:
        """What was changed in a head."""
        queries, keys, d_v = call.query.shape[2], call.key.shape[2], call.value.shape[3]
        head = _below(fields, "head", call.heads)
        mask = None if fields.values.get("mask") is None else self._mask(fields.text("mask"), 1, queries, keys)
        blocked, painted = fields.values.get("blocked"), fields.values.get("painted")
        if not isinstance(blocked, list) or not all(
            are_whole(pair, -1) and len(pair) == 2 and -1 < pair[1] < keys and pair[0] < queries for pair in blocked
        ):
            raise broken(f"an edit of {name} blocks pairs that are not there")
        output = self._array(place, 2) if (place := f"{name}.instead.{head}") in self._arrays else None
        if output is not None and output.shape[1] != d_v:
            raise broken(f"the output that an edit of {name} gives does not fit the values")
        return HeadEdit(
            scale_by=fields.number("scale_by"),
            unscaled=fields.flag("unscaled"),
            mask=None
            if mask is None
            else lambda query, key: mask.allowed(slice(0, 1), query.ravel())[0][:, key.ravel()],
            blocked=tuple((query, key) for query, key in blocked),
            weighing=fields.word("weighing", tuple(WEIGHINGS)),
            pattern=None if fields.values.get("pattern") is None else fields.word("pattern", tuple(PATTERNS)),
            painted=_painted(painted, queries, keys),
            output=output,
        )

    # --- what the file says twice

    def _check(self, opened: Capture) -> None:
        """Raise InputError where tokens, vectors, logits and labels do not fit the layers or each other."""
        model, is_both = opened.model, opened.model.is_encoder_decoder
        for kind in opened.kinds:
            if tuple(map(len, opened.tokens(kind))) != opened.shape(kind):
                raise broken(f"its tokens do not fit its {kind} attention")
            labels = layer_labels(opened, kind)
            numbers = [label.number for label in labels]
            if sorted({*numbers}) != numbers:
                raise broken(f"the numbers of its layers of {kind} attention do not rise")
            for label, call in zip([label.words for label in labels], opened.calls[kind], strict=True):
                cap = re.search(r"soft cap ([^,]+)", label)
                lacks_sinks = call.sinks is None and "sinks" in label
                if lacks_sinks or (cap and cap[1] not in (str(call.softcap), f"{call.softcap or 0:g}")):
                    raise broken(f"a layer of {kind} attention is called “{shortened(label)}” and is not that")
            if (kind in ("encoder", "decoder", "cross")) != is_both and kind != "vision":
                why = f"it has {kind} attention, and says that its model has {'an' if is_both else 'no'} encoder"
                raise broken(why)
        if model.has_language_model_head != (opened.logits is not None) or bool(opened.target_ids) != is_both:
            raise broken("it does not hold what it says that its model gives")
        if not opened.input_ids and opened.image is None:
            raise broken("it holds neither the tokens of a text nor an image")
        given = next((opened.shape(kind)[0] for kind in opened.kinds if kind != "encoder"), 0)
        if opened.vectors is not None and len(opened.vectors) != given:
            raise broken("its vectors do not fit its tokens")
        if {str(call.output.dtype) for calls in opened.calls.values() for call in calls} != {f"torch.{model.dtype}"}:
            raise broken(f"it says that its model computed in {model.dtype}, and its outputs are in another precision")
        self._check_tokens(opened)

    def _check_tokens(self, opened: Capture) -> None:
        """Raise InputError where the tokens of the text, or the most probable next ones, are not in the vocabulary."""
        tokens: Any = opened.model.tokenizer
        if opened.sides and len(opened.sides) != len(opened.input_ids):
            raise broken("its sides do not fit its tokens")
        if tokens is None:
            return
        ids = {*opened.input_ids, *opened.target_ids}
        best = () if opened.logits is None else np.flatnonzero(opened.logits > np.sort(opened.logits)[-BEST:][0])
        if lacking := sorted({*ids, *map(int, best)} - tokens.pieces.keys()):
            what = "a token of the text" if lacking[0] in ids else "one of the most probable next tokens"
            raise broken(f"its vocabulary lacks token {lacking[0]}, {what}")
        added = {token for token, side in zip(opened.input_ids, opened.sides, strict=False) if side == -1}
        of_texts = [side for side in opened.sides if side >= 0]
        if added - tokens.all_special_ids or of_texts != sorted(of_texts):
            raise broken("its sides do not fit its tokens")

    def _check_edits(self, opened: Capture) -> None:
        """Raise InputError where the edits of the pass are not the changes of its heads."""
        # What another text gave is not here.
        unknown = torch.full((1, max(map(opened.heads, opened.kinds)), 1), torch.nan)
        others = {name: lambda *_: unknown for name in opened.edits.other_texts}
        editor = Editor(opened.edits, others)
        try:
            for calls in opened.calls.values():
                for call in calls:
                    wanted, found = editor.changes(call), call.edits if isinstance(call, EditedCall) else {}
                    size = call.query.shape[2], call.key.shape[2]
                    if wanted.keys() != found.keys() or not all(
                        _alike(wanted[head], found[head], *size) for head in found
                    ):
                        raise broken("its edits are not the changes of its heads")
            editor.finish()
        except InputError as error:
            raise error if error.field == "file" else broken("its edits do not fit its layers") from None


def _alike(wanted: HeadEdit, found: HeadEdit, queries: int, keys: int) -> bool:
    """Whether two changes of a head are one. Masks are compared in the last rows, as many as are looked at together."""
    values = ("scale_by", "unscaled", "blocked", "weighing", "pattern", "painted")
    if any(getattr(wanted, name) != getattr(found, name) for name in values):
        return False
    pairs = (wanted.mask, found.mask), (wanted.output, found.output)
    if any((one is None) != (other is None) for one, other in pairs):
        return False
    if wanted.mask is not None and found.mask is not None:
        rows, columns = np.arange(max(0, queries - CELLS // keys), queries)[:, None], np.arange(keys)
        drawn = (np.broadcast_to(mask(rows, columns), (len(rows), keys)) for mask in (wanted.mask, found.mask))
        return bool(np.equal(*drawn).all())
    if wanted.output is None or found.output is None or bool(wanted.output.isnan().any()):
        return True
    return bool((wanted.output == found.output).all())


def _written(vocabulary: Fields, token: int, piece: str) -> Piece:
    """What a token writes."""
    given = vocabulary.part("written").values.get(str(token))
    if not isinstance(given, list) or [*map(type, given)] != [str, bool, bool] or not _HEX.fullmatch(given[0]):
        raise broken(f"it does not say what token {token} writes")
    return Piece(piece, bytes.fromhex(given[0]), *given[1:])


def _spelled(vocabulary: Fields, token: int, piece: str) -> Piece:
    """The same in files of earlier versions, which say how pieces are spelled."""
    marks, in_bytes = vocabulary.word("words", ("blanks", "##", "</w>")), vocabulary.flag("bytes")
    is_apart = marks == "##"
    if token in vocabulary.values.get("special", []):
        return Piece(piece, piece.encode(), is_apart, is_apart)
    if is_apart and re.fullmatch("##.+", piece, re.DOTALL):
        return Piece(piece, piece[2:].encode(), before=False, after=True)
    if in_bytes and BYTE_OF.keys() >= {*piece}:
        data = bytes(map(BYTE_OF.__getitem__, piece))
    elif byte := re.fullmatch("<0x([0-9A-F]{2})>", piece):
        data = bytes.fromhex(byte[1])
    else:
        data = piece.replace("▁", " ").encode()
    ends = marks == "</w>" and data.endswith(b"</w>")
    return Piece(piece, data.removesuffix(b"</w>") + b" " if ends else data, is_apart, is_apart)


def _sentence(fields: Fields) -> SentenceVector:
    """How the model makes a sentence vector."""
    pooling, most = fields.texts("pooling"), fields.values.get("max_tokens")
    if not 0 < len(pooling) <= len(POOLINGS) ** 2 or not {*pooling} <= POOLINGS.keys() or not are_whole([most or 1], 1):
        raise broken("how its model makes a sentence vector cannot be read")
    return SentenceVector(pooling, fields.flag("normalized"), most, left_out=fields.texts("left_out"))


def _painted(given: object, queries: int, keys: int) -> dict[int, dict[int, float]]:
    """The rows of weights that an edit gives."""
    painted: dict[int, dict[int, float]] = {}
    for row in given if isinstance(given, list) else [None]:
        parts: list[Any] = row if isinstance(row, list) and len(row) == 3 else [None] * 3
        query, at, shares = parts
        fits = are_whole([query]) and are_whole(at) and isinstance(shares, list) and all(map(is_number, shares))
        if not fits or len(at) != len(shares) or query >= queries or max(at, default=0) >= keys:
            raise broken("an edit paints weights that are not there")
        painted[query] = dict(zip(at, map(float, shares), strict=True))
    return painted


def _lines(given: object, count: int, name: str) -> NDArray[np.floating]:
    """The beginning and the end of the rows or columns of a grid: [count, 2], rising."""
    pairs = given if isinstance(given, list) else []
    if len(pairs) == count and all(
        isinstance(pair, list) and len(pair) == 2 and all(map(is_number, pair)) for pair in pairs
    ):
        lines = np.array(pairs, dtype=np.float64)
        if np.abs(lines).max() < 99 and (lines[:, 0] < lines[:, 1]).all() and (lines[1:, 0] > lines[:-1, 0]).all():
            return lines
    raise broken(f"the rows and columns of {_called(name)} are not those of a grid")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def _below(fields: Fields, name: str, count: int) -> int:
    if (number := fields.whole(name)) >= count:
        raise broken(f"there is no {name} {number}: they run from 0 to {count - 1}")
    return number
