"""Every key of a widget and of the session's state.

Some keys are also names in a page's address (docs/links.md). These are short words that never change: links that people have
kept use them. They are made by `in_address`.
"""

from collections.abc import Sequence

IN_ADDRESS: set[str] = set()  # every name that an address may use
# By each key that speaks of a text, as a token's position and an answer do: the keys that say which text that is. Once one of
# these has another value, the choice is dropped (`ui.links.field`): it was about the text before.
SPEAKS_OF: dict[str, Sequence[str]] = {}
ANY_TEXT = ()  # of a choice that means the same for every text: it stays


def in_address(*names: str, of: Sequence[str]) -> tuple[str, ...]:
    """Add names to `IN_ADDRESS` and return them. of: as in `SPEAKS_OF`"""
    IN_ADDRESS.update(names)
    return speaking(*names, of=of)


def speaking(*names: str, of: Sequence[str]) -> tuple[str, ...]:
    """Add names to `SPEAKS_OF` and return them."""
    SPEAKS_OF.update(dict.fromkeys(names, of))
    return names


# What pages share: the model, the text, a head and a cell of it
IMAGE = "image"
SHOWN_IMAGE = "shown_image"  # the uploaded file's name and bytes, on all pages
RECORDED = "recorded"
SHOWN_RECORDED = "shown_recorded"  # the uploaded pass: its file's name and bytes, on all pages
FORGET_IMAGE = "forget_image"
MODEL, KIND, LAYER, HEAD = in_address("model", "kind", "layer", "head", of=ANY_TEXT)
MODEL_PLACE = "model_place"  # around the field for a model and what is said of it
HEAD_BOX = "head_box"  # both of them, chosen as one
APPLY = "apply"
TAKE_OUT = "take_out"  # several: buttons that take out of a text what its tokenizer adds
DTYPE, DEVICE = in_address("dtype", "device", of=ANY_TEXT)
TEXT, PAIR, TRUNCATE = in_address("text", "pair", "cut", of=ANY_TEXT)
# How the target is given; what was written about a text so far, as a text or as its token numbers
(TARGET_AS,) = in_address("target_as", of=ANY_TEXT)
TARGET, TARGET_IDS = in_address("target", "target_ids", of=(MODEL, TEXT))
READ_TEXT = (MODEL, TEXT, PAIR, TARGET_AS, TARGET, TARGET_IDS, SHOWN_IMAGE, SHOWN_RECORDED)
(SOURCE,) = in_address("source", of=ANY_TEXT)  # of the numbers of Step by step
(TOY_TEXT,) = in_address("words", of=ANY_TEXT)
(CHAT,) = in_address("chat", of=ANY_TEXT)  # whether the text is a message, which puts other tokens around it
(BY_WORD,) = in_address("by_word", of=ANY_TEXT)  # whether words are counted instead of tokens
POSITIONS = (*READ_TEXT, KIND, SOURCE, TOY_TEXT, CHAT, BY_WORD)  # what positions are counted in
QUERY, KEY = in_address("query", "key", of=POSITIONS)

# The address: the page that it was last read for, what was read, names of others in it, what no field has taken yet, what is
# not there, whether the page that somebody has come to is still being drawn, and what that then says
PAGE, CAME_BY, FOREIGN, ASKED, IN_VAIN = "page_before", "came_by", "foreign", "asked", "in_vain"
ARRIVING, ADDRESS = "arriving", "address"
CHOSEN = "chosen"  # by name in the address, what was last chosen: it outlives its field
# Of which text each choice speaks, and what the address asks for: see ui/links.py
SPOKE_OF, ASKED_OF = "spoke_of", "asked_of"
HAS_CHOSEN = "has_chosen"  # whether anything in this session was ever other than it opens
FOLLOWER, SESSION, RUN_NUMBER = "follower", "session", "run_number"  # see ui/in_browser.py

# The start page: all cards, and what each of their names begins with
CARDS, CARD, WAYS_IN = "cards", "card", "ways_in"

# What can be done with any page, and what each begins with
HEADING = "heading"
ACTIONS, SHARE = "actions", "share_page"
PRESENT_PAGE = "present_page"
BROWSER = "browser"  # what the browser keeps: see ui/components/browser.py

# Presenting: whether, what is lit, the window's size; the keys and their presses; places for what the audience reads
PRESENT, SPOT, WINDOW = "present", "spot", "window"
STAGE_PLACE, STAGE_KEYS, STAGE_PRESSES, TOLD, ASIDE = "stage_place", "stage_keys", "stage_presses", "told", "aside"

# A talk: its views, the one that is shown, where to go next, whether all are opened in turn, which of them had a message
TALK, TALK_AT, GOING, REHEARSING, REHEARSED = "held_talk", "talk", "going", "rehearsing", "rehearsed"
ADD_TO_TALK, START_TALK, PREPARE_TALK, SAVE_TALK = "add_to_talk", "start_talk", "prepare_talk", "save_talk"
TALK_FILE, NEW_VIEW, VIEWS_ADDED, TALK_SAID = "talk_file", "new_view", "views_added", "talk_said"
# What was shown of each view when all were opened in turn; the talk and its page; buttons that save a page
TALK_PAGES, TALK_PAGE, SAVE_PAGE, SAVE_VIEW = "talk_pages", "talk_page", "save_page", "save_view"
# The view that was shown when the presentation ended, from 1; 0: none
TALK_LEFT, BACK_TO_TALK = "talk_left", "back_to_talk"
# Its file; the one that the browser keeps for sure; one that it keeps and that cannot be read, and why; why it keeps none
TALK_TEXT, TALK_KEPT, TALK_UNREAD, TALK_LOST = "talk_text", "talk_kept", "talk_unread", "talk_lost"
# The number of the last one that the browser found and this session took in; whether it is known what the browser keeps
TALK_TAKEN, TALK_READ = "talk_taken", "talk_read"
NEW_VIEW_FORM = "new_view_form"
VIEW_ORDER, VIEW_MOVES = "view_order", "view_moves"  # the pictures of its views, and how often they were moved
VIEW_HERE, ADDED_VIEW = "view_here", "added_view"  # title, page, address of what is shown; the link of what was added
CARDS_CHOSEN, ADD_CARDS = "cards_chosen", "add_cards"
SAVE_UNREAD, FORGET_UNREAD = "save_unread", "forget_unread"
TABLES = "tables"  # whether each picture has a table of its strongest values below it
VERSION = "version"  # of an address that says all
# What an address says of any page: how it is shown, not what
HOW = in_address(TABLES, VERSION, PRESENT, TALK_AT, SPOT, of=ANY_TEXT)
SHARED_PICTURE, SHARED_LIST, GROUND = "shared_picture", "shared_list", "ground"
SHARED_WIDTH, WORDS_ABOVE = "shared_width", "words_above"
SAVE_PICTURE, SAVE_EXHIBIT, SAVE_NOTEBOOK, COPY_LINK = "save_picture", "save_exhibit", "save_notebook", "copy_link"

# A file that was opened: the field, the file as it was read, and whether it has just been dropped
EXHIBIT_FILE, EXHIBIT, EXHIBIT_IS_NEW = "exhibit_file", "exhibit", "exhibit_is_new"
OPEN_STEPS, COMPARE_LIVE, OPEN_LIVE = "open_steps", "compare_live", "open_live"

# A host that is full
TRY_AGAIN = "try_again"

# Clicks and presses
PIN = "pin"  # the click listener
CELL_READER = "cells_by_keys"
PINNED_BLOCK = "pinned_block"  # a click on a pooled picture, until the page has looked for its strongest cell
TOKEN_VIEW, CLICKS_SEEN, ARROWS = "token_view", "clicks_seen", "arrows"
PRESSES = "presses"  # of arrow keys that the page has seen

# Work in progress: what the key of each line begins with that says how far it is
PROGRESS = "progress"
# Around a picture that grows with the window
GROWING = "growing"
# What the page would show if a knob stood elsewhere; the pages on which somebody came near a knob; buttons that play one
FRAMES, FRAMES_WANTED, PLAYER = "frames", "frames_wanted", "player"
# By the hash of the work's name: why it does not continue, or that it is wanted although it takes long
WISHES = "wishes"

# Step by step, Heads
STAGE, WEIGHTS = in_address("stage", "weights", of=ANY_TEXT)
EQUATION, FORMULA, STEP_WORDS = "equation", "formula", "step_words"

# Show me around: the stop at which a visitor is, the card, its presses, and what was chosen before
TOUR, TOUR_START, TOUR_CARD = "tour", "tour_start", "tour_card"
TOUR_PRESSES, BEFORE_TOUR = "tour_presses", "before_tour"
SCALING, SCALE_TIMES, MASK, MASK_SIZE = in_address("scaling", "times", "mask", "size", of=ANY_TEXT)
(MASK_GRID,) = in_address("grid", of=POSITIONS)
(TOY_SIZE,) = in_address("width", of=ANY_TEXT)
QUERIES, KEYS, D_K, D_V = in_address("queries", "keys", "dk", "dv", of=ANY_TEXT)
DISTRIBUTION, SEED = in_address("numbers", "seed", of=ANY_TEXT)
OWN = {"query": "q", "key": "k", "value": "v", "mask": "m"}
in_address(*OWN.values(), of=ANY_TEXT)
FILES = {"query": "file_q", "key": "file_k", "value": "file_v", "mask": "file_m"}
ARCHIVE = "archive"
# The names of the uploaded files that a view shows
(UPLOADED,) = in_address("file", of=(SOURCE, MODEL))

# Heads: the grid, then the head that is open
ATLAS_BY, METRIC, MEASURED_ON = in_address("by", "metric", "on", of=ANY_TEXT)
AT_LEAST, FROM_LAYER, TO_LAYER, ORDER = in_address("least", "from_layer", "to_layer", "order", of=ANY_TEXT)
RANKED = "ranked"
# Both sides of the page Heads, and what stands below its grid
SIDES, BELOW_THE_GRID = "sides", "below_the_grid"
FINDINGS, FINDING = "findings", "finding"  # the line of heads that stand out, and what the key of each begins with
LOOK_FOR, BACK, BLOCK_LENGTH = in_address("pattern_of", "back", "block_length", of=ANY_TEXT)
STRIPES, PAIRS = in_address("stripes", "pairs", of=(*READ_TEXT, KIND))
SHOWN_AS, QUANTITY, LEAVE_OUT, RENORMALISE = in_address("as", "what", "without", "renormalise", of=ANY_TEXT)
MEAN_OF, DIRECTION, PART_OF_PAIR = in_address("mean_of", "look", "across", of=ANY_TEXT)
(PINNED_TOKENS,) = in_address("pins", of=POSITIONS)

# What if: which part of the page, and its example; the changes, a new one, and a token to replace
VIEW, PAINTING, WRITES_ON, EXAMPLE = in_address("view", "paint", "writes", "example", of=ANY_TEXT)
(EDITS,) = in_address("edit", of=READ_TEXT)  # those lines that speak of it: see core.capturing.edits.lines
EDITS_LIST = "edits_list"
CHANGED_BEFORE = "changed_before"  # the latest request with changes, from whose pass the next one may continue
NEW_EDIT, NEW_PLACE = in_address("change", "where", of=ANY_TEXT)
NEW_FIELDS = {  # by the name of a field in core.capturing.edits.forms
    "text": "over",
    "factor": "factor_of",
    "mask": "new_mask",
    "span": "span_of",
    "softmax": "new_softmax",
    "pattern": "new_pattern",
    "cells": "new_cells",
    "component": "component",
    "side": "cut_from",
    "instead": "cut_to",
}
in_address(*NEW_FIELDS.values(), of=ANY_TEXT)
speaking(NEW_FIELDS["text"], NEW_FIELDS["cells"], of=READ_TEXT)  # another text with as many tokens; positions
# In no address, as the image
REGION_ROWS, REGION_COLUMNS = speaking("region_rows", "region_columns", of=(MODEL, SHOWN_IMAGE, SHOWN_RECORDED))
TOKEN_AT, NEW_TOKEN = speaking("token", "new_token", of=READ_TEXT)
TOKEN_LINE = "token_line"

# What changed: the copy, its name if it is another model, the texts, the passage that is drawn
COPY, COPY_NAME, TEXTS = in_address("copy", "copy_name", "texts", of=ANY_TEXT)
(PASSAGE,) = in_address("passage", of=(TEXTS,))
APPLY_TEXTS = "apply_texts"

# Claims: the claims, the one that is shown, the texts and which examples; a button
CLAIMS, CHECKED_ON, CLAIM_EXAMPLES = in_address("claims", "checked_on", "examples", of=ANY_TEXT)
(CLAIM,) = in_address("claim", of=(CLAIMS, MODEL))
KNOWN_CLAIMS = "known_claims"

# What if: comparing
COMPARE_WITH, OTHER_LAYER, OTHER_HEAD = in_address("compare", "other_layer", "other_head", of=ANY_TEXT)
OTHER_HEAD_BOX = "other_head_box"
OTHER_TEXT, OTHER_MODEL = in_address("other_text", "other_model", of=ANY_TEXT)
# On the common axes of two texts
PLACE_OF_QUERY, PLACE_OF_KEY = in_address(
    "query_place",
    "key_place",
    of=(*READ_TEXT, KIND, COMPARE_WITH, OTHER_TEXT, OTHER_MODEL, COPY, COPY_NAME, TEXTS, PASSAGE),
)
HEADS_LIKE = "heads_like"

# What if: which heads matter, patching
TAKEN_AWAY, THROUGH_HEAD = in_address("taken", "through", of=ANY_TEXT)
NEXT_TOKEN, SOURCE_TEXT = in_address("next", "other", of=READ_TEXT)  # the second one is a text with as many tokens
USE_EXAMPLE = "use_example"

# Why: the answer and what it is compared with, the path, the stop that is shown and its side, and what is cut
(LIKE_TEXT,) = in_address("like", of=ANY_TEXT)
ANSWER, RATHER_THAN = in_address("answer", "than", of=READ_TEXT)
# Of a word of several tokens
PIECES = {ANSWER: "answer_piece", RATHER_THAN: "than_piece"}
for word, piece in PIECES.items():
    in_address(piece, of=(*READ_TEXT, word))
PATH, CUT_TO = in_address("path", "as_in", of=READ_TEXT)  # the second one is a text with as many tokens
ASKED_FOR = (*READ_TEXT, ANSWER, RATHER_THAN, *PIECES.values(), LIKE_TEXT)
STOP, SIDE, CUTS = in_address("stop", "side", "cuts", of=ASKED_FOR)
(ANSWER_SHOWS,) = in_address("answer_as", of=ANY_TEXT)
FOLLOW_ANSWER = "follow_answer"

# Learn: which part of the lesson; then the knobs of each lesson
(PART,) = in_address("part", of=ANY_TEXT)
NEXT_PART, WAY_ON = "next_part", "way_on"
EXPERIMENT, KNOBS = "experiment", "knobs"
EXPERIMENT_PICTURE, EXPERIMENT_WORDS = "experiment_picture", "experiment_words"

# Query, key, value
ANGLE, KEY_LENGTH, SWAP, MOVED = in_address("angle", "key_length", "swap", "moved", of=ANY_TEXT)

# Softmax
SCORES, TEMPERATURE, SHIFT = in_address("scores", "temperature", "shift", of=ANY_TEXT)
FACTOR, NOTHING = in_address("factor", "nothing", of=ANY_TEXT)

# Why 1/√d_k
TERMS, DEVIATION, KEY_COUNT, DIVISOR = in_address("terms", "deviation", "keycount", "divisor", of=ANY_TEXT)
GRADIENT_OF, HEAD_SIZE, SCALED = in_address("of", "headsize", "scaled", of=ANY_TEXT)
(GROWN,) = in_address("grown", of=ANY_TEXT)
DEPTH, AROUND, STACK_WIDTH, MEASURE = in_address("depth", "around", "stackwidth", "measure", of=ANY_TEXT)

# Masks; In blocks
(SENTENCE,) = in_address("sentence", of=ANY_TEXT)
(ROW,) = in_address("row", of=(*READ_TEXT, KIND, SENTENCE))
PATTERN, SPAN = in_address("pattern", "span", of=ANY_TEXT)
(CELLS,) = in_address("cells", of=(SENTENCE,))
FILL, PADDED, BLOCK_SIZE = in_address("fill", "padded", "blocksize", of=ANY_TEXT)

# Many heads
HEAD_COUNT, HEAD_SHARE = in_address("heads", "share", of=ANY_TEXT)
(WORD,) = in_address("word", of=(*READ_TEXT, TOY_TEXT))

# Self and cross
BLOCK, READ, WRITTEN, READ_INSTEAD = in_address("block", "read", "written", "instead", of=ANY_TEXT)
FIRST_TEXT, SECOND_TEXT = in_address("first", "second", of=ANY_TEXT)
(DATE,) = in_address("date", of=ANY_TEXT)
(DIGIT,) = in_address("digit", of=(DATE,))

# Word order
ORDER_TEXT, ORDER_FROM, ORDER_SEED = in_address("order_text", "order_from", "reorder", of=ANY_TEXT)
PE_WIDTH, ONWARD, PE_FROM = in_address("pe_width", "onward", "from_position", of=ANY_TEXT)
BOTH_LATER, ROTARY_BASE = in_address("both_later", "rotary_base", of=ANY_TEXT)
BIAS_KIND, ALIBI_HEADS, ALIBI_HEAD = in_address("bias_kind", "alibi_heads", "alibi_head", of=ANY_TEXT)

# Long range
VECTOR_SIZE, LENGTH = in_address("vector_size", "length", of=ANY_TEXT)
GAIN, FORGET, WITHOUT_FIRST = in_address("gain", "forget", "without_first", of=ANY_TEXT)

# Generation: how many tokens, how each is chosen, the step that is looked at, and what is shown of it
NEW_TOKENS, CHOICE, HEAT, TOP_K, TOP_P = in_address("new", "choice", "heat", "top_k", "top_p", of=ANY_TEXT)
(STEP,) = in_address("step", of=(*READ_TEXT, CHAT))
STEP_SHOWS, STEP_TELLS = in_address("rows", "beside", of=ANY_TEXT)

# Corpus: which run; all heads as a grid or a map; what of the chosen one is shown; which examples
RUN, HEADS_AS, LOOKS_BY, AGAINST = in_address("run", "heads_as", "looks", "against", of=ANY_TEXT)
KEPT, QUANTILES = in_address("kept", "quantiles", of=ANY_TEXT)
(BATCH,) = in_address("batch", of=(RUN, LAYER, HEAD, METRIC, KEPT, QUANTILES))
SHADES, SHADED = "shades", "shaded"  # the legend of the examples, and what the key of each begins with
ALIKE = "alike"  # what the key of each head begins with that is like the chosen one
RUN_INCLUDED, RUN_OWN = "documentation", "own"  # in the address: the included run, the one over a text of one's own
OWN_FIELDS, OWN_TEXT, OWN_FILE, START_RUN = "own_fields", "own_text", "own_file", "start_run"
OWN_RUN = "own_run"  # what was last asked for there


def button(name: str, job: int) -> str:
    """The key of a button that concerns one piece of work; several may run one after another on a page."""
    return f"{name}_{job & 0xFFFFFFFF:08x}"


def one_of(several: str, which: int | str) -> str:
    """The key of one of several places or widgets, whose keys all begin with the same name."""
    return f"{several}_{which}"


def download(name: str) -> str:
    """The key of a button that saves the file of that name; another file is another button."""
    return f"download_{name.rpartition('.')[2]}_{hash(name) & 0xFFFFFFFF:08x}"


def picture(name: str) -> str:
    """The key of a chart; charts are not bound, but a fixed key lets a redraw keep its place."""
    return "picture_" + name.lower().replace(" ", "_")
