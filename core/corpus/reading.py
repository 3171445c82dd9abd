"""Texts from files: the files of a corpus, the texts in each with the place where they stand, and what could not be read.

Files are read row by row, and never held in memory as a whole where their format allows it. A row that cannot be read is
reported, and the rows after it are read; of a file that ends in the middle, everything before its end is read.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import PurePosixPath

import conllu
import pyarrow as pa
from conllu.exceptions import ParseException
from pyarrow import fs
from pyarrow.parquet import ParquetFile

from ..errors import InputError
from ..models.texts import half_of_a_pair
from .lines import Held, blocks, lines_of
from .settings import RunSettings
from .texts import Place, Problem, Relation, Text, first_line
from .walking import Pattern, files_below

MAX_CHARACTERS = 64_000_000  # of one text; a longer one has to be split
LONGEST_LINE = 4 * MAX_CHARACTERS  # the number of bytes that such a text may have
LONGEST_SENTENCE = 1_000_000  # characters of CoNLL-U, which takes a hundred times as much memory while it is read
NAMED = 60  # the maximum number of characters of a column's name in a problem
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


@dataclass(frozen=True)
class Files:
    """The files of a corpus below a folder.

    folder  an address that pyarrow opens: a local path, s3://, gs://, hdfs://
    names   below the folder, sorted; the places of texts are given by these names, so that a corpus may be moved
    bytes   the size of each
    """

    folder: str
    names: tuple[str, ...]
    bytes: tuple[int, ...]


# --- which files


def find_files(data: str, on_progress: Callable[[int], None] = lambda _entries: None) -> Files:
    """The files of known formats that a path, a folder or a pattern (*, **, ?) names, each once.

    on_progress  called now and then with how many entries of folders have been read
    Raises InputError (field "data") where there are none, and for a name that is not UTF-8.
    """
    require_address(data, "data")
    start = re.search(r"[*?]", data)
    folder, pattern = (data, "**") if start is None else _split(data, start.start())
    try:
        system, root = open_folder(folder)
        info = system.get_file_info(root)
        inside = _below(system, root, Pattern(pattern), on_progress) if info.type == fs.FileType.Directory else {}
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{folder!r} cannot be read: {first_line(error)}.", field="data") from error
    if info.type == fs.FileType.NotFound:
        raise InputError(f"There is nothing at {folder!r}. Give a file, a folder or a pattern.", field="data")
    if info.type != fs.FileType.Directory:
        folder, _, name = folder.replace("\\", "/").rpartition("/")
        if _format(name) is None:
            raise InputError(f"{name!r} is of no format that can be read. {_FORMATS}", field="data")
        return Files(folder or ".", (name,), (info.size or 0,))
    known = sorted(name for name in inside if _format(name) is not None)
    if not known:
        others = f", only {len(inside)} of others, such as {min(inside)!r}" if inside else ""
        raise InputError(f"{data!r} names no file of a format that can be read{others}. {_FORMATS}", field="data")
    for name in known:
        _require_utf8(name, folder)
    return Files(folder, tuple(known), tuple(inside[name]() for name in known))


def require_address(address: str, field: str) -> None:
    """Raise InputError for an address that no file, folder or object storage can have."""
    if not address:
        raise InputError("Nothing is named here. Give a path, or an address such as s3://bucket/folder.", field=field)
    if half_of_a_pair(address) is not None or "\0" in address:
        raise InputError(f"{address!r} is no name: it is not UTF-8, or has a NUL in it. Give another.", field=field)


def _require_utf8(name: str, folder: str) -> None:
    if half_of_a_pair(name) is not None:
        raise InputError(
            f"The name of {name!r} in {folder!r} is not UTF-8: examples could not tell where they stand. Rename it, or choose "
            "others by a pattern.",
            field="data",
        )


def _below(
    system: fs.FileSystem, root: str, pattern: Pattern, on_progress: Callable[[int], None]
) -> dict[str, Callable[[], int]]:
    """The files below a folder that match a pattern: name -> a function that gives its size in bytes."""
    if isinstance(system, fs.LocalFileSystem):
        found = files_below(root, pattern, on_progress)
        return {name: lambda path=path: _size(path) for name, path in found.items()}
    infos = [one for one in system.get_file_info(fs.FileSelector(root, recursive=True)) if one.type == fs.FileType.File]
    named = [(str(PurePosixPath(one.path).relative_to(PurePosixPath(root))), one.size or 0) for one in infos]
    return {name: lambda size=size: size for name, size in named if pattern.fits(name)}


def _size(path: str) -> int:
    with suppress(OSError):
        return os.path.getsize(path)
    return 0


def open_folder(folder: str) -> tuple[fs.FileSystem, str]:
    """The file system of a folder, and the folder's path in it. Raises OSError or ArrowException."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", folder):
        return fs.FileSystem.from_uri(folder)
    return fs.LocalFileSystem(), str(PurePosixPath(fs.LocalFileSystem().normalize_path(folder or ".")))


def _split(data: str, star: int) -> tuple[str, str]:
    """Split a pattern into the folder before its first wildcard and the rest."""
    cut = data.rfind("/", 0, star)
    return (data[:cut] or "/", data[cut + 1 :]) if cut >= 0 else (".", data)


def _format(name: str) -> str | None:
    path = PurePosixPath(name)
    ending = PurePosixPath(path.stem).suffix if path.suffix.lower() in COMPRESSED else path.suffix
    return ending.lower() if ending.lower() in READERS else None


# --- the texts of a file


def read_texts(files: Files, name: str, settings: RunSettings) -> Iterator[Text | Problem]:
    """The texts of one file in their order; those that could not be read are problems in their places."""
    row = 0
    try:
        system, root = open_folder(files.folder)
        path = f"{root}/{name}"
        read = READERS[_format(name) or ""]
        for row, found in read(system, path, settings):
            place = Place(name, row)
            if isinstance(found, str):
                if found.strip():
                    yield _checked(place, found)
            elif isinstance(found, _Sentence):
                if found.words:  # and not remarks alone
                    yield Text(place, found.text, found.words, found.relations)
            else:
                yield Problem(place, found.why)
    except (OSError, ValueError, EOFError, pa.ArrowException, csv.Error) as error:
        after = f" after row {row:,}" if row else ""
        yield Problem(Place(name, 0), f"The file cannot be read{after}: {first_line(error)}.")


def _checked(place: Place, text: str) -> Text | Problem:
    if len(text) > MAX_CHARACTERS:
        return Problem(place, _too_long(f"{len(text):,}", MAX_CHARACTERS).why)
    if (half := half_of_a_pair(text)) is not None:
        return Problem(place, f"The text has half of a surrogate pair at character {half:,}.")
    return Text(place, text)


@dataclass(frozen=True)
class _Fault:
    """A row that could not be read."""

    why: str


def _too_long(number: str, most: int) -> _Fault:
    advice = "Split it, or read plain text by paragraph or line."
    return _Fault(f"The text has {number} characters; at most {most:,} are read. {advice}")


@dataclass
class _Sentence:
    """A sentence of CoNLL-U."""

    text: str = ""
    words: tuple[tuple[int, int], ...] = ()
    relations: tuple[Relation, ...] = ()


Found = tuple[int, "str | _Sentence | _Fault"]
Reader = Callable[[fs.FileSystem, str, RunSettings], Iterable[Found]]


def _lines(system: fs.FileSystem, path: str) -> Iterator[str | _Fault]:
    """The lines of a text file, decompressed where its name says that it is compressed."""
    for number, line in enumerate(_bytes_of_lines(system, path), start=1):
        yield _endless(number, line) if isinstance(line, int) else _decoded(number, line)


def _bytes_of_lines(system: fs.FileSystem, path: str) -> Iterator[bytes | int]:
    """The lines as `lines_of` gives them, without the byte order mark with which some files begin."""
    with system.open_input_stream(path) as stream:
        for number, line in enumerate(lines_of(stream, LONGEST_LINE)):
            yield line if number or isinstance(line, int) else line.removeprefix(_MARK)


_MARK = b"\xef\xbb\xbf"


def _endless(number: int, length: int) -> _Fault:
    return _Fault(f"Line {number:,} has {length:,} bytes; at most {LONGEST_LINE:,} are read.")


def _decoded(number: int, line: bytes) -> str | _Fault:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        return _Fault(f"Line {number:,} is no UTF-8: {first_line(error)}.")


def _plain(system: fs.FileSystem, path: str, settings: RunSettings) -> Iterator[Found]:
    if settings.by == "line":
        yield from enumerate(_lines(system, path), start=1)
    elif settings.by == "paragraph":
        yield from enumerate(_paragraphs(_lines(system, path), MAX_CHARACTERS), start=1)
    else:
        yield 1, _document(system, path)


def _document(system: fs.FileSystem, path: str) -> str | _Fault:
    held = Held(LONGEST_LINE)
    with system.open_input_stream(path) as stream:
        for block in blocks(stream):
            held.add(block)
            if held.is_too_long:
                break
    whole = held.taken()
    if isinstance(whole, int):
        return _too_long(f"more than {MAX_CHARACTERS:,}", MAX_CHARACTERS)
    try:
        return whole.removeprefix(_MARK).decode()
    except UnicodeDecodeError:
        decoded = (_decoded(number, line) for number, line in enumerate(whole.split(b"\n"), start=1))
        return next(one for one in decoded if isinstance(one, _Fault))


def _paragraphs(lines: Iterable[str | _Fault], most: int) -> Iterator[str | _Fault]:
    """Paragraphs, with empty lines between; a fault for one of more than `most` characters."""
    for is_text, held in groupby(lines, key=lambda line: isinstance(line, _Fault) or bool(line.strip())):
        if is_text:
            yield _joined(held, most)


def _joined(lines: Iterable[str | _Fault], most: int) -> str | _Fault:
    """The lines as one text, or the fault of the first line that cannot be read."""
    held, length, unread = [], 0, None
    for line in lines:
        if isinstance(line, _Fault):
            unread = unread or line
        else:
            length += len(line)
            held.append(line)
        if unread or length > most:
            held.clear()
    if unread is None and length > most:
        return _too_long(f"{length:,}", most)
    return unread or "".join(held)


def _json_lines(system: fs.FileSystem, path: str, settings: RunSettings) -> Iterator[Found]:
    for row, line in enumerate(_lines(system, path), start=1):
        if isinstance(line, _Fault):
            yield row, line
        elif line.strip():
            yield row, _field(line, settings.column)


def _field(line: str, column: str) -> str | _Fault:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return _Fault(f"The line is no JSON: {first_line(error)}.")
    if not isinstance(record, dict):
        return _Fault(f"The line is no JSON object but {type(record).__name__}.")
    return _text_in(record, column)


def _text_in(record: dict, column: str) -> str | _Fault:
    if column not in record:
        return _Fault(_no_column(column, list(record)))
    return record[column] if isinstance(record[column], str) else _Fault(_no_text(column))


def _no_column(column: str, there: list) -> str:
    names = [_named(name) for name in there[:8] if name is not None]  # the name that `csv` gives to columns without one
    return f"There is no column {_named(column)}, only {', '.join(names)}."


def _no_text(column: str) -> str:
    return f"{_named(column)} holds no text."


def _named(column: str) -> str:
    return repr(column if len(column) <= NAMED else f"{column[:NAMED]}…")


def _csv(system: fs.FileSystem, path: str, settings: RunSettings) -> Iterator[Found]:
    """Quotes that do not end take in the rest of the file, which is a problem of the file."""
    csv.field_size_limit(MAX_CHARACTERS)
    lines = _LinesOfCsv(_bytes_of_lines(system, path))
    records = csv.DictReader(lines, delimiter="\t" if _format(path) == ".tsv" else ",", strict=True)
    if records.fieldnames is not None and lines.fault:
        raise ValueError(f"The line that names the columns cannot be read. {lines.fault.why}")
    for row in count(1):
        lines.begin()
        try:
            found = _text_in(next(records), settings.column)
        except StopIteration:
            return
        except csv.Error as error:
            if lines.is_over:
                raise
            found = _Fault(f"The record is no CSV: {first_line(error)}.")
        yield row, lines.fault or found


class _LinesOfCsv:
    """Lines for `csv`, which joins the lines of a record. Invalid bytes are replaced, so that quotes still end.

    fault    the reason why the current record cannot be read
    is_over  whether there are no more lines
    """

    def __init__(self, found: Iterator[bytes | int]) -> None:
        self._found = enumerate(found, start=1)
        self.is_over = False
        self.begin()

    def begin(self) -> None:
        """Begin a new record."""
        self.fault: _Fault | None = None
        self._length = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        number, line = next(self._found, (0, None))
        if line is None:
            self.is_over = True
            raise StopIteration
        self._length += line if isinstance(line, int) else len(line)
        if isinstance(line, int) or self._length > LONGEST_LINE:
            self.fault = _endless(number, self._length)
            raise csv.Error(self.fault.why)
        decoded = _decoded(number, line)
        if isinstance(decoded, str):
            return decoded
        self.fault = self.fault or decoded
        return line.decode(errors="replace")


def _parquet(system: fs.FileSystem, path: str, settings: RunSettings) -> Iterator[Found]:
    with system.open_input_file(path) as opened:
        file = ParquetFile(opened)
        if settings.column not in file.schema_arrow.names:
            raise ValueError(_no_column(settings.column, file.schema_arrow.names))
        row = 0
        for batch in file.iter_batches(batch_size=256, columns=[settings.column]):
            for value in batch.column(0):
                row += 1
                yield row, _value(value, settings.column)


def _value(value: pa.Scalar, column: str) -> str | _Fault:
    try:
        text = value.as_py()
    except UnicodeDecodeError as error:
        return _Fault(f"The text is no UTF-8: {first_line(error)}.")
    return text if isinstance(text, str) else _Fault(_no_text(column))


# --- CoNLL-U


def _conllu(system: fs.FileSystem, path: str, _settings: RunSettings) -> Iterator[Found]:
    """https://universaldependencies.org/format.html: a word a line, ten columns, sentences parted by empty lines."""
    for row, block in enumerate(_paragraphs(_lines(system, path), LONGEST_SENTENCE), start=1):
        yield row, block if isinstance(block, _Fault) else _sentence_in(block)


def _sentence_in(block: str) -> _Sentence | _Fault:
    try:
        return _sentence(block)
    except (ParseException, LookupError, ValueError) as error:
        return _Fault(f"The sentence is no CoNLL-U: {first_line(error)}.")


def _sentence(block: str) -> _Sentence:
    words, position_of, heads, pieces, length = [], {}, [], [], 0
    for token in conllu.parse(block)[0]:
        if not isinstance(token["id"], int):
            continue  # a multi-word token such as 3-4, whose words follow, or an empty node such as 8.1
        position_of[token["id"]] = len(words)
        words.append((length, length + len(token["form"])))
        is_joined = (token["misc"] or {}).get("SpaceAfter") == "No"
        pieces.append(token["form"] if is_joined else f"{token['form']} ")
        length += len(pieces[-1])
        heads.append((token["id"], token["head"], token["deprel"]))
    relations = tuple(
        # Subtypes such as nsubj:pass are what they are subtypes of.
        Relation(position_of[number], position_of[head], relation.partition(":")[0])
        for number, head, relation in heads
        if head
    )
    return _Sentence("".join(pieces).rstrip(), tuple(words), relations)


READERS: dict[str, Reader] = {
    ".txt": _plain,
    ".md": _plain,
    ".text": _plain,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_lines,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".conllu": _conllu,
}
_FORMATS = f"Formats are told by the ending: {', '.join(READERS)}, the texts also packed ({', '.join(COMPRESSED)})."
