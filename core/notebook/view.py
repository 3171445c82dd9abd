"""Attention weights of any origin as one interactive cell of a notebook, or as a page, without a network and a server."""

from __future__ import annotations

import base64
import html
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plotly.colors import validate_colors

from ..attention.arrays import AttentionArrays, RowSums, Tokens, attention_arrays, row_notes
from ..attention.rowwise import Pooled, ceil_divide, pool, strongest_cell
from ..errors import check_index, shortened
from ..figures.palette import SEQUENTIAL, colours_of
from ..figures.standalone import standalone
from ..figures.text.tokens import TEXT_VIEW, TOKENS, joined, spelled
from ..progress import stop_point
from ..units import counted

LEVELS = (65_535, 4_095, 1_023, 255)  # steps from 0 to a head's largest weight, the finest that fit
FINEST = LEVELS[0]
SAMPLE = 12  # heads from which the size of all is estimated


@dataclass(frozen=True, eq=False)
class Packed:
    """Every head as text: base64 of a zlib stream of bytes, row by row.

    heads   a text a head. Up to 255 levels a byte a cell; beyond, first the high byte of all cells and then the low one
    levels  the level of the head's largest weight: a weight is level / levels times that
    side    the most cells of a row or a column
    """

    heads: list[str]
    levels: int
    side: int


def in_levels(weights: NDArray[np.floating]) -> NDArray[np.uint16]:
    """Weights as the nearest of FINEST steps from 0 to the largest of them."""
    return np.rint(weights / (weights.max() or 1) * FINEST).astype(np.uint16)


def pack(heads: NDArray[np.uint16], max_bytes: int) -> Packed:
    """All heads [heads, rows, columns] of `in_levels` in at most `max_bytes`: with fewer levels, and then with fewer cells."""
    sample = heads[:: -(-len(heads) // SAMPLE)]
    for levels, side in _coarser(max(heads.shape[1:])):
        estimate = sum(map(len, _all_texts(sample, levels, side))) * len(heads) / len(sample)
        if estimate > max_bytes:
            continue
        texts = list(_all_texts(heads, levels, side))
        if sum(map(len, texts)) <= max_bytes:
            return Packed(texts, levels, side)
    raise ValueError(f"{len(heads)} heads do not fit into {max_bytes} bytes.")


def text_of(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def _coarser(side: int) -> Iterator[tuple[int, int]]:
    """(levels, cells per side), from the finest on."""
    for levels in LEVELS:
        yield levels, side
    block = 1
    while block < side:
        block += max(1, block // 3)  # in steps of a third, so that little of the room stays empty
        yield LEVELS[-1], -(-side // block)


def _all_texts(heads: NDArray[np.uint16], levels: int, side: int) -> Iterator[str]:
    for head in heads:
        stop_point()
        cells = head if side >= max(head.shape) else pool(head.astype(np.float32), side).values
        coarse = np.rint(cells * np.float32(levels / FINEST)).astype(np.uint16)
        high, low = (coarse >> 8).astype(np.uint8), (coarse & 255).astype(np.uint8)
        yield text_of((b"" if levels <= 255 else high.tobytes()) + low.tobytes())


MAX_BYTES = 10_000_000  # of a cell
MAX_SIDE = 1_024  # rows and columns of a head: more than a screen has room for
MAX_CELLS = 72 * 2**20  # of all heads together, while they are packed: two bytes each
MAX_TEXT = 1_000_000  # characters of all tokens
LONGEST = 100  # characters of a token
PICTURE = 24  # cells of a small picture, per side
PICTURES = 4 * 2**20  # cells of all small pictures
HEIGHT = 760  # pixels, until the cell knows its own height

_CELL = Path(__file__).with_suffix("")


@dataclass(frozen=True, eq=False, repr=False)
class View:
    """An interactive view of attention weights, which a notebook shows by itself.

    page   the same as a whole HTML page, which needs no network
    notes  what the view says about the arrays: rows that do not sum to 1, and what was pooled or cut
    """

    page: str
    notes: tuple[str, ...]
    title: str

    def __repr__(self) -> str:
        """The view in one line."""
        return f"<View of {self.title}: {len(self.page) / 1e6:.1f} MB>"

    def _repr_html_(self) -> str:
        """The page in a frame, whose style and names cannot meet those of the notebook."""
        style = f"width: 100%; height: {HEIGHT}px; border: 0"
        return f'<iframe srcdoc="{html.escape(self.page)}" title="{html.escape(self.title)}" style="{style}"></iframe>'

    def save(self, path: str | Path) -> None:
        """Write the page to a file, which any browser opens."""
        Path(path).write_text(self.page, "utf-8")


def view(attentions: Any, tokens: Tokens | None = None, *, head: tuple[int, int] = (0, 0), beams: Any = None) -> View:
    """Attention weights as an interactive cell: all heads as small pictures, the chosen one as a heatmap and as a text.

    attentions  what a transformers model returns with `output_attentions=True`, which BertViz takes too: a tuple of one tensor
                [1, heads, queries, keys] a layer, or from `generate` one such tuple a step; a TransformerLens pattern [heads,
                queries, keys], or several stacked; an array [layers, heads, queries, keys]; or the path of an NPZ file with
                such an array or with such steps
    tokens      the text of each token, or (query tokens, key tokens) for cross-attention; None: those of the file, or positions
    head        the (layer, head) with which the view opens
    beams       of what `generate` returns with several beams: a row of its `beam_indices`, which is of one text

    The view has at most 10 MB. It says how exact its weights are, and what was pooled. Raises InputError, which names the layer
    and the head, for numbers that are not finite or below 0; for other shapes; and for tokens that do not fit. Rows that do not
    sum to 1, such as those of heads with a sink, are shown, and the view says so.
    """
    arrays = attention_arrays(attentions, tokens, beams=beams)
    check_index(head[0], arrays.layers(), "layer", field="head")
    check_index(head[1], arrays.heads(), "head")
    heads = _read(arrays)
    title = f"attention weights, {counted(arrays.layers(), 'layer')} × {counted(arrays.heads(), 'head')}"
    others = heads.pictures.tobytes(), _texts(arrays, heads.cells).encode()
    # Pooled tokens may take a little more.
    budget = MAX_BYTES - 2**17 - sum(len(text_of(part)) for part in others) * 11 // 10
    packed = pack(heads.levels, budget)
    chosen = head[0] * arrays.heads() + head[1]
    cells = replace(heads.cells, values=heads.levels[chosen].astype(np.float32)).smaller(packed.side)
    notes = tuple(_notes(arrays, heads, cells))
    about = {
        "layers": arrays.layers(),
        "heads": arrays.heads(),
        "head": chosen,
        "cell": strongest_cell(cells.values),
        "levels": packed.levels,
        "picture": heads.pictures.shape[1:],
        "looksAhead": heads.looks_ahead,
        "sums": {at: (of.least, of.most) for at, of in enumerate(heads.sums.values()) if of.is_off},
        "notes": notes,
    }
    about |= json.loads(_texts(arrays, cells))
    return View(_page(title, about, heads, packed), notes, title)


# --- reading


@dataclass(frozen=True, eq=False)
class _Heads:
    """What is known of all heads, layer by layer, once each has been read.

    levels    [heads, rows, columns] uint16, as in `in_levels`
    cells     what their rows and columns stand for
    pictures  [heads, rows', columns'] uint8: the square root of the weight, from 0 to 255, so that 0.01 is still seen
    largest   [heads] the largest weight
    sums      those of the rows of each head, by (layer, head)
    looks_ahead  whether any weight is on a key that comes after its query
    """

    levels: NDArray[np.uint16]
    cells: Pooled
    pictures: NDArray[np.uint8]
    largest: NDArray[np.float32]
    sums: dict[tuple[int, int], RowSums]
    looks_ahead: bool


def _read(arrays: AttentionArrays) -> _Heads:
    """Read every head once, one after another."""
    count, longest = arrays.layers() * arrays.heads(), max(arrays.shape)
    side, picture = min(longest, MAX_SIDE), min(PICTURE, isqrt(PICTURES // count))
    while count * np.prod([ceil_divide(length, ceil_divide(length, side)) for length in arrays.shape]) > MAX_CELLS:
        side = side * 3 // 4
    levels, pictures, cells = np.zeros(0, np.uint16), [], None
    largest, sums, looks_ahead = np.zeros(count, np.float32), {}, False
    for number in range(count):
        stop_point()
        layer, head = divmod(number, arrays.heads())
        weights = arrays.weights(layer, head)
        sums[layer, head] = arrays.row_sums(layer, weights)
        looks_ahead = looks_ahead or bool(np.triu(weights, 1).any())
        largest[number] = weights.max()
        if cells is None:
            cells = pool(weights, side)
            levels = np.zeros((count, *cells.values.shape), np.uint16)
        levels[number] = in_levels(weights if cells.exact else pool(weights, side).values)
        pictures.append(np.rint(255 * np.sqrt(np.minimum(pool(weights, picture).values, 1))).astype(np.uint8))
    assert cells is not None  # there is at least one head
    return _Heads(levels, cells, np.stack(pictures), largest, sums, looks_ahead)


# --- words


def _notes(arrays: AttentionArrays, heads: _Heads, cells: Pooled) -> list[str]:
    notes = row_notes(heads.sums)
    if arrays.left_out:
        numbers = ", ".join(map(str, arrays.left_out))
        notes.append(f"Layers without weights are left out, and not counted here. In the model they are {numbers}.")
    if not heads.looks_ahead and arrays.query_tokens == arrays.key_tokens:
        notes.append("Nothing goes to later tokens. Which pairs are masked is not known: such a weight is drawn as 0.")
    if not cells.exact:
        rows, columns = cells.row_block, cells.column_block
        notes.append(
            f"{arrays.shape[0]:,} × {arrays.shape[1]:,} weights of each head are too many for {MAX_BYTES // 10**6} MB. Each "
            f"cell is the largest of {rows} × {columns} weights. Give a part of the arrays to see every weight."
        )
    longest = _longest(arrays)
    cut = sum(len(token) > longest for token in (*arrays.query_tokens, *arrays.key_tokens))
    if cut:
        notes.append(f"{counted(cut, 'token')} cut after {longest} characters.")
    return notes


def _longest(arrays: AttentionArrays) -> int:
    return max(1, min(LONGEST, MAX_TEXT // sum(arrays.shape)))


def _texts(arrays: AttentionArrays, cells: Pooled) -> str:
    """The tokens of the rows and columns in JSON; of the columns None where they are those of the rows."""
    longest, is_one_text = _longest(arrays), arrays.query_tokens == arrays.key_tokens

    def side(tokens: Sequence[str], block: int) -> dict[str, Any]:
        short = [shortened(token, longest) for token in tokens]
        return spelled(joined(short, block), 0) | {"block": block, "count": len(tokens)}

    rows = side(arrays.query_tokens, cells.row_block)
    return json.dumps({"queries": rows, "keys": None if is_one_text else side(arrays.key_tokens, cells.column_block)})


# --- the page


def _page(title: str, about: dict[str, Any], heads: _Heads, packed: Packed) -> str:
    """The whole page. Texts that others wrote are only in the compressed data."""
    parts = {
        ending: "\n".join(part.with_suffix(f".{ending}").read_text("utf-8") for part in (TOKENS, TEXT_VIEW, _CELL))
        for ending in ("js", "css")
    }
    colours = np.array(validate_colors(colours_of(np.linspace(0, 1, 256), SEQUENTIAL), colortype="tuple"))
    data = [
        text_of(json.dumps(about).encode()),
        text_of(np.rint(255 * colours).astype(np.uint8).tobytes()),
        text_of(heads.pictures.tobytes()),
        text_of(heads.largest.astype("<f4").tobytes()),
        *packed.heads,
    ]
    script = f'<script type="module">\n{parts["js"]}\n</script>'
    body = '<p id="problem">This view needs JavaScript.</p>\n<script type="text/plain" id="data">\n{}\n</script>\n{}'
    return standalone(title, f"\n{parts['css']}\n", body.format("\n".join(data), script))
