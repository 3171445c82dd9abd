import html

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.figures.labels import escaped, thinned, visible

SHOWN = {" the": "·the", "the  ": "the··", "   ": "···", "\n\n": "⏎⏎", "a\tb": "a⇥b", "a b": "a b", "": "∅"}
SHOWN |= {"\u202eevil": "U+202Eevil", "\x00": "U+0000", "مرحبا": "مرحبا", "##ing": "##ing"}


def test_visible():
    assert {token: visible(token) for token in SHOWN} == SHOWN


@given(st.text(max_size=14))
def test_escaped_text_reads_as_the_visible_text_and_holds_no_markup(token):
    label = escaped(token)
    assert "<" not in label
    assert "$" not in label
    shown = visible(token)
    assert html.unescape(label) == (shown if len(shown) <= 14 else shown[:13] + "…")


@given(st.integers(1, 5_000), st.data())
def test_thinned_ticks_are_few_and_keep_the_pinned_one(count, data):
    keep = data.draw(st.integers(0, count - 1))
    places = thinned(count, keep, max_labels=40)
    assert keep in places
    assert len(places) <= 41
    assert places == sorted(set(places))
    assert min(np.diff(places), default=count) >= count / 40  # the kept one too has room beside it
    assert thinned(count, max_labels=40)[0] == 0
