"""Texts from files: the files of a corpus, the texts in each with the place where they stand, and what could not be read.

Files are read row by row, and never held in memory as a whole where their format allows it. A row that cannot be read is
reported, and the rows after it are read; of a file that ends in the middle, everything before its end is read.
"""

import codecs
import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from itertools import count, groupby
from pathlib import PurePosixPath
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs
from pyarrow.parquet import ParquetFile

from ..errors import InputError, first_line
from ..models.fields import half_of_a_pair
from ..models.passages import Location, Passage, Problem, Relation
from .settings import RunSettings
from .walking import MOST_CHARACTERS, Glob, files_below

MAX_CHARACTERS = 64_000_000  # of one text; a longer one has to be split
LONGEST_LINE = 4 * MAX_CHARACTERS  # the number of bytes that such a text may have
BLOCK = 2**13  # bytes of a longer line that are held at once
LONGEST_SENTENCE = 1_000_000  # characters of CoNLL-U, which takes a hundred times as much memory while it is read
NAMED = 60  # the maximum number of characters of a column's name in a problem
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
Item = TypeVar("Item")


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
    folder, pattern = _split(data)
    if len(pattern) > MOST_CHARACTERS:
        why = f"The pattern has {len(pattern):,} characters; the maximum is {MOST_CHARACTERS:,}."
        raise InputError(why, field="data")
    try:
        system, root = open_folder(folder)
        info = system.get_file_info(root)
        inside = _below(system, root, Glob(pattern), on_progress) if info.type == fs.FileType.Directory else {}
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{folder!r} cannot be read: {first_line(error)}.", field="data") from error
    if info.type == fs.FileType.NotFound:
        raise InputError(f"There is nothing at {folder!r}. Give a file, a folder or a pattern.", field="data")
    if info.type != fs.FileType.Directory:
        folder, _, name = folder.replace("\\", "/").rpartition("/")
        if _format(name) is None:
            raise InputError(f"{name!r} is in a format that cannot be read. {_FORMATS}", field="data")
        return Files(folder or ".", (name,), (info.size or 0,))
    known = sorted(name for name in inside if _format(name) is not None)
    if not known:
        others = f", only {len(inside)} of others, such as {min(inside)!r}" if inside else ""
        raise InputError(f"{data!r} names no file of a format that can be read{others}. {_FORMATS}", field="data")
    if other := next((name for name in known if half_of_a_pair(name) is not None), None):
        why = f"The name of {other!r} in {folder!r} is not UTF-8: examples could not tell where they stand."
        raise InputError(f"{why} Rename it, or choose others by a pattern.", field="data")
    return Files(folder, tuple(known), tuple(inside[name]() for name in known))


def require_address(address: str, field: str) -> None:
    """Raise InputError for an address that no file, folder or object storage can have."""
    if not address:
        raise InputError("Nothing is named here. Give a path, or an address such as s3://bucket/folder.", field=field)
    if half_of_a_pair(address) is not None or "\0" in address:
        why = f"{address!r} cannot be a name: it is not UTF-8, or has a NUL in it. Give another."
        raise InputError(why, field=field)


def _split(data: str) -> tuple[str, str]:
    """The folder before the first wildcard, and the pattern below it."""
    if (wildcard := re.search(r"[*?]", data)) is None:
        return data, "**"
    cut = data.rfind("/", 0, wildcard.start())
    return (data[:cut] or "/", data[cut + 1 :]) if cut >= 0 else (".", data)


def _below(
    system: fs.FileSystem, root: str, pattern: Glob, on_progress: Callable[[int], None]
) -> dict[str, Callable[[], int]]:
    """The files below a folder that match a pattern: name -> a function that gives its size in bytes."""
    if isinstance(system, fs.LocalFileSystem):
        return {name: partial(_size, path) for name, path in files_below(root, pattern, on_progress).items()}
    entries = system.get_file_info(fs.FileSelector(root, recursive=True))
    files = [entry for entry in entries if entry.type == fs.FileType.File]
    named = {str(PurePosixPath(file.path).relative_to(PurePosixPath(root))): file.size or 0 for file in files}
    return {name: lambda size=size: size for name, size in named.items() if pattern.fits(name)}


def _size(path: str) -> int:
    with suppress(OSError):
        return os.path.getsize(path)
    return 0


def is_uri(address: str) -> bool:
    """Return whether this is an address such as s3://bucket/folder, and not a local path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", address) is not None


def open_folder(folder: str) -> tuple[fs.FileSystem, str]:
    """The file system of a folder, and the folder's path in it. Raises OSError or ArrowException."""
    if is_uri(folder):
        return fs.FileSystem.from_uri(folder)
    return fs.LocalFileSystem(), str(PurePosixPath(fs.LocalFileSystem().normalize_path(folder or ".")))


def _format(name: str) -> str | None:
    path = PurePosixPath(name)
    ending = PurePosixPath(path.stem).suffix if path.suffix.lower() in COMPRESSED else path.suffix
    return ending.lower() if ending.lower() in READERS else None


# --- the texts of a file


@dataclass(frozen=True)
class _Fault:
    """A row that could not be read."""

    why: str


# A sentence, its words, their relations and their parts of speech.
Annotated = tuple[str, tuple[tuple[int, int], ...], tuple[Relation, ...], tuple[str, ...]]
Row = tuple[int, str | Annotated | _Fault]
Reader = Callable[[fs.FileSystem, str, RunSettings], Iterable[Row]]


def read_texts(folder: str, name: str, settings: RunSettings) -> Iterator[Passage | Problem]:
    """The texts of a file in a folder, in their order; those that could not be read are problems in their places."""
    row = 0
    try:
        system, root = open_folder(folder)
        for row, text in READERS[_format(name) or ""](system, f"{root}/{name}", settings):
            place = Location(name, row)
            if isinstance(text, _Fault):
                yield Problem(place, text.why)
            elif isinstance(text, tuple):
                if text[1]:  # words, and not remarks alone
                    yield Passage(place, 0, *text)
            elif text.strip():
                yield _checked(place, text)
    except (OSError, ValueError, EOFError, pa.ArrowException, csv.Error) as error:
        after = f" after row {row:,}" if row else ""
        why = first_line(error).replace(f"{folder.rstrip('/')}/", "")  # errors of the system name the whole path
        yield Problem(Location(name, 0), f"The file cannot be read{after}: {why}.")


def _checked(place: Location, text: str) -> Passage | Problem:
    if len(text) > MAX_CHARACTERS:
        return Problem(place, _too_long(f"{len(text):,}", MAX_CHARACTERS).why)
    if (half := half_of_a_pair(text)) is not None:
        return Problem(place, f"The text has half of a surrogate pair at character {half:,}.")
    if (nul := text.find("\0")) >= 0:
        why = f"The text has a NUL at character {nul:,}, as files in UTF-16 have. Write it in UTF-8, without NULs."
        return Problem(place, why)
    return Passage(place, 0, text)


def _too_long(number: str, most: int) -> _Fault:
    advice = "Split it, or read plain text by paragraph or line."
    return _Fault(f"The text has {number} characters; at most {most:,} are read. {advice}")


def _attempt(what: str, read: Callable[..., Item], *given: Any) -> Item | _Fault:
    """What `read` returns, or a fault that says what is wrong and quotes the error."""
    try:
        return read(*given)
    except (ValueError, LookupError, RecursionError) as error:
        return _Fault(f"{what}: {first_line(error)}.")


def _lines(system: fs.FileSystem, path: str) -> Iterator[str | _Fault]:
    """The lines of a text file, decompressed where its name says that it is compressed."""
    for number, line in enumerate(_bytes_of_lines(system, path), start=1):
        yield _endless(number, line) if isinstance(line, int) else _decoded(number, line)


def _bytes_of_lines(system: fs.FileSystem, path: str) -> Iterator[bytes | int]:
    """Each line; the number of its bytes if it is too long."""
    with _opened(system, path) as file:
        line, is_first = file.readline(LONGEST_LINE + 1), True
        while line:
            if (length := len(line)) <= LONGEST_LINE:
                yield _without_mark(line.encode("latin-1")) if is_first else line.encode("latin-1")
                line, is_first = file.readline(LONGEST_LINE + 1), False
                continue
            while line and not line.endswith(("\n", "\r")):
                line = file.readline(BLOCK)
                length += len(line)
            ended, line, is_first = line, file.readline(LONGEST_LINE + 1), False
            if ended.endswith("\r") and line == "\n":  # both end the line, and the block ended between them
                length, line = length + 1, file.readline(LONGEST_LINE + 1)
            yield length


def _opened(system: fs.FileSystem, path: str) -> TextIOWrapper:
    """The file with one character a byte, so that Python finds the ends of lines, which stay as they are, and limits count
    bytes."""
    stream: Any = system.open_input_stream(path)
    return TextIOWrapper(stream, "latin-1", newline="")


def _without_mark(start: bytes) -> bytes:
    """The start of a file without the byte order mark with which some files begin."""
    return start.removeprefix(codecs.BOM_UTF8)


def _endless(number: int, length: int) -> _Fault:
    return _Fault(f"Line {number:,} has {length:,} bytes; at most {LONGEST_LINE:,} are read.")


def _decoded(number: int, line: bytes) -> str | _Fault:
    return _attempt(f"Line {number:,} is not UTF-8", line.decode)


def _plain(system: fs.FileSystem, path: str, settings: RunSettings) -> Iterator[Row]:
    if settings.by == "line":
        yield from enumerate(_lines(system, path), start=1)
    elif settings.by == "paragraph":
        yield from enumerate(_paragraphs(_lines(system, path), MAX_CHARACTERS), start=1)
    else:
        yield 1, _document(system, path)


def _document(system: fs.FileSystem, path: str) -> str | _Fault:
    with _opened(system, path) as file:
        whole = _without_mark(file.read(LONGEST_LINE + 1).encode("latin-1"))
    if len(whole) > LONGEST_LINE:
        return _too_long(f"more than {MAX_CHARACTERS:,}", MAX_CHARACTERS)
    try:
        return whole.decode()
    except UnicodeDecodeError:
        decoded = (_decoded(number, line) for number, line in enumerate(whole.split(b"\n"), start=1))
        return next(line for line in decoded if isinstance(line, _Fault))


def _paragraphs(lines: Iterable[str | _Fault], most: int) -> Iterator[str | _Fault]:
    """Paragraphs, with empty lines between; a fault for one of more than `most` characters."""
    for is_text, paragraph in groupby(lines, key=lambda line: isinstance(line, _Fault) or bool(line.strip())):
        if is_text:
            yield _joined(paragraph, most)


def _joined(lines: Iterable[str | _Fault], most: int) -> str | _Fault:
    """The lines as one text, or the fault of the first line that cannot be read."""
    held, length, fault = [], 0, None
    for line in lines:
        if isinstance(line, _Fault):
            fault = fault or line
        elif (length := length + len(line)) <= most:
            held.append(line)
    return fault or (_too_long(f"{length:,}", most) if length > most else "".join(held))


def _json_lines(system: fs.FileSystem, path: str, settings: RunSettings) -> Iterator[Row]:
    for row, line in enumerate(_lines(system, path), start=1):
        if isinstance(line, _Fault):
            yield row, line
        elif line.strip():
            yield row, _text_in(_attempt("The line is not JSON", _object, line, settings.column), settings.column)


def _object(line: str, column: str) -> object:
    """What a line of JSON holds. Raises ValueError if it names the column twice: Python would take the last."""

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if sum(name == column for name, _ in pairs) > 1:
            raise ValueError(f"it names {_named(column)} twice")
        return dict(pairs)

    return json.loads(line, object_pairs_hook=once)


def _text_in(record: object, column: str) -> str | _Fault:
    if isinstance(record, _Fault):
        return record
    if not isinstance(record, dict):
        return _Fault(f"The line is not a JSON object but {type(record).__name__}.")
    return _text(record[column], column) if column in record else _Fault(_no_column(column, list(record)))


def _text(value: object, column: str) -> str | _Fault:
    return value if isinstance(value, str | _Fault) else _Fault(f"{_named(column)} holds no text.")


def _no_column(column: str, there: list) -> str:
    names = [_named(name) for name in there[:8] if name is not None]  # the name that `csv` gives to columns without one
    return f"There is no column {_named(column)}, only {', '.join(names)}."


def _named(column: str) -> str:
    return repr(column if len(column) <= NAMED else f"{column[:NAMED]}…")


def _csv(system: fs.FileSystem, path: str, settings: RunSettings) -> Iterator[Row]:
    """Quotes that do not end take in the rest of the file, which is a problem of the file."""
    csv.field_size_limit(MAX_CHARACTERS)
    lines = _LinesOfCsv(_bytes_of_lines(system, path))
    records = csv.DictReader(lines, delimiter="\t" if _format(path) == ".tsv" else ",", strict=True)
    if records.fieldnames is not None and lines.fault:
        raise ValueError(f"The line that names the columns cannot be read. {lines.fault.why}")
    _require_one(settings.column, records.fieldnames or ())
    for row in count(1):
        lines.begin()
        try:
            text = _text_of_record(next(records), settings.column)
        except StopIteration:
            return
        except csv.Error as error:
            if lines.is_over:
                raise
            text = _Fault(f"The record is not CSV: {first_line(error)}.")
        yield row, lines.fault or text


def _text_of_record(record: dict[str | None, Any], column: str) -> str | _Fault:
    """The text of a record that has as many columns as the first line names: of another one, a comma or the end of a line is
    missing or too much, perhaps in the text itself."""
    more = len(record.get(None, ()))
    less = sum(value is None for value in record.values())
    if not more and not less:
        return _text_in(record, column)
    named = len(record) - bool(more)
    return _Fault(f"The record has {named + more - less:,} columns, and the first line names {named:,}.")


def _require_one(column: str, names: Sequence[str]) -> None:
    if (times := [*names].count(column)) > 1:
        raise ValueError(f"{times} columns are called {_named(column)}. Rename all but one")


class _LinesOfCsv:
    """Lines for `csv`, which joins the lines of a record. Invalid bytes are replaced, so that quotes still end.

    fault    the reason why the current record cannot be read
    is_over  whether there are no more lines
    """

    def __init__(self, lines: Iterator[bytes | int]) -> None:
        self._lines = enumerate(lines, start=1)
        self.is_over = False
        self.begin()

    def begin(self) -> None:
        """Begin a new record."""
        self.fault: _Fault | None = None
        self._length = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        number, line = next(self._lines, (0, None))
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


def _parquet(system: fs.FileSystem, path: str, settings: RunSettings) -> Iterator[Row]:
    with system.open_input_file(path) as opened:
        file, column = ParquetFile(opened), settings.column
        if column not in file.schema_arrow.names:
            raise ValueError(_no_column(column, file.schema_arrow.names))
        _require_one(column, file.schema_arrow.names)
        batches = file.iter_batches(batch_size=256, columns=[column])
        values = (value for batch in batches for value in batch.column(0))
        for row, value in enumerate(values, start=1):
            yield row, _text(_attempt("The text is not UTF-8", value.as_py), column)


# --- CoNLL-U


def _conllu(system: fs.FileSystem, path: str, _settings: RunSettings) -> Iterator[Row]:
    """https://universaldependencies.org/format.html: a word a line, ten columns, sentences parted by empty lines."""
    for row, block in enumerate(_paragraphs(_lines(system, path), LONGEST_SENTENCE), start=1):
        is_text = isinstance(block, str)
        yield row, _attempt("The sentence is not CoNLL-U", _sentence, block) if is_text else block


def _sentence(block: str) -> Annotated:
    lines = re.split("\r\n|\r|\n", block)
    tokens = [_columns(line) for line in lines if line and not line.startswith("#")]
    if not tokens:
        return "", (), (), ()
    said = {found[1].strip() for line in lines if (found := re.match(r"#\s*text\s*=(.*)", line, re.DOTALL))}
    if len(said) > 1:
        raise ValueError("it has two different lines of # text")
    surfaces = _surfaces(tokens)
    text, starts = _along(said.pop(), surfaces) if said else _spaced(surfaces)
    spans = [
        span for start, (token, words) in zip(starts, surfaces, strict=True) for span in _spans(start, token, words)
    ]
    every = [word for _, words in surfaces for word in words]
    if len(every) > 1 and {*text} <= {"_", " "}:  # as in treebanks of texts that may not be passed on
        raise ValueError("its words are left out, and each is _ instead")
    for word in every:
        if word["head"] and not 1 <= word["head"] <= len(every):
            raise ValueError(f"word {word['id']} depends on word {word['head']}, which is not there")
    relations = tuple(
        # Subtypes such as nsubj:pass are what they are subtypes of.
        Relation(word["id"] - 1, word["head"] - 1, word["deprel"].partition(":")[0])
        for word in every
        if word["head"]
    )
    return text, tuple(spans), relations, tuple(word["upos"] for word in every)


def _columns(line: str) -> dict[str, Any]:
    """A line: a word, several that are written as one (3-4), or an empty node (8.1). The package conllu also parts columns at
    two blanks, which a word may have."""
    from conllu.exceptions import ParseException  # not at the top: the app reads texts without it
    from conllu.parser import DEFAULT_FIELDS, parse_dict_value, parse_id_value, parse_int_value

    columns = line.split("\t")
    if len(columns) != len(DEFAULT_FIELDS):
        raise ValueError(
            f"a line has {len(columns)} columns, and should have {len(DEFAULT_FIELDS)} with tabs between them"
        )
    token: dict[str, Any] = dict(zip(DEFAULT_FIELDS, columns, strict=True))
    if not token["form"]:
        raise ValueError(f"word {token['id']} is empty")
    try:
        token["id"], token["misc"] = parse_id_value(token["id"]), parse_dict_value(token["misc"]) or {}
        token["head"] = parse_int_value(token["head"]) if isinstance(token["id"], int) else None
    except ParseException as error:
        raise ValueError(str(error)) from error
    return token


def _surfaces(tokens: list[dict[str, Any]]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """What is written, in its order, and the words that each is: "au" is the words à and le. Empty nodes are not written.

    Raises ValueError if the words are not numbered from 1, or what is written as one is not of words that follow.
    """
    surfaces: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    last, count = 0, 0  # the last word of what is written as one; how many words there are
    for token in tokens:
        match token["id"]:
            case int(number):
                count += 1
                if number != count:
                    raise ValueError(f"word {count} is numbered {number}")
                if number > last:
                    surfaces.append((token, []))
                surfaces[-1][1].append(token)
            case (first, "-", end):
                if first != count + 1 or first <= last:
                    raise ValueError(f"words {first} to {end} are written as one, and do not follow word {count}")
                surfaces.append((token, []))
                last = end
            case None:
                raise ValueError("a line has no number")
    if last > count:
        raise ValueError(f"it has {count} words, of which one is written as part of {last}")
    return surfaces


def _along(text: str, surfaces: list[tuple[dict[str, Any], Any]]) -> tuple[str, list[int]]:
    """A text and where in it its words begin. Raises ValueError where it is not these words, with blanks between them."""
    starts, end = [], 0
    for token, _ in surfaces:
        start, form = text.find(token["form"], end), token["form"]
        if start < 0 or text[end:start].strip():
            raise ValueError(f"# text goes on with {text[end : end + 20]!r} where its words have {form[:NAMED]!r}")
        starts.append(start)
        end = start + len(form)
    if text[end:].strip():
        raise ValueError(f"# text goes on with {text[end : end + 20]!r} after its words")
    return text, starts


def _spaced(surfaces: list[tuple[dict[str, Any], Any]]) -> tuple[str, list[int]]:
    """The text of words, and where each begins, by the blanks that are said to stand beside and within them."""
    parts, starts, length, after = [], [], 0, ""
    for token, _ in surfaces:
        misc = token["misc"]
        token["form"] = _unescaped(misc.get("SpacesInToken")) or token["form"]
        between = f"{after}{_unescaped(misc.get('SpacesBefore'))}" if parts else ""
        starts.append(length + len(between))
        parts += [between, token["form"]]
        length += len(between) + len(token["form"])
        after = "" if misc.get("SpaceAfter") == "No" else " "
        if "SpacesAfter" in misc:
            after = _unescaped(misc["SpacesAfter"])
    return "".join(parts), starts


def _unescaped(blanks: str | None) -> str:
    r"""Blanks as UDPipe writes them: "\s\n" is a blank and a line break."""
    return re.sub(r"\\(.)", lambda found: _ESCAPES[found[1]], blanks or "")


def _spans(start: int, token: dict[str, Any], words: list[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Where the words stand of what is written as one: each in its place if that is "do" and "n't", else all in the whole."""
    whole = start + len(token["form"])
    if "".join(word["form"] for word in words) != token["form"]:
        yield from [(start, whole)] * len(words)
        return
    for word in words:
        yield start, (start := start + len(word["form"]))


_ESCAPES = {"s": " ", "t": "\t", "r": "\r", "n": "\n", "p": "|", "\\": "\\"}

READERS: dict[str, Reader] = {
    **dict.fromkeys((".txt", ".md", ".text"), _plain),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), _json_lines),
    **dict.fromkeys((".csv", ".tsv"), _csv),
    ".parquet": _parquet,
    ".conllu": _conllu,
}
_FORMATS = f"Formats are told by the ending: {', '.join(READERS)}, the texts also packed ({', '.join(COMPRESSED)})."
