"""The pictures of the gallery's cards, painted from core's own arrays in the colours of the app.

`python -m tools.gallery_pictures` paints them. They have twice as many pixels as a card shows, and are see-through where
nothing is drawn, so that they suit a light page and a dark one.
"""

from collections.abc import Callable, Sequence
from io import BytesIO

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageColor, ImageDraw, ImageFont

from core import head_metrics
from core.attention.trace import AttentionTrace
from core.figures.palette import ABOVE, BELOW, DIVERGING, INK, PIN, SEQUENTIAL, SERIES
from core.heads.attribution import as_grid
from core.heads.effects import patch_effects
from core.heads.examples import KNOWS_PARIS, LANGUAGE_MODEL, PRONOUN_HEAD, SENTENCE_MODEL, TIRED, WIDE
from core.lessons import blocks, long_range, masking, self_and_cross, softmax, word_order
from tools import gallery_passes
from tools.gallery_passes import Passes
from ui.gallery import views

WIDTH, HEIGHT = 480, 270
MARGIN, GAP = 12, 2
FORBIDDEN = (128, 132, 142, 71)  # palette.FORBIDDEN, whose opacity is a share
FONT = ImageFont.load_default(22)
CLEAR = (0, 0, 0, 0)

Box = tuple[int, int, int, int]  # left, top, right, bottom
WHOLE: Box = (MARGIN, MARGIN, WIDTH - MARGIN, HEIGHT - MARGIN)
LEFT: Box = (MARGIN, MARGIN, WIDTH // 2 - MARGIN, HEIGHT - MARGIN)
RIGHT: Box = (WIDTH // 2 + MARGIN, MARGIN, WIDTH - MARGIN, HEIGHT - MARGIN)


def painted(word: str, passes: Passes) -> Image.Image:
    """The picture of one card."""
    picture = Image.new("RGBA", (WIDTH, HEIGHT), CLEAR)
    PAINT[word](ImageDraw.Draw(picture), passes)
    return picture


def as_png(picture: Image.Image) -> bytes:
    file = BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()


# --- with what to paint


def colours(values: ArrayLike, *, limit: float | None = None, signed: bool = False) -> NDArray[np.uint8]:
    """[rows, columns, 4]: the colours of weights from 0 to the limit, or of signed numbers up to it on both sides of 0, which
    are the more see-through the nearer they are to 0."""
    numbers = np.asarray(values, float)
    shares = np.clip(numbers / (limit or float(np.nanmax(np.abs(numbers))) or 1.0), -1, 1)
    if signed:
        below, above = (ImageColor.getrgb(colour) for _, colour in (DIVERGING[0], DIVERGING[-1]))
        mixed = np.where(shares[..., None] < 0, below, above)
        return np.concatenate([mixed, 255 * np.abs(shares)[..., None]], axis=-1).round().astype(np.uint8)
    places = np.array([place for place, _ in SEQUENTIAL])
    stops = np.array([ImageColor.getrgb(colour) for _, colour in SEQUENTIAL], float)
    mixed = [np.interp(shares, places, stops[:, channel]) for channel in range(3)]
    return np.stack([*mixed, np.full_like(numbers, 255)], axis=-1).round().astype(np.uint8)


def heat(
    draw: ImageDraw.ImageDraw,
    box: Box,
    cells: NDArray[np.uint8],
    *,
    frame: tuple[int, int] | None = None,
    square: bool = True,
) -> Callable[[int, int], Box]:
    """Cells [rows, columns, 4] in the middle of the box, one of them framed. Gives where each cell is."""
    rows, columns = cells.shape[:2]
    left, top, right, bottom = box
    wide, high = (right - left) // columns, (bottom - top) // rows
    if square:
        wide = high = min(wide, high)
    start = left + (right - left - wide * columns) // 2, top + (bottom - top - high * rows) // 2
    gap = GAP if min(wide, high) > 5 * GAP else 1 if min(wide, high) > 5 else 0

    def place(row: int, column: int) -> Box:
        x, y = start[0] + column * wide, start[1] + row * high
        return x, y, x + wide - 1 - gap, y + high - 1 - gap

    for row in range(rows):
        for column in range(columns):
            draw.rectangle(place(row, column), fill=tuple(map(int, cells[row, column])))
    if frame is not None:
        x0, y0, x1, y1 = place(*frame)
        draw.rectangle((x0 - 3, y0 - 3, x1 + 3, y1 + 3), outline=PIN, width=3)
    return place


def weights(trace: AttentionTrace, limit: float | None = 1.0) -> NDArray[np.uint8]:
    """The weights of a head, grey where a pair is forbidden."""
    cells = colours(trace.weights, limit=limit)
    cells[~trace.mask] = FORBIDDEN
    return cells


def pinned(draw: ImageDraw.ImageDraw, trace: AttentionTrace, cell: tuple[int, int], query: str, key: str) -> None:
    """A head's weights, one cell framed, and the words of its row and its column beside them."""
    left, top, right, bottom = WHOLE
    place = heat(draw, (left, top, right, bottom - 22), weights(trace), frame=cell)
    x0, y0, _, y1 = place(cell[0], 0)
    draw.text((x0 - 10, (y0 + y1) / 2), query, font=FONT, fill=INK, anchor="rm")
    x0, _, x1, y1 = place(trace.shape[0] - 1, cell[1])
    draw.text(((x0 + x1) / 2, y1 + 4), key, font=FONT, fill=INK, anchor="ma")


def bars(
    draw: ImageDraw.ImageDraw, box: Box, values: Sequence[float], *, colour: str = BELOW, most: float = 1.0
) -> None:
    """Standing bars from 0, upwards or downwards."""
    left, top, right, bottom = box
    lowest, highest = min(0.0, *values), max(0.0, *values, most)
    step = (right - left) / len(values)

    def level(value: float) -> float:
        return bottom - (value - lowest) / (highest - lowest) * (bottom - top)

    for place, value in enumerate(values):
        x = left + place * step
        ends = sorted((level(value), level(0)))
        draw.rectangle((x, ends[0], x + step * 0.8, ends[1]), fill=colour if value >= 0 else ABOVE)
    draw.line((left, level(0), right, level(0)), fill=INK, width=2)


def curves(draw: ImageDraw.ImageDraw, series: dict[str, tuple[ArrayLike, ArrayLike]]) -> None:
    """Lines in one frame, each with its name at its right end."""
    left, top, right, bottom = MARGIN + 4, MARGIN + 4, WIDTH - 130, HEIGHT - MARGIN - 4
    xs = np.concatenate([np.asarray(x, float) for x, _ in series.values()])
    ys = np.concatenate([np.asarray(y, float) for _, y in series.values()])
    draw.line((left, top, left, bottom, right, bottom), fill=INK, width=2)
    for (name, (x, y)), colour in zip(series.items(), SERIES, strict=False):
        across = left + (np.asarray(x, float) - xs.min()) / np.ptp(xs) * (right - left)
        up = bottom - (np.asarray(y, float) - ys.min()) / np.ptp(ys) * (bottom - top)
        draw.line([*zip(across.tolist(), up.tolist(), strict=True)], fill=colour, width=5, joint="curve")
        draw.text((right + 10, min(max(up[-1], top + 12), bottom - 12)), name, font=FONT, fill=colour, anchor="lm")


# --- the pictures


def pronoun(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    trace = passes.of(SENTENCE_MODEL, TIRED).trace(*PRONOUN_HEAD)
    pinned(draw, trace, views.IT_AT_ANIMAL, "it", "animal")


def induction(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    trace = passes.of(LANGUAGE_MODEL, views.REPEATED).trace(*views.INDUCTION_HEAD)
    pinned(draw, trace, views.GREEN_AT_DOORS, "green", "doors")


def previous(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    heat(draw, WHOLE, weights(passes.of(SENTENCE_MODEL, TIRED).trace(*views.BACK)))


def of_all_heads(draw: ImageDraw.ImageDraw, passes: Passes, metric: str, limit: float | None) -> None:
    """A grid of all heads, layers from left to right."""
    found = head_metrics(passes.of(LANGUAGE_MODEL, TIRED)).pivot(index="head", columns="layer", values=metric)
    heat(draw, WHOLE, colours(found.to_numpy(), limit=limit), square=False)


def sink(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    of_all_heads(draw, passes, "sink", 1.0)


def entropy(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    of_all_heads(draw, passes, "entropy", None)


def paris(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    names, top, high = ("as it is", "muted"), 40, 70
    for place, (name, share) in enumerate(zip(names, gallery_passes.paris(passes), strict=True)):
        y = top + place * (high + 40)
        draw.text((120, y + high / 2), name, font=FONT, fill=INK, anchor="rm")
        draw.rectangle((135, y, 135 + share * 330, y + high), fill=(BELOW, ABOVE)[place])
    draw.line((135, 20, 135, HEIGHT - 20), fill=INK, width=2)


def why(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    grid = as_grid(gallery_passes.followed(passes, "why").answer)
    frame = grid.row_of("self", KNOWS_PARIS.layer), KNOWS_PARIS.head
    heat(draw, WHOLE, colours(grid.values, signed=True), frame=frame, square=False)


def circuit(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    """A dot for each stop, and lines as thick as the share that they hand on."""
    path = gallery_passes.followed(passes, "circuit")
    before = path.answer.number, path.stops[0].score
    shares = [stop.gave / number for stop, number in zip(path.stops, before, strict=True)]
    places, y = (80, 240, 400), HEIGHT / 2
    for left, right, share in zip(places, places[1:], shares, strict=False):
        draw.line((left, y, right, y), fill=ABOVE, width=round(4 + 20 * share))
    for x, word in zip(places, ("doors", *(stop.hop.component for stop in path.stops)), strict=True):
        draw.ellipse((x - 16, y - 16, x + 16, y + 16), fill=INK)
        draw.text((x, y - 34), word, font=FONT, fill=INK, anchor="mb")


def patching(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    found = patch_effects(passes.model(SENTENCE_MODEL), TIRED, WIDE)
    cells = colours(found.pivot(index="layer", columns="head", values="moved").to_numpy(), signed=True)
    heat(draw, WHOLE, cells, frame=views.PATCHED, square=False)


def two_sentences(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    tired, wide = (passes.of(SENTENCE_MODEL, text).trace(*PRONOUN_HEAD).weights for text in (TIRED, WIDE))
    heat(draw, WHOLE, colours(wide - tired, signed=True), frame=views.IT_AT_ANIMAL)


def two_heads(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    passed = passes.of(SENTENCE_MODEL, TIRED)
    for box, place in ((LEFT, views.BACK), (RIGHT, views.AHEAD)):
        heat(draw, box, weights(passed.trace(*place)))


def unscaled(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    trace = passes.of(LANGUAGE_MODEL, TIRED).trace(*views.UNSCALED)
    for box, one in ((LEFT, trace), (RIGHT, trace.changed(scale=1.0))):
        heat(draw, box, weights(one), frame=views.WAS_AT_ANIMAL)


def grouped(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    passed = passes.of(LANGUAGE_MODEL, TIRED)
    traces = [passed.trace(views.SHARED_LAYER, head) for head in range(9)]
    step = (WIDTH - 2 * MARGIN) // 9
    for head, trace in enumerate(traces):
        left = MARGIN + head * step
        heat(draw, (left, 20, left + step - 8, 120), colours(trace.query[:, :16], signed=True), square=False)
        x = left + (step - 8) // 2
        middle = MARGIN + (head // 3 * 3 + 1) * step + (step - 8) // 2
        draw.line((x, 124, middle, 152), fill=INK, width=2)
    for head in (0, 3, 6):
        left = MARGIN + (head + 1) * step - 20
        heat(draw, (left, 156, left + step + 32, 256), colours(traces[head].key[:, :16], signed=True), square=False)


def generation(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    """A row for each new token, with the token that it writes beside it; what is not there yet is left out."""
    written = gallery_passes.paris_written(passes)
    trace = written.capture_of(-1).trace(*KNOWS_PARIS)
    query, key = views.IS_AT_FRANCE
    left, top, right, bottom = WHOLE
    cells = weights(trace)[query:]
    cells[~trace.mask[query:]] = CLEAR
    place = heat(draw, (left + 60, top, right, bottom - 24), cells, frame=(0, key), square=False)
    x0, y0, _, y1 = place(0, 0)
    draw.text((x0 - 8, (y0 + y1) / 2), "Paris", font=FONT, fill=INK, anchor="rm")
    x0, _, x1, y1 = place(len(cells) - 1, key)
    draw.text(((x0 + x1) / 2, y1 + 4), "France", font=FONT, fill=INK, anchor="ma")


def date(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    """What is written down the side, what is read below."""
    passed = gallery_passes.date_read(passes)
    (_, *written), keys = passed.tokens("cross")
    left, top, right, bottom = WHOLE
    cells = weights(gallery_passes.aligned(passed))[: len(written)]
    place = heat(draw, (left + 16, top, right, bottom - 24), cells, square=False)
    for row, character in enumerate(written):
        x0, y0, _, y1 = place(row, 0)
        draw.text((x0 - 6, (y0 + y1) / 2), character, font=FONT, fill=INK, anchor="rm")
    for column, character in enumerate(keys[:-1]):
        x0, _, x1, y1 = place(len(cells) - 1, column)
        draw.text(((x0 + x1) / 2, y1 + 4), character, font=FONT, fill=INK, anchor="ma")


def rotary(draw: ImageDraw.ImageDraw, passes: Passes) -> None:
    bars(draw, WHOLE, gallery_passes.rotary_bands(passes).parts.tolist(), most=0.0)


def saturation(draw: ImageDraw.ImageDraw, _: Passes) -> None:
    for box, temperature, colour in ((LEFT, 1.0, BELOW), (RIGHT, views.TEMPERATURE, SERIES[2])):
        steps = softmax.softmax_steps(views.SCORES, temperature=temperature)
        left, top, right, bottom = box
        bars(draw, (left, top, right, bottom - 30), steps.weights.tolist(), colour=colour)
        draw.text(((left + right) / 2, bottom), f"T = {temperature:g}", font=FONT, fill=INK, anchor="md")


def leak(draw: ImageDraw.ImageDraw, _: Passes) -> None:
    """The weights, and beside them what is left on forbidden keys, in a scale of its own."""
    trace = gallery_passes.masked_sentence()
    heat(draw, LEFT, weights(trace))
    left = np.where(trace.mask, 0, masking.fill(trace, views.FILL).weights)
    cells = colours(left)
    cells[trace.mask] = CLEAR
    heat(draw, RIGHT, cells)


def order(draw: ImageDraw.ImageDraw, _: Passes) -> None:
    read = word_order.shuffle(views.ORDER, seed=views.SHUFFLE)
    for box, trace in ((LEFT, read.before), (RIGHT, read.after)):
        heat(draw, box, weights(trace, read.largest_weight))


def in_blocks(draw: ImageDraw.ImageDraw, _: Passes) -> None:
    trace = gallery_passes.sentence_in_blocks()
    steps = blocks.in_blocks(trace, views.BLOCK).output
    rows = np.concatenate([steps.reshape(len(steps), -1), trace.output.reshape(1, -1)])[:, :24]
    left, top, right, bottom = WHOLE
    cells, limit = (rows[:-1], rows[-1:]), float(np.abs(rows).max())
    heat(draw, (left, top, right, bottom - 60), colours(cells[0], limit=limit, signed=True), square=False)
    heat(draw, (left, bottom - 46, right, bottom), colours(cells[1], limit=limit, signed=True), square=False)


def gradients(draw: ImageDraw.ImageDraw, _: Passes) -> None:
    found = long_range.compare_reach(views.FAR)
    curves(draw, {name: (reach.distances, reach.log10) for name, reach in found.items()})


def costs(draw: ImageDraw.ImageDraw, _: Passes) -> None:
    lengths = np.array([64, 4096])
    found = long_range.costs(lengths, views.WIDTH)
    x = np.log(lengths)
    lines = {"recurrent": found.recurrent_operations, "attention": found.attention_operations}
    curves(draw, {name: (x, np.log(operations)) for name, operations in lines.items()})


def crossing(draw: ImageDraw.ImageDraw, _: Passes) -> None:
    heat(draw, WHOLE, weights(self_and_cross.crossing("cross", views.READ, views.WRITTEN).trace, None))


def own_matrices(draw: ImageDraw.ImageDraw, _: Passes) -> None:
    trace = gallery_passes.typed_matrices()
    place = heat(draw, WHOLE, weights(trace), frame=(0, 0))
    for (row, column), share in np.ndenumerate(trace.weights):
        x0, y0, x1, y1 = place(row, column)
        draw.text(
            ((x0 + x1) / 2, (y0 + y1) / 2),
            f"{share:.3f}",
            font=ImageFont.load_default(34),
            fill="#ffffff",
            anchor="mm",
        )


PAINTERS = (
    *(pronoun, induction, previous, sink, paris, why, circuit, generation, date, patching, two_sentences, two_heads),
    *(unscaled, grouped, rotary, entropy, saturation, leak, order, in_blocks, gradients, costs, crossing, own_matrices),
)
PAINT: dict[str, Callable[[ImageDraw.ImageDraw, Passes], None]] = {painter.__name__: painter for painter in PAINTERS}

if __name__ == "__main__":
    ran = Passes()
    for one in views.CARDS:
        (views.PICTURES / f"{one}.png").write_bytes(as_png(painted(one, ran)))
