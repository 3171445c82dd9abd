"""Every widget key. A bound widget's key is also its name in the page's address, so keys are short words that stay."""

SOURCE = "source"
STAGE = "stage"
QUERY, KEY = "query", "key"
SCALING = "scaling"
MASK, MASK_SIZE, MASK_GRID = "mask", "size", "grid"
SHARED_COLOURS = "colours"

TEXT, PAIR, TARGET, CUT = "text", "pair", "target", "cut"
MODEL, KIND, LAYER, HEAD = "model", "kind", "layer", "head"

TOY_TEXT, TOY_SIZE = "words", "width"
QUERIES, KEYS, D_K, D_V = "queries", "keys", "dk", "dv"
DISTRIBUTION, SEED = "numbers", "seed"
OWN = {"query": "q", "key": "k", "value": "v", "mask": "m"}
FILES = {"query": "file_q", "key": "file_k", "value": "file_v", "mask": "file_m"}
ARCHIVE = "archive"

WEIGHTS = "weights"

# Learn: `part` chooses the experiment of a lesson; the knobs of each lesson follow.
PART = "part"
SCORES, TEMPERATURE, SHIFT = "scores", "temperature", "shift"
FACTOR, NOTHING = "factor", "nothing"
SENTENCE, PATTERN, SPAN, CELLS = "sentence", "pattern", "span", "cells"
FILL, ROW, PADDED = "fill", "row", "padded"
BLOCK = "block"

# Many heads; self and cross
HEAD_COUNT, WORD, HEAD_SHARE = "heads", "word", "share"
BLOCK, READ, WRITTEN, READ_INSTEAD = "block", "read", "written", "instead"
FIRST_TEXT, SECOND_TEXT = "first", "second"

PIN = "pin"  # the click listener
PINNED_BLOCK = "pinned_block"  # a click on a pooled picture, until the page has looked for its strongest cell


def picture(name: str) -> str:
    """The key of a chart; charts are not bound, but a fixed key lets a redraw keep its place."""
    return "picture_" + name.lower().replace(" ", "_")
