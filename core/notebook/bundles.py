"""The display of each class in a notebook: a table, or a Plotly figure with a table for programs that cannot draw it.

Texts by others are shown as text, never as markup.
"""

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io
from numpy.typing import NDArray

from ..attention import trace as traces
from ..attention.head import Head
from ..attention.ledger import Ledger, lines
from ..attention.rowwise import Pooled, pool
from ..attention.stages import number
from ..capturing import capture as captures
from ..capturing import certifying
from ..capturing import weights_only as exposed
from ..figures.chart import numbered
from ..figures.heatmaps.heatmap import Axis, heatmap
from ..figures.heatmaps.side_by_side import side_by_side, small
from ..figures.labels import visible
from ..figures.palette import DIVERGING, FORBIDDEN, SEQUENTIAL, colours_of, largest, text_on
from ..heads.comparing import Comparison
from ..models import model as models
from ..models.model import RecordedModel
from ..models.projections import HeadWeights
from ..units import bytes_in_words
from .figures import stage_figure

PRINTED = 12  # number of columns up to which every cell of a picture shows its number
_NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
_LEFT = '<td style="text-align: left">'


class Html(str):
    """A text that is HTML; every other text is escaped."""


def token(value: str) -> Html:
    """A token with visible blanks, as code, in which notebooks do not look for formulas."""
    return Html(f"<code>{html.escape(visible(value))}</code>")


def table(rows: Iterable[Sequence[object]], heading: Sequence[str] = ()) -> str:
    """A table of texts, numbers and Html."""

    def cell(value: object) -> str:
        return value if isinstance(value, Html) else html.escape(str(value))

    return _html(map(cell, heading), [[f"{_LEFT}{cell(value)}</td>" for value in row] for row in rows])


def shaded(cells: Pooled, *, signed: bool) -> str:
    """A matrix as a table with the colours of its figure, for programs that cannot draw the figure. Masked cells are grey."""
    limit = largest(cells.values)
    shares = np.nan_to_num((cells.values / limit + 1) / 2 if signed else cells.values / limit)
    colours = colours_of(shares, DIVERGING if signed else SEQUENTIAL)
    height, width = cells.values.shape
    is_printed = cells.exact and width <= PRINTED
    drawn = [
        _cell(*cell, is_printed) for cell in zip(cells.values.ravel().tolist(), colours, text_on(colours), strict=True)
    ]
    rows = [
        [f"<th>{_places(cells.block(row, 0)[0])}</th>", *drawn[row * width : (row + 1) * width]]
        for row in range(height)
    ]
    return _html(["", *(_places(cells.block(0, column)[1]) for column in range(width))], rows)


def _html(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of headings, and of rows of whole cells, <td> or <th>."""
    head = "".join(f"<th>{cell}</th>" for cell in heading)
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<table class="{_NO_FORMULAS}">{head}<tbody>{body}</tbody></table>'


def _cell(value: float, colour: str, letters: str, is_printed: bool) -> str:
    if np.isnan(value):
        return f'<td title="masked" style="background: {FORBIDDEN}"></td>'
    number = f"{value:.2f}" if is_printed else ""
    return f'<td title="{value:.6g}" style="background: {colour}; color: {letters}">{number}</td>'


def _places(places: range) -> str:
    return str(places.start) if len(places) == 1 else f"{places.start}–{places.stop - 1}"


TABLE_CELLS = 24  # rows and columns of a matrix as a table
MAX_TOKENS = 40  # first tokens of a text that are shown
NEXT = 5  # next tokens
TITLE = 34  # pixels of the line above a picture

Bundle = dict[str, Any]


def trace(of: traces.AttentionTrace) -> Bundle:
    """The weights, by position: a trace has no tokens."""
    head = Head.of(of)
    weights = head.overview(TABLE_CELLS).matrices["weights"]
    return _picture(stage_figure(head), of.in_words, shaded(weights, signed=False))


def comparison(of: Comparison) -> Bundle:
    row, worst = of.worst
    words = f"Second − first. Rows are {of.mean:.3f} nats apart on average, at most {worst:.3f} (query {row})"
    chart = heatmap(of.difference, Axis("query"), Axis("key"), name="difference")
    return _picture(chart.figure, words, shaded(pool(of.difference, TABLE_CELLS), signed=True))


def head_weights(of: HeadWeights) -> Bundle:
    """The four matrices in one colour range, W_O turned by 90 degrees so that all have d_model rows."""
    matrices = {"W_Q": of.W_Q, "W_K": of.W_K, "W_V": of.W_V, "W_O": of.W_O}
    drawn = [small(matrix if name != "W_O" else matrix.T) for name, matrix in matrices.items()]
    names = [f"{name}{'ᵀ' if name == 'W_O' else ''}, norm {_norm(matrix)}" for name, matrix in matrices.items()]
    chart = side_by_side(drawn, names, *map(numbered, of.W_Q.shape), across=4, scale="signed", line_height=320)
    rows = [
        (name, "{} × {}".format(*matrix.shape), _norm(matrix), number(float(np.abs(matrix).max())))
        for name, matrix in matrices.items()
    ]
    words = f"{of.W_Q.shape[0]} → {of.W_Q.shape[1]} → {of.W_O.shape[1]} dimensions, key head {of.key_head}"
    return _picture(chart.figure, words, table(rows, ("", "shape", "norm", "largest")))


def ledger(of: Ledger) -> Bundle:
    rows = lines(of, has_bias=bool(of.bias))
    return {"text/html": table(rows, (f"query {of.query} → key {of.key}", ""))}


def certificate(of: certifying.Certificate) -> Bundle:
    rows = [
        ("Agrees with the model", "holds" if of.agrees else "does not hold"),
        *([("not to be relied on", of.fault)] if of.fault else []),
        ("model", f"{of.model}, in {of.dtype}, traced in {of.traced_in}"),
        ("revision", of.revision),
        ("numbers compared", f"{of.cells:,}"),
        ("largest difference", f"{of.difference:.3g}"),
        ("in units of rounding", f"{of.rounding:.2f}, at most {of.allowed:g} allowed"),
        ("queries left out", f"{of.left_out}"),
        ("scale", number(of.scale)),
        ("mask", of.mask),
        ("checked", certifying.CHECKED),
        ("not checked", certifying.NOT_CHECKED),
    ]
    return {"text/html": table(rows)}


def capture(of: captures.Capture) -> Bundle:
    rows: list[tuple[str, object]] = [("model", of.model.label), *_texts(of)]
    rows += [(kind, f"{of.layers(kind)} layers × {of.heads(kind)} heads") for kind in of.kinds]
    if of.edits:
        rows.append(("edits", of.edits))
    if of.logits is not None:
        words = " ".join(f"{token(word)} {share:.1%}" for word, share in of.next_tokens(NEXT))
        rows.append(("next token", Html(words)))
    return {"text/html": table(rows)}


def weights_only(of: exposed.WeightsOnly) -> Bundle:
    heads = f"{of.layers()} layers × {of.heads()} heads, only their weights"
    return {"text/html": table([("model", of.model.label), _text(of.tokens()[0], "tokens"), (of.kinds[0], heads)])}


def model(of: models.Model) -> Bundle:
    if isinstance(of, RecordedModel):
        told = [("model", of.name), ("revision", of.revision), ("precision", of.dtype)]
        return {"text/html": table([*told, ("network", "not here: this is what a file says of it")])}
    calls = of.attention_calls
    texts = f"texts of up to {of.max_tokens:,} tokens" if of.max_tokens else "texts"
    rows = [
        ("model", of.name),
        ("network", f"{type(of.network).__name__}, {sum(p.numel() for p in of.network.parameters()):,} parameters"),
        ("revision", of.revision),
        ("precision", f"{of.dtype}, {bytes_in_words(of.nbytes)} on {', '.join(of.devices)}"),
        ("attention", "only its weights" if calls is None else f"{calls} layers"),
        ("reads", "images" if of.reads_images else texts),
    ]
    return {"text/html": table(rows)}


def _norm(matrix: NDArray[np.floating]) -> str:
    """The Frobenius norm."""
    return number(float(np.linalg.norm(matrix)))


def _texts(of: captures.Capture) -> list[tuple[str, object]]:
    """The rows of the text or image, and of a decoder's text."""
    if of.grid is not None:
        return [("read", "{} × {} patches".format(*of.grid))]
    read = _text(of.tokens(of.kinds[0])[0], "tokens")
    return [read, _text(of.tokens("decoder")[0], "written")] if "decoder" in of.calls else [read]


def _text(tokens: tuple[str, ...], what: str) -> tuple[str, Html]:
    further = f" … {len(tokens) - MAX_TOKENS:,} more" if len(tokens) > MAX_TOKENS else ""
    return f"{len(tokens):,} {what}", Html(" ".join(map(token, tokens[:MAX_TOKENS])) + further)


def _picture(figure: go.Figure, words: str, instead: str) -> Bundle:
    """The figure with a line above it, and the same line above a table for programs that cannot draw the figure."""
    layout: Any = figure.layout
    title = {"text": html.escape(words), "font": {"size": 13}, "x": 0.01, "y": 1, "yanchor": "top", "pad": {"t": 8}}
    figure.update_layout(title=title, margin_t=(layout.margin.t or 0) + TITLE, height=layout.height + TITLE)
    drawn = plotly.io.renderers["plotly_mimetype"].to_mimebundle(figure.to_dict())
    return {**drawn, "text/html": f"<div>{html.escape(words)}</div>{instead}"}
