"""Matrices that somebody typed, pasted or uploaded: text, CSV, NPY and NPZ. Every file is taken for hostile."""

import io
import math
import re
import zipfile
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError, shortened
from ..progress import stop_point
from ..units import counted, listed

MAX_CELLS = 512 * 1024
MAX_TEXT_BYTES = 16 * 2**20  # MAX_CELLS numbers at full precision, 24 characters each, and their separators
MAX_FILE_BYTES = 32 * 2**20  # query, key, value, mask and bias of MAX_CELLS float64 each
# The header of an NPY file takes 118 bytes for a matrix. NumPy takes the square of this number to refuse a bad one.
MAX_HEADER_BYTES = 1_000
MAX_SCORES = 4_096 * 4_096  # those of the longest text on the pages: 128 MB of float64 a stage, and a trace keeps four

INPUTS = ("query", "key", "value")
NPZ_NAMES = {name: name for name in (*INPUTS, "mask", "bias")} | {name[0]: name for name in INPUTS}
MAX_WEIGHTS_BYTES = 2**31  # of an NPZ file of attention weights, unpacked
MAX_PARTS = 2**20  # arrays of weights in such a file: steps × layers
WEIGHTS, BEAMS, TOKENS, QUERY_TOKENS, KEY_TOKENS = "attentions", "beams", "tokens", "query_tokens", "key_tokens"
_OF_STEP = re.compile(rf"{WEIGHTS}\.([0-9]{{1,6}})\.([0-9]{{1,6}})")

_NPY_MAGIC = b"\x93NUMPY"
_ZIP_MAGIC = b"PK\x03\x04"
_PICKLE_MAGICS = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
_NO_PICKLES = "Pickled files are never opened, because opening one can run any program."

# float() alone would also take 1_000 and digits of every script.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_SEPARATORS = {";": "semicolons", ",": "commas", "\t": "tabs"}
# A line with something in it, found without a list of all lines.
_ROW = re.compile(r"^.*\S.*$", re.MULTILINE)
# A tab that only indents or ends a line separates nothing. Nothing is given back (*+), so that this takes linear time.
_SEPARATING_TAB = re.compile(r"\S[^\S\t\n]*+\t[^\S\n]*+\S")


class _Source(NamedTuple):
    """The field and the file that messages name, and whether it holds a mask."""

    field: str
    name: str = ""
    is_mask: bool = False

    def error(self, problem: str) -> InputError:
        file = f" ({_shorten(self.name, 60)})" if self.name else ""
        return InputError(f"{self.field.capitalize()}{file}: {problem}", field=self.field)

    def check_size(self, size: int, largest: int, unit: str = "bytes") -> None:
        if size > largest:
            raise self.error(f"there are {size:,} {unit} to read; at most {largest:,} can be read. Give less.")

    def check_cells(self, height: int, width: int) -> None:
        if height < 1 or width < 1:
            raise self.error(f"the matrix is empty: {height} rows, {width} columns. Give at least one number.")
        if height * width > MAX_CELLS:
            raise self.error(
                f"{height:,} × {width:,} (rows × columns) are {height * width:,} cells; at most {MAX_CELLS:,} can be read, "
                "such as 512 × 1,024. Give fewer rows or columns."
            )

    def check_each(self, array: NDArray[np.float64], is_allowed: NDArray[np.bool_], allowed: str) -> None:
        if not is_allowed.all():
            row, column = np.argwhere(~is_allowed)[0]
            number = float(array[row, column])
            raise self.error(f"row {row + 1}, column {column + 1} (counted from 1) is {number}. {allowed}")

    @property
    def only_finite(self) -> str:
        return f"Only finite numbers can be used.{' Forbid a pair with the mask instead.' * (self.field == 'bias')}"


def read_matrix(data: str | bytes, *, field: str) -> NDArray[np.float64]:
    """A matrix from text, from a CSV file or from an NPY file, as finite float64 [rows, columns].

    data   str, or the bytes of a file: NPY if it begins with NPY's magic bytes, otherwise UTF-8 text.
           Text has one row a line; blank lines are skipped. Numbers are written with a decimal point (0.5, -2, 1e-3) and
           separated by semicolons, commas, tabs or blanks: the first of these four that occurs anywhere separates all.
           NPY may hold integers or floats of any size, in either order, with exactly two dimensions; what float64
           cannot hold exactly (integers beyond 2⁵³, long doubles) is rounded.
    field  the input it belongs to ("query", "key", "value", "bias" ...), which becomes the error's field

    Raises InputError for everything else: no numbers, rows of different lengths, a cell that is not a finite number, more
    than MAX_CELLS cells, another encoding, another dtype or rank, pickles, damaged files. Nothing is ever unpickled.
    """
    return _read(data, _Source(field))


def read_mask(data: str | bytes, *, field: str = "mask") -> NDArray[np.bool_]:
    """A mask as bool [rows, columns], True where a query may attend to a key, from the same text and files as `read_matrix`,
    holding only 0 and 1; an NPY file may also hold bools. Raises InputError for anything else."""
    return _read(data, _Source(field, is_mask=True))


def read_npz(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of an NPZ file (`np.savez`): query, key, value, and where present mask and bias.

    The arrays may also be called q, k, v; capitals do not matter; arrays with other names are left alone. Each is as from
    `read_matrix` or `read_mask`, all together have at most MAX_FILE_BYTES bytes once unpacked. Whether their shapes fit
    together is for `attend` to say. Raises InputError with field "file" if the archive is at fault, else with the array's name.
    """
    source = _Source("file")
    source.check_size(len(data), MAX_FILE_BYTES)
    with _opened(data, source) as archive:
        arrays = {}
        for field, member in _npz_members(archive, source).items():
            part = _Source(field, is_mask=field == "mask")
            content = _unpack(archive, member, part)
            if not content.startswith(_NPY_MAGIC):
                raise part.error(f"{_shorten(member.filename)} is not an NPY array. Make the file with np.savez.")
            arrays[field] = _read(content, part)
    return arrays


def read_weights_npz(data: bytes | Path, *, max_bytes: int) -> tuple[Any, tuple[list[str], list[str]] | None, Any]:
    """(weights, tokens, beams) in an NPZ file of attention weights.

    data       the bytes of a file, or its path
    max_bytes  of all that the file holds, unpacked

    The weights are the array named `attentions`, or the arrays `attentions.STEP.LAYER` of what `generate` returns, a tuple of
    layers a step, or the only array besides the tokens; not checked yet. Tokens are arrays of texts named `tokens`, or
    `query_tokens` and `key_tokens`, as (query tokens, key tokens); None where there are none. `beams` is a row of
    `beam_indices`, the place of the text's beam in each step; None where there is none. Raises InputError with field "file".
    """
    source = _Source("file", data.name if isinstance(data, Path) else "")
    with _opened(data, source) as archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        source.check_size(sum(entry.file_size for entry in entries.values()), max_bytes)
        tokens = {field: entries.pop(field) for field in (TOKENS, QUERY_TOKENS, KEY_TOKENS) if field in entries}
        of_steps = {
            (int(found[1]), int(found[2])): _member(archive, entry, source)
            for field, entry in entries.items()
            if (found := _OF_STEP.fullmatch(field))
        }
        beams = _member(archive, entries[BEAMS], source) if of_steps and BEAMS in entries else None
        if of_steps:
            steps, layers = (1 + max(numbers) for numbers in zip(*of_steps, strict=True))
            source.check_size(steps * layers, MAX_PARTS, "arrays")
            weights = [tuple(of_steps.get((step, layer)) for layer in range(layers)) for step in range(steps)]
        elif WEIGHTS in entries or len(entries) == 1:
            of_steps[0, 0] = weights = _member(archive, entries.get(WEIGHTS) or next(iter(entries.values())), source)
        else:
            raise source.error(
                f"there is no array named {WEIGHTS}; the file holds {_names(list(entries.values()))}. Save it with "
                f"np.savez(file, {WEIGHTS}=..., {TOKENS}=...)."
            )
        for array in of_steps.values():
            _check_dtype(array.dtype, source)
        texts = {field: _texts(_member(archive, entry, source), field, source) for field, entry in tokens.items()}
    both = texts.get(TOKENS)
    of_queries, of_keys = texts.get(QUERY_TOKENS, both), texts.get(KEY_TOKENS, both)
    return weights, None if of_queries is None or of_keys is None else (of_queries, of_keys), beams


def check_scores(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> None:
    """Raise InputError if these matrices make more than MAX_SCORES scores [queries, keys] or outputs [queries, d_v].

    `attend` itself has no limit.
    """
    queries, keys, columns = len(query), len(key), value.shape[1]
    scores = ("key", f"{keys:,} keys make {queries * keys:,} scores", queries * keys)
    outputs = ("value", f"values of {columns:,} numbers make {queries * columns:,} outputs", queries * columns)
    for field, words, count in (scores, outputs):
        if count > MAX_SCORES:
            raise InputError(
                f"{queries:,} queries and {words}; at most {MAX_SCORES:,} can be computed, such as 4,096 × 4,096. "
                f"Give fewer rows or columns.",
                field=field,
            )


def to_csv(array: ArrayLike) -> str:
    """A finite matrix [rows, columns] as CSV, exactly as `read_matrix` (for bools: `read_mask`) reads it back."""
    numbers = np.asarray(array)
    rows = numbers.astype(int if numbers.dtype == bool else np.float64).tolist()
    return "\n".join(",".join(map(repr, row)) for row in rows)


def _read(data: str | bytes, source: _Source) -> NDArray[Any]:
    if isinstance(data, bytes) and data.startswith(_NPY_MAGIC):
        array = _read_npy(data, source)
    else:
        array = _read_text(data if isinstance(data, str) else _decoded(data, source), source)
    if not source.is_mask:
        return array
    source.check_each(array, (array == 0) | (array == 1), "A mask holds only 1 (may attend) and 0 (may not).")
    return array == 1


def _decoded(data: bytes, source: _Source) -> str:
    if data.startswith(_ZIP_MAGIC):
        raise source.error("this is a ZIP archive (NPZ, XLSX ...) and not one matrix. Give a CSV, text or NPY file.")
    if data.startswith(_PICKLE_MAGICS):
        raise source.error(f"this looks like a pickled file. {_NO_PICKLES} Save the numbers with np.save or as CSV.")
    source.check_size(len(data), MAX_TEXT_BYTES)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        why = f"byte {error.start + 1:,} is not UTF-8 text. Save the file as UTF-8 text, as CSV (UTF-8) or as NPY."
        raise source.error(why) from None


def _read_text(text: str, source: _Source) -> NDArray[np.float64]:
    source.check_size(len(text), MAX_TEXT_BYTES, "characters")
    # Papers and web pages write the minus sign as its own character.
    text = text.removeprefix("\ufeff").replace("\N{MINUS SIGN}", "-")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # One for the whole text: were "1,5;2,5" split at both, decimal commas would become four wrong numbers.
    separator = next((mark for mark in ";," if mark in text), "\t" if _SEPARATING_TAB.search(text) else None)
    height = sum(1 for _ in _ROW.finditer(text))
    if height == 0:
        raise source.error("there are no numbers. Write one row a line, such as 0.5, -2, 1e-3.")
    width = _count_cells(next(_ROW.finditer(text)).group(), separator)
    source.check_cells(height, width)
    cells: list[str] = []
    ragged = None
    for row in _ROW.finditer(text):
        stop_point()
        # Into one piece more than wanted at most, so that a hostile line costs no memory.
        pieces = row.group().split(separator, width)
        if len(pieces) != width:
            ragged = row
            break
        cells += pieces
    cells = list(map(str.strip, cells))
    # All at once: row by row, half a million rows of one number would take many times as long.
    numbers = _numbers(cells)
    if numbers is None:
        raise _bad_cell(cells, width, text, separator, source)
    if ragged is not None:
        first = _line_number(text, next(_ROW.finditer(text)).start())
        length = _count_cells(ragged.group(), separator)
        raise source.error(
            f"line {_line_number(text, ragged.start())} differs from line {first} in its number of cells: "
            f"{length:,}, not {width:,}. Make them equal."
        )
    return np.array(numbers).reshape(height, width)


def _count_cells(line: str, separator: str | None) -> int:
    return sum(1 for _ in re.finditer(r"\S+", line)) if separator is None else line.count(separator) + 1


def _line_number(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _numbers(cells: list[str]) -> list[float] | None:
    """The cells as finite floats, or None if any of them is not one."""
    if not all(map(_NUMBER.fullmatch, cells)):
        return None
    numbers = list(map(float, cells))
    return numbers if all(map(math.isfinite, numbers)) else None


def _bad_cell(cells: list[str], width: int, text: str, separator: str | None, source: _Source) -> InputError:
    place, cell = next((place, cell) for place, cell in enumerate(cells) if _numbers([cell]) is None)
    rows = [row.start() for row in islice(_ROW.finditer(text), place // width + 2)]
    header = place < width and len(rows) > 1 and not any(map(_NUMBER.fullmatch, cells[:width]))
    where = f"line {_line_number(text, rows[place // width])}, column {place % width + 1}"
    if cell == "":
        return source.error(f"{where} is empty. Write a number there, or remove the separator.")
    if _NOT_FINITE.fullmatch(cell):
        return source.error(f"{where} is {_shorten(cell)}. {source.only_finite}")
    if _NUMBER.fullmatch(cell):
        return source.error(f"{where} is {_shorten(cell)}, too large for a float64, which ends at about 1.8e308.")
    advice = "If this is a header row, delete it." if header else "Write numbers such as 0.5, -2 or 1e-3."
    return source.error(
        f"{where} is {_shorten(cell)}, which is not a number. {advice} "
        f"Cells are separated by {_SEPARATORS.get(separator or '', 'blanks')} here; decimals take a point."
    )


def _read_npy(data: bytes, source: _Source) -> NDArray[np.float64]:
    stream = io.BytesIO(data)
    header = shape, _, dtype = _npy_header(stream, source)
    _check_dtype(dtype, source)
    if len(shape) != 2:
        one_row, one_of_many = "Save it as one row: array[None, :].", "Pick one matrix out of it, such as one head's."
        advice = one_row if len(shape) < 2 else one_of_many
        raise source.error(f"the array has {counted(len(shape), 'dimension')}, not 2 (rows, columns). {advice}")
    source.check_cells(*shape)
    stored = _stored(data, stream.tell(), *header, source)
    with np.errstate(all="ignore"):  # what float64 cannot hold becomes an infinity, which is refused just below
        array = np.array(stored, dtype=np.float64, order="C")
    source.check_each(array, np.isfinite(array), source.only_finite)
    return array


def _stored(
    data: bytes, offset: int, shape: tuple[int, ...], fortran_order: bool, dtype: np.dtype[Any], source: _Source
) -> NDArray[Any]:
    """The array of an NPY file, read-only: taken from the bytes themselves, with no loader in between that could unpickle."""
    needed, held = math.prod(shape) * dtype.itemsize, len(data) - offset
    if needed != held:
        why = f"the NPY file announces {needed:,} bytes of numbers but holds {held:,}. It is damaged: save it again."
        raise source.error(why)
    if needed == 0:
        raise source.error(f"the array is empty: its shape is {shape}. Give at least one number.")
    return np.frombuffer(data, dtype=dtype, offset=offset).reshape(shape, order="F" if fortran_order else "C")


def _npy_header(stream: io.BytesIO, source: _Source) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        read = readers[np.lib.format.read_magic(stream)]
        shape, fortran_order, dtype = read(stream, max_header_size=MAX_HEADER_BYTES)
        if bool in map(type, shape) or min(shape, default=0) < 0:  # NumPy takes both for sizes, until it makes an array
            raise ValueError
        return shape, fortran_order, dtype
    except Exception:  # the header is a Python literal, and a bad one raises nearly anything, MemoryError included
        raise source.error(
            "the header of the NPY file cannot be read. It is damaged, or not a plain array: save it again with np.save."
        ) from None


def _check_dtype(dtype: np.dtype[Any], source: _Source) -> None:
    if dtype.hasobject:
        why = f"the NPY file holds Python objects, which are pickled. {_NO_PICKLES} Save array.astype(float) instead."
        raise source.error(why)
    if dtype.kind not in ("biuf" if source.is_mask else "iuf"):
        allowed = "bools, integers or floats" if source.is_mask else "integers or floats"
        raise source.error(f"the NPY file holds {_shorten(str(dtype))}; only {allowed} can be read. Convert it first.")


def _npz_members(archive: zipfile.ZipFile, source: _Source) -> dict[str, zipfile.ZipInfo]:
    """The member of each array, once the directory shows that the archive is no larger than allowed."""
    entries = archive.infolist()
    source.check_size(sum(entry.file_size for entry in entries), MAX_FILE_BYTES)
    members: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        field = NPZ_NAMES.get(entry.filename.lower().removesuffix(".npy"))
        if field is None:
            continue
        if field in members:
            names = f"{_shorten(members[field].filename)} and {_shorten(entry.filename)}"
            raise source.error(f"two arrays could be the {field}: {names}. Keep one.")
        members[field] = entry
    missing = [field for field in INPUTS if field not in members]
    if missing:
        raise source.error(
            f"there is no array named {' or '.join(missing)}; the file holds {_names(entries)}. "
            "Save it with np.savez(file, query=..., key=..., value=...)."
        )
    return members


def _names(entries: list[zipfile.ZipInfo]) -> str:
    return listed([_shorten(entry.filename) for entry in entries], 10) or "nothing"


def _opened(data: bytes | Path, source: _Source) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(io.BytesIO(data) if isinstance(data, bytes) else data)
    except FileNotFoundError:
        raise source.error("there is no such file. Give the path of an NPZ file.") from None
    except OSError as error:
        raise source.error(f"the file cannot be read: {error.strerror}.") from None
    except Exception:
        # A damaged archive may raise anything: BadZipFile, ValueError, NotImplementedError ...
        raise source.error("this is not an NPZ file, or it is damaged. Make one with np.savez.") from None


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, source: _Source) -> NDArray[Any]:
    """An array of any shape, which may hold anything but Python objects."""
    data = _unpack(archive, entry, source)
    stream = io.BytesIO(data)
    header = _npy_header(stream, source)
    if header[2].hasobject:
        _check_dtype(header[2], source)
    return _stored(data, stream.tell(), *header, source)


def _texts(array: NDArray[Any], field: str, source: _Source) -> list[str]:
    if array.ndim != 1 or array.dtype.kind != "U":
        raise source.error(f"{field} is not a list of texts. Save it as np.array([...]) of strings.")
    try:
        return array.tolist()
    except Exception:  # numbers that stand for no letter: SystemError, on some machines others
        raise source.error(
            f"{field} holds something that is not text. Save it as np.array([...]) of strings."
        ) from None


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: _Source) -> bytes:
    # NumPy writes no other kinds, and bzip2 and LZMA unpack a whole block whatever size is asked for.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1:
        raise source.error(
            f"{_shorten(member.filename)} is encrypted or compressed in a way that NumPy does not use. "
            "Make the file with np.savez or np.savez_compressed."
        )
    try:
        with archive.open(member) as stream:
            # Asking for the announced size, never for everything: a directory that lies then costs no more than it says.
            return stream.read(member.file_size)
    except Exception:  # as open-ended as opening the archive; zlib.error and EOFError come on top
        raise source.error(f"{_shorten(member.filename)} is damaged in this NPZ file. Save it again.") from None


def _shorten(text: str, longest: int = 20) -> str:
    return repr(shortened(text, longest))
