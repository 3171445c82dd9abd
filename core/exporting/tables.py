"""Tables of numbers with names of their rows and columns, as CSV and as NPZ. Masked pairs are marked, never 0."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..attention.head import Head
from ..attention.matrix_files import MAX_SCORES
from ..attention.stages import BY_KEY, INPUTS
from ..errors import InputError
from ..figures.chart import Chart, Values
from ..progress import stop_point
from .documents import About

MAX_CSV_CELLS = 2**20  # such as 1,024 × 1,024: spreadsheets do not open more, and nobody reads more as text
MAX_NPZ_CELLS = 2 * MAX_SCORES


@dataclass(frozen=True)
class Side:
    """The labels of the rows or of the columns of a table.

    name    what a row or a column is: "query", "key", "dimension", "head"
    labels  a text for each; None: its number
    start   the number of the first; None: without numbers
    """

    name: str
    labels: Sequence[str] | None = None
    start: int | None = 0

    def texts(self, count: int) -> list[str]:
        """The text of each, "" without labels."""
        return [""] * count if self.labels is None else list(self.labels)

    def named(self, count: int) -> list[str]:
        """The number and the label of each. Since a number comes first, spreadsheets read no token as a formula or a number."""
        if self.start is None:
            return self.texts(count)
        return [
            f"{number} {text}" if self.labels is not None else str(number)
            for number, text in enumerate(self.texts(count), self.start)
        ]


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """Numbers [rows, columns] with the names of both sides; NaN for cells without a number, such as masked pairs.

    key   its name in an NPZ file: a short word
    name  its name for people
    """

    key: str
    name: str
    values: NDArray
    rows: Side
    columns: Side

    def numbered(self, number: int) -> Table:
        """The table under another key, beside tables of the same one."""
        return replace(self, key=f"{self.key}_{number}")


def stage_table(head: Head, stage: str, query_tokens: Sequence[str], key_tokens: Sequence[str]) -> Table:
    """One stage of a head with all its numbers. Raises InputError for more than 4,096 × 4,096 numbers."""
    kind, cells = BY_KEY[stage], head.shape[0] * head.shape[1]
    if cells > MAX_NPZ_CELLS:
        raise InputError(
            f"That would be {cells:,} numbers; at most {MAX_NPZ_CELLS:,} can be taken away at once. "
            f"Take a window of them, or a shorter text.",
            field="file",
        )
    hides = kind.after_mask and stage != "mask"  # in the mask itself, masked pairs are 0

    def block(rows: range) -> NDArray:
        trace = head.trace(rows)
        return np.where(trace.mask, kind.values(trace), np.nan) if hides else kind.values(trace)

    values = getattr(head, stage) if kind in INPUTS else np.concatenate(list(map(block, head.blocks())))
    rows = Side(kind.rows, tuple(query_tokens if kind.rows == "query" else key_tokens))
    columns = Side("key", tuple(key_tokens)) if kind.columns == "key" else Side("dimension")
    return Table(key=stage, name=kind.name, values=values, rows=rows, columns=columns)


# --- files


def to_csv(tables: Sequence[Table], about: About) -> str:
    """Write tables as CSV, one below the other, after lines about them that begin with #.

    The first line gives the number of these lines, for `pandas.read_csv(file, skiprows=...)`. Numbers have enough digits to be
    read back exactly in their own precision; the cells of masked pairs are empty. Raises InputError for too many cells.
    """
    cells = sum(table.values.size for table in tables)
    if cells > MAX_CSV_CELLS:
        why = f"{cells:,} cells are too many for CSV, which may have {MAX_CSV_CELLS:,}. NPZ holds them."
        raise InputError(why, field="file")
    notes = [f"# {name}: {text if text.isprintable() else json.dumps(text)}" for name, text in about.items()]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([f"# lines before the table: {len(notes) + 1}"])
    writer.writerows([note] for note in notes)
    for number, table in enumerate(tables):
        if number:
            out.write("\n")
        rows, columns = table.values.shape
        writer.writerow([f"{table.rows.name} \\ {table.columns.name}", *table.columns.named(columns)])
        is_bool = table.values.dtype == np.bool_
        numbers = table.values.astype(np.uint8) if is_bool else table.values  # 1 and 0 for True and False
        for name, values in zip(table.rows.named(rows), numbers, strict=True):
            stop_point()
            written = np.where(np.isnan(values), "", values.astype(str)).tolist() if columns else []
            writer.writerow([name, *written])
    return out.getvalue()


def to_npz(tables: Sequence[Table], about: About) -> bytes:
    """Write tables as NPZ, without pickles.

    Each table gives `<key>.values` and `<key>.missing`, the texts of its rows (`.rows`), their numbers (`.row_numbers`), what a
    row is (`.row_is`), and the same for its columns; `about` is a text in JSON.
    """
    arrays: dict[str, NDArray] = {"about": np.array(json.dumps(dict(about), ensure_ascii=False))}
    for table in tables:
        rows, columns = table.values.shape
        key = table.key
        arrays |= {f"{key}.values": table.values, f"{key}.missing": np.isnan(table.values)}
        for name, side, count in (("row", table.rows, rows), ("column", table.columns, columns)):
            arrays[f"{key}.{name}s"] = np.array(side.texts(count), dtype=np.str_)
            arrays[f"{key}.{name}_is"] = np.array(side.name)
            arrays[f"{key}.{name}_numbers"] = np.arange(count) + (side.start or 0)
    file = _Written()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


class _Written(io.BytesIO):
    """A file in memory, with a stop point before each piece of it."""

    def write(self, piece: Any, /) -> int:
        stop_point()
        return super().write(piece)


# --- the numbers that a chart draws


def tables_of(chart: Chart) -> tuple[Table, ...]:
    """The numbers that a chart draws, for charts without exact tables of their own."""
    return tuple(
        _as_drawn(values, f"{'line' if values.numbers.ndim == 1 else 'picture'}{index or ''}")
        for index, values in enumerate(chart.values)
    )


def _as_drawn(values: Values, key: str) -> Table:
    """Cells with the names of both sides; or points, a row each, whose names or places stand before their number."""
    numbers, labels = values.numbers, None if values.x is not None else values.rows
    if numbers.ndim == 1:
        numbers = np.stack([numbers] if values.x is None else [values.x, numbers], axis=1)
        rows = Side("point", labels)
        columns = Side("axis", (*values.headings, values.value)[-numbers.shape[1] :], start=None)
    else:
        rows, columns = Side(values.headings[0], labels), Side(values.headings[1], values.columns)
    drawn = np.where(np.isfinite(numbers), numbers, np.nan)
    return Table(key=key, name=values.part or values.value, values=drawn, rows=rows, columns=columns)
