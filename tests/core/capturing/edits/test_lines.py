"""Changes as lines of text: every one comes back as it went, and whatever else a link says is refused in words.

And what every kind of edit owes to those who go through all of them: a line, a keyword, and a form whose words can be read.
"""

import random
from contextlib import suppress
from inspect import signature
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import Edits, Place, capture
from core.capturing.calls.head_places import Side
from core.capturing.capture import check_edits
from core.capturing.edits import forms
from core.capturing.edits.edit import MAX_CELLS
from core.capturing.edits.edits import every
from core.capturing.edits.kinds import EDIT_KINDS, MASKS, PATTERNS, SOFTMAXES
from core.capturing.edits.lines import MAX_LINE, divided, edits_of, lines_of, painted, painting
from core.errors import InputError
from core.models.modules import Kind
from tests.core.passes import tiny_model
from tests.refusals import refused

TEXTS = (
    *("a text", " at 5", "it is at 5.11", 'a "quoted" word', "back\\slash", 'both \\" of them', "two\nlines\tand more"),
    *("東京 😀 café", "over", ' over "x"', "mute 5", "<b>$x$ *s*</b>", "a\u2028b", "ends in \\"),
)
# What the module's own docstring promises, and what each line means, in the words of `Edits`.
PROMISED = {
    "mute 23.4": Edits(mute_heads={(23, 4)}),
    'mean 23.4 over "a text"': Edits(mean_heads={(23, 4)}, mean_over="a text"),
    'patch 23.4 from "a text of the same length"': Edits(patch_heads={(23, 4)}, patch_from="a text of the same length"),
    "pattern previous at 5.11": Edits(pattern={(5, 11): "previous"}),
    "scale 2 at 5.11": Edits(scale_by={(5, 11): 2}),
    "softmax hardmax at 5": Edits(softmax={5: "hardmax"}),
    "paint 10>2=0.7 10>3=0.3 at 5.11": Edits(pattern={(5, 11): {10: {2: 0.7, 3: 0.3}}}),
    "mask window 4 at 5": Edits(mask={5: "window 4"}),
    "block key 3 at 5.11": Edits(block_keys={(5, 11): {3}}),
    "block key 0-2 4 6-7 at vision": Edits(block_keys={Place(kind="vision"): {0, 1, 2, 4, 6, 7}}),
    "block pair 10>2": Edits(block_pairs={(10, 2)}),
    'token 3 "dog"': Edits(replace_tokens={3: "dog"}),
    "cut 16.0 from the key of 18.6": Edits(cut_paths={("16.0", (18, 6, "key")): "zero"}),
    "cut mlp 9 mean from the value of 18.6": Edits(cut_paths={("mlp 9", (18, 6, "value")): "mean"}),
    'cut 16.0 from the key of 18.6 as in "a text of the same length"': Edits(
        cut_paths={("16.0", (18, 6, "key")): "patch"}, patch_from="a text of the same length"
    ),
    "mute all": Edits(mute_heads={None}),
    "mute cross 5.11": Edits(mute_heads={Place(5, 11, "cross")}),
    "scale 0.5 at .11": Edits(scale_by={Place(head=11): 0.5}),
}


NUMBER = st.integers(0, 10**30)
PLACE = st.builds(Place, st.none() | NUMBER, st.none() | NUMBER, st.none() | st.sampled_from(get_args(Kind)))
TEXT = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
COMPONENT = st.sampled_from(["embedding", "mean", "bias", "encoder mlp 9"]) | st.builds(
    "{} {}.{}".format, st.sampled_from(["", "mlp", "cross"]), NUMBER, NUMBER
)
HEAD = st.tuples(NUMBER, NUMBER, st.sampled_from(get_args(Side)), st.sampled_from(get_args(Kind)))
PATH = st.tuples(COMPONENT, HEAD | HEAD.map(lambda head: head[:3]))
FACTOR = st.sampled_from([2, 0.5, -1, 0, 1 / 3, 1e-30]) | st.floats(allow_nan=False, allow_infinity=False)
MASK = st.builds(
    lambda word, number: f"{word} {number + 1}" if MASKS[word].number else word, st.sampled_from(list(MASKS)), NUMBER
)
ANY_CHANGE = st.one_of(
    st.builds(lambda place: Edits(mute_heads={place}), PLACE),
    st.builds(lambda place, text: Edits(mean_heads={place}, mean_over=text), PLACE, TEXT),
    st.builds(lambda place, text: Edits(patch_heads={place}, patch_from=text), PLACE, TEXT),
    st.builds(lambda at, by: Edits(scale_by={at: by}), PLACE, FACTOR),
    st.builds(lambda at, word: Edits(softmax={at: word}), PLACE, st.sampled_from(list(SOFTMAXES))),
    st.builds(lambda at, word: Edits(pattern={at: word}), PLACE, st.sampled_from(list(PATTERNS))),
    st.builds(lambda at, word: Edits(mask={at: word}), PLACE, MASK),
    st.builds(lambda at: Edits(pattern={at: {10: {2: 0.75, 3: 0.25}, 0: {0: 1}}}), PLACE),
    st.builds(lambda at, keys: Edits(block_keys={at: keys}), PLACE, st.sets(NUMBER | st.integers(0, 9), min_size=1)),
    st.builds(lambda at, query, key: Edits(block_pairs={at: {(query, key)}}), PLACE, NUMBER, NUMBER),
    st.builds(lambda at, one, two: Edits(pattern={at: {one: {two: 1.0}, two: {one: 1.0}}}), PLACE, NUMBER, NUMBER),
    st.builds(lambda position, text: Edits(replace_tokens={position: text}), NUMBER, TEXT),
    st.builds(lambda path, cut: Edits(cut_paths={path: cut}), PATH, st.sampled_from(["zero", "mean"])),
    st.builds(lambda path, text: Edits(cut_paths={path: "patch"}, patch_from=text), PATH, TEXT),
)


@given(ANY_CHANGE, st.sampled_from([" ", "  ", "\t", "\u3000", "\n"]))
def test_whatever_can_be_said_is_read_back(edits, blank):
    (words,) = lines_of(edits)
    assert edits_of(f"{blank}{words}{blank}") == edits


def test_lines_mean_what_they_say():
    for words, edits in PROMISED.items():
        assert edits_of(words) == edits, words
        assert lines_of(edits) == (words,)
    assert edits_of('token 3 "\\ud83d\\ude00"') == Edits(replace_tokens={3: "😀"})


def test_many_changes_are_a_line_each_and_together_the_same():
    together = Edits(
        mute_heads={0, (5, 11)},
        mean_heads={(1, 2), 3},
        mean_over="one",
        patch_heads={(4, 4)},
        patch_from="two",
        scale_by={None: 2, 5: 0.25},
        softmax="hardmax",
        mask={2: "causal", (2, 3): "window 7"},
        block_keys={None: {0, 4}, 5: {1}},
        block_pairs={(10, 2), (3, 3)},
        pattern={5: "first", (5, 1): {2: {0: 0.5, 1: 0.5}}},
        replace_tokens={1: "a", 4: " at 5"},
        cut_paths={("0.1", (2, 0, "key")): "zero", ("mlp 0", (2, 0, "key")): "patch"},
    )
    lines = lines_of(together)
    assert len(lines) == len(set(lines)) == 20
    assert {edit.keyword for edit in together.each} | together.texts.keys() == {*signature(Edits).parameters}
    assert every(map(edits_of, lines)) == together
    assert lines_of(Edits()) == ()


def test_painted_cells_without_a_share_have_equal_ones():
    words = painting(Place(5, 11), {3: {0: None, 7: None, 2: None}, 1: {1: 1.0}})
    assert words == "paint 1>1=1 3>0 3>2 3>7 at 5.11"
    assert painted(words) == (Place(5, 11), {1: {1: 1.0}, 3: {0: None, 2: None, 7: None}})
    assert edits_of(words) == Edits(pattern={(5, 11): {1: {1: 1}, 3: {0: 1 / 3, 2: 1 / 3, 7: 1 / 3}}})
    assert painted("mute 3") is painted("") is painted("pattern first at 3") is None


def test_a_painted_row_is_divided_by_its_sum_where_that_puts_it_right():
    assert divided("paint 1>0=1 1>2=3 2>2=1 at 5") == "paint 1>0=0.25 1>2=0.75 2>2=1 at 5"
    assert divided("paint 1>0=1 1>2") == "paint 1>0=0.6666666667 1>2=0.3333333333"
    for hopeless in (
        *("paint 1>0=0", "paint 1>0=-1 1>1=3", "paint 1>0=1e999", "paint 1>0=1e308 1>1=1e308", "paint x", "mute 3"),
        *("paint 1>0=2 at 5.²", "paint 1>0=1 1>1=-1"),
    ):
        assert divided(hopeless) is None, hopeless


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("erase 5", "mute, mean, patch, scale, softmax, mask, block, pattern, paint, cut, token"),
        ("mute five", "a layer and a head such as 5.11"),
        ("mute 5 at 3", "“mute 23.4”"),  # which of the two would it be?
        ('token 3 "dog" at 5', '“token 3 "dog"”'),
        ("scale much", "“scale 2 at 5”"),
        ("scale 2 at nowhere 5", "a layer such as 5"),
        ("block pair 3", "Write it as in “block pair 10>2 at 5.11”."),
        ("block 23.4 4>3", "cannot be read as a change. Write it as in “block pair 10>2 at 5.11”."),
        ("block 3 at 23.4", "Write it as in “block key 3 at 5.11”."),
        ("mute", "Write it as in “mute 23.4”."),
        ("mask 23.4 window 4", "Write it as in “mask window 4 at 5”."),
        ("softmax 23.4 hardmax", "Write it as in “softmax hardmax at 5”."),
        ("pattern 23.4 previous", "Write it as in “pattern previous at 5.11”."),
        ("block key -1", "tokens count from 0"),
        ("paint 1-2", "“paint 10>2=0.7 10>3=0.3 at 5.11”"),
        ("block key 5-3", "“block key 3"),
        ("block key 0-99999999999999", "at most 20,000 keys, and this one 100,000,000,000,000"),
        ("cut 16.0 from the key of 18.6 at 5", "“cut 16.0 from the key of 18.6”"),
        ("cut 16.0 from the key of 18", '("16.0", (18, 6, "key"))'),
        ("cut 16.0 from the score of 18.6", "query, key, value"),
        ("token 3 dog", '“token 3 "dog"”'),
        ("mean 5 over a text", '“mean 23.4 over "a text"”'),
        *((f'{line} "\\ud800"', "") for line in ("token 3", "mean 5 over", "patch 5 from")),  # half a surrogate
        ("scale 1e999", "a finite number"),
    ],
)
def test_a_bad_line_is_told_what_is_allowed(words, named):
    with pytest.raises(InputError) as refused:
        edits_of(words)
    assert named in str(refused.value)


NUMBERS = (
    *("0", "3", "-1", "+3", "1_0", "1.5", "²", "٣", "½", "Ⅷ", "nan", "inf", "-inf", "1e999", "1e-999", "0x10", "0b1"),
    *("9" * 30, "9" * 5000, "", " ", "\n", "\x00", "--", ".", "5.", ".5", "1e", "e", "٣.٣", "²>²", "NaN", "∞", "1,5"),
)
PARTS = (
    *("mute", "mean", "patch", "scale", "softmax", "mask", "block", "pattern", "paint", "token", "off", "at", "over"),
    *("cut", "the", "of", "embedding", "mlp 0", "0.1 from the key of 1.2", "value"),
    *("from", "key", "pair", "all", "cross", "window", "blocks", "prefix", "padding", "causal-window", "first", "none"),
    *('""', '"', '"dog"', '"\\ud800"', '"\\u0000"', '"a\nb"', "'dog'", "\\", ">", "=", "1>2=1", "1>2", "0>0=1", "3.4"),
    *("1>2=1e999", "1>2=-1e999", "1>2=-1", "1>2=nan", "at 5", "at 5.", " at at", "\t", "😀", "\ud800", *NUMBERS),
)


WITH_NUMBER = (
    *("mute {}", "mute 5.{}", "mute {0}.{0}", "scale {}", "scale 2 at {}", "softmax {}", "pattern first at {}"),
    *("block key {}", "block key 0-{}", "block key {} 3", "block key {}-9", "block pair {}>1", "block pair 1>{}"),
    *("paint {}>1=1", "paint 1>{}=1", "paint 1>1={}", "paint 1>1=1 at {}", 'token {} "dog"', 'mean {} over "x"'),
    *("mask window {}", "mask blocks {}", "mask prefix {}", "mask padding {}", 'patch {} from "x"'),
    *("cut {} from the key of 1.0", "cut 0.{} mean from the key of 1.0", "cut 0.0 from the {} of 1.0"),
    *("cut 0.0 from the key of {}.0", "cut mlp {} from the", 'cut 0.0 from the key of 1.{} as in "6 7 8 9 5"'),
    'cut {} from the key of 1.0 as in "5"',
)


def hostile_lines():
    yield from (line.format(number) for number in NUMBERS for line in WITH_NUMBER)
    chance = random.Random(0)
    for _ in range(4000):
        yield chance.choice(["", " ", "  "]).join(chance.choices(PARTS, k=chance.randint(0, 6)))


def test_no_line_whatsoever_raises_anything_but_an_input_error():
    """And what can be read can be said, and done."""
    model, text = tiny_model("BERT"), "5 6 7 8 9"
    taken = capture(model, text)
    kept = set()
    for words in hostile_lines():
        for read in (painted, divided):
            try:
                read(words)
            except InputError:
                assert read is painted
        with suppress(InputError):
            edits = edits_of(words)
            assert every(map(edits_of, lines_of(edits))) == edits, words
            check_edits(taken, edits)
            kept.add(edits)
    assert len(kept) > 40
    for edits in kept:
        capture(model, text, edits=edits)


def test_a_line_has_a_limit_that_the_longest_texts_keep():
    longest = 'mean 23.4 over "' + "a" * (MAX_LINE - 17) + '"'
    assert len(longest) == MAX_LINE >= 20_000  # letters in the address of a view that a talk holds
    assert edits_of(longest).texts["mean_over"] == "a" * (MAX_LINE - 17)
    for read in (edits_of, painted):
        with refused("edits", "at most 20,000 characters, and this one has 20,001"):
            read(longest + " ")
    assert divided(longest + " ") is None


def test_a_line_paints_as_many_cells_as_anybody_paints():
    most = "paint " + " ".join(f"0>{key}={1 / MAX_CELLS}" for key in range(MAX_CELLS))
    assert len(edits_of(most).each[0].value[0][1]) == MAX_CELLS
    with refused("edits", "at most 500 cells, and this one 501"):
        edits_of(f"{most} 1>1=1")


def test_a_message_shows_the_beginning_of_what_was_wrong():
    for verb in ("", "mute ", "mask ", "softmax ", "pattern ", "paint "):
        with pytest.raises(InputError, match="xxx…") as refused:
            edits_of(verb + "x" * 9_000)
        assert len(str(refused.value)) < 300, verb


def test_a_mask_reaches_as_far_as_it_likes():
    """Python reads no number of more than 4,300 digits."""
    for digits in ("9" * 5_000, "0" * 5_000 + "4"):
        assert edits_of(f"mask window {digits}").each[0].value == f"window {digits}"


@pytest.mark.parametrize("kind", EDIT_KINDS)
def test_a_kind_parses_what_it_prints_and_what_its_form_offers(kind):
    edits = edits_of(kind.example)
    assert [type(edit) for edit in edits.each] == [kind]
    assert kind.example.startswith(f"{kind.verb} ")
    assert lines_of(edits) == (kind.example,)
    for field in kind.fields[:1]:
        for word in field.choices if isinstance(field, forms.ChoiceField) else ():
            words = f"{word} {field.then[word].high}" if word in field.then else word
            (edit,) = edits_of(kind.line_of_form([words], Place(5, 11, "cross"))).each
            assert (type(edit), edit.at) == (kind, Place(5, 11, "cross"))


def test_no_two_kinds_look_the_same():
    for words in ([kind.verb for kind in EDIT_KINDS], [kind.label for kind in EDIT_KINDS if kind.label]):
        assert len(set(words)) == len(words)
