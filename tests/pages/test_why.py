"""The page "Why": its numbers are those of core and of the model's own output, and what cannot be followed is said."""

import numpy as np
import pytest

from core import Edits, capture, logit_lens, score_attribution
from core.capturing.sampling import next_probabilities
from core.heads.attribution import cosine, cosine_attribution, logit_attribution
from core.heads.paths import Hop, follow, read_hops
from tests.browser.addresses import SENTENCE
from tests.depth import thorough
from tests.pages.app import FRANCE, MINILM, SMOLLM, drawn, go, opened, words
from ui import state
from ui.views.why.page import _ranks_first

OPEN = {state.MODEL: SMOLLM, state.ANSWER: " Paris", state.RATHER_THAN: " Rome"}


def logits_of(taken, *texts: str) -> list[float]:
    return [float(taken.logits[taken.model.tokenizer(text)["input_ids"][0]]) for text in texts]


def test_the_answer_and_its_cut_are_what_the_model_gives(smollm):
    """Only this test finds a page whose difference of logits, before or after a cut, is not the model's own."""
    said = words(opened("why", **OPEN, cuts="0"))
    plain, muted = (capture(smollm, FRANCE, edits=edits) for edits in (None, Edits(mute_heads={(23, 4)})))
    (paris, rome), (paris_after, rome_after) = (logits_of(taken, " Paris", " Rome") for taken in (plain, muted))
    assert f"is **{paris - rome:.2f}** above that of “·Rome”" in said
    assert f"{paris - rome:.2f} → **{paris_after - rome_after:.2f}**; predicted 4.30" in said
    badge = f"contributions add up to {paris - rome:.2f}, and the number is {paris - rome:.2f}"
    assert badge in words(opened("why", **OPEN))
    token = smollm.tokenizer(" Paris")["input_ids"][0]
    before, after = (next_probabilities(taken.logits)[token] for taken in (plain, muted))
    assert f"comes next: {before:.1%} → {after:.1%}" in said


@thorough
def test_a_path_in_the_address_is_the_one_that_is_followed(smollm):
    said = {state.TEXT: "seven green doors and a cold river seven green", state.MODEL: SMOLLM, state.ANSWER: " doors"}
    app = opened("why", **said, path="18.6>2, key 16.0>1", stop="1", cuts="1")
    taken = capture(smollm, said[state.TEXT], components=True)
    row = taken.trace(18, 6).scaled[8]
    score = row[2] - np.delete(row, 2).mean()
    table = score_attribution(taken, 18, 6, 8, 2).by_key.set_index("component")["contribution"]
    scored = f"Head 18.6 scored “·doors” **{score:.2f}** above the mean of the other keys"
    assert f"{scored}: head 16.0 adds most, {table['16.0']:.2f}" in words(app)
    cut = capture(smollm, said[state.TEXT], edits=Edits(cut_paths={("16.0", (18, 6, "key")): "zero"}))
    row = cut.trace(18, 6).scaled[8]
    after = row[2] - np.delete(row, 2).mean()
    assert f"{score:.2f} → **{after:.2f}**".replace("-", "−") in words(app)
    assert f"predicted {score - table['16.0']:.2f}" in words(app)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"path": "16.0 of nothing"}, "is not a hop of a path"),
        ({"path": "key 16.0"}, "the first hop, alone, leads to the answer"),
        ({"path": "99.0"}, "There is no head 99.0"),
        ({"path": ",".join(["23.4"] * 7)}, "at most 6 hops"),
        ({"path": "23.4>9"}, "There is no key 9"),
        ({state.RATHER_THAN: " Paris"}, "compared with itself"),
        ({"cuts": "0", state.CUT_TO: "The capital of Italy was Turin"}, "Patching needs two texts of as many tokens"),
    ],
)
def test_what_cannot_be_followed_is_said(asked, complaint):
    assert complaint in words(opened("why", **OPEN | asked))


def test_one_token_of_a_longer_word_is_the_answer(smollm):
    numbers = smollm.tokenizer(" Ouagadougou")["input_ids"]
    logits = capture(smollm, FRANCE).logits
    rome = smollm.tokenizer(" Rome")["input_ids"][0]
    for piece in (0, 1):
        asked = OPEN | {state.ANSWER: "Ouagadougou", "answer_piece": str(piece)}
        said = words(opened("why", **asked)).replace("−", "-")
        number = logits[numbers[piece]] - logits[rome]
        assert f"is **{abs(number):.2f}** {'above' if number > 0 else 'below'} that of “·Rome”" in said


@thorough
def test_a_cut_can_leave_what_another_text_has(smollm):
    other = "The capital of Italy is"
    asked = OPEN | {"path": "23.4>3, key 22.3", "cuts": ["0", "1"], state.CUT_TO: other}
    said = words(opened("why", **asked)).replace("−", "-")
    both = Edits(patch_heads={(23, 4)}, patch_from=other, cut_paths={("22.3", (23, 4, "key")): "patch"})
    before, after = (capture(smollm, FRANCE, edits=edits) for edits in (None, both))
    (paris, rome), (paris_after, rome_after) = (logits_of(taken, " Paris", " Rome") for taken in (before, after))
    difference = f"the difference goes {paris - rome:.2f} → **{paris_after - rome_after:.2f}**."
    assert f"With 23.4 as in “{other}” {difference}" in said
    row = after.trace(23, 4).scaled[4]
    assert f"→ **{row[3] - np.delete(row, 3).mean():.2f}**." in said.partition("its score")[2]


def test_pairs_of_components_are_those_of_the_score(smollm):
    app = opened("why", **OPEN | {"path": "23.4>3", "stop": "1", "side": "pairs"})
    table = score_attribution(capture(smollm, FRANCE, components=True), 23, 4, 4, 3).table
    np.testing.assert_allclose(drawn(app, "pairs"), table.to_numpy(), atol=1e-3)
    inside = table.iloc[:-1, :-1].stack()
    of_query, of_key = (name.replace("mlp", "MLP") for name in inside.idxmax())
    assert f"{of_query} (query) × {of_key} (key) adds most, {inside.max():.2f}" in words(app)
    assert drawn(app, "strongest").sum() == pytest.approx(table.to_numpy().sum(), abs=1e-3)


def test_an_encoder_is_asked_for_a_cosine(minilm):
    text, like = "The cat sleeps.", "A dog runs."
    app = opened("why", **{state.MODEL: MINILM, state.TEXT: text, state.LIKE_TEXT: like})
    said = words(app)
    for page in ("heads", "why"):  # where the same is compared as before
        go(app, page)
    assert said == words(app)
    one, other = (capture(minilm, words).vectors.mean(axis=0) for words in (text, like))
    expected = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert f"The cosine with “A dog runs.” is **{expected:.2f}**" in said
    said = words(opened("why", **{state.MODEL: MINILM, state.TEXT: text, state.LIKE_TEXT: text}))
    assert "The cosine of this text with itself is **1.00**" in said


@pytest.mark.parametrize(
    ("said", "of_heads"),
    [
        ({state.RATHER_THAN: " the"}, True),
        ({state.RATHER_THAN: "the mean of all tokens"}, False),
        ({state.ANSWER: " Rome", state.RATHER_THAN: " Paris"}, False),
    ],
)
def test_the_largest_component_is_named_whatever_it_is(smollm, said, of_heads):
    said = OPEN | {state.TEXT: FRANCE} | said
    answer, than = (smollm.tokenizer(said[key])["input_ids"][0] for key in (state.ANSWER, state.RATHER_THAN))
    than = "mean" if "mean" in said[state.RATHER_THAN] else than
    table = logit_attribution(capture(smollm, said[state.TEXT], components=True), answer, than)
    gave = table.set_index("component")["contribution"] * np.sign(table.number)
    largest, does = gave.idxmax(), "adds most" if table.number > 0 else "lowers it most"
    name = largest.replace("mlp", "MLP") if "mlp" in largest else f"Head {largest}"
    told = words(opened("why", **said)).replace("−", "-")
    assert f"**{abs(table.number):.2f}** {'above' if table.number > 0 else 'below'} " in told
    assert f"{name} {does}: {gave.max() * np.sign(table.number):.2f}" in told
    heads = gave[[name for name in gave.index if "." in name]]
    assert (f"; of the heads, {heads.idxmax()} {does}: {heads.max():.2f}, read from" in told) == of_heads


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "does not rank first"),
        ([3], "ranks first only after the last layer"),
        ([2, 3], "ranks first from layer 1 on"),
        ([0, 1, 2, 3], "ranks first from the input on"),
        ([1, 3], "ranks first in 2 of 4 rows, also in the last one"),
        ([1, 2], "ranks first in 2 of 4 rows, not in the last one"),
    ],
)
def test_where_the_answer_ranks_first_in_the_lens(rows, told):
    assert _ranks_first(rows, ("input", "0", "1", "2")) == told


@thorough
def test_an_answer_that_ranks_first_early_and_late_is_not_said_to_do_so_only_in_the_end(smollm):
    lens = logit_lens(capture(smollm, SENTENCE), 1)
    end = lens[lens["position"] == lens["position"].max()]
    count = (end["token"] == end["token"].iloc[-1]).sum()
    said = words(opened("why", **{state.MODEL: SMOLLM, state.TEXT: SENTENCE, state.ANSWER_SHOWS: "lens"}))
    assert f"ranks first in {count} of 31 rows, also in the last one" in said


def test_hops_are_read_as_they_are_written():
    words = "18.6>2, key 16.0>1, query cross 2.1"
    assert ", ".join(map(str, read_hops(words))) == words
    assert read_hops("cross 1.2")[0] == Hop("answer", "cross", 1, 2)


def test_the_shares_by_token_add_up_to_the_head(minilm):
    """In an encoder a head writes at every token, and the stop is about the one at which it wrote most."""
    taken, other = capture(minilm, "The cat sleeps.", components=True), capture(minilm, "A dog runs.")
    answer, number = cosine_attribution(taken, other), cosine(taken, other)
    stop = follow(taken, None, answer, number).stops[0]
    assert 0 < stop.by_token.sum() <= stop.gave * 1.5
    assert stop.by_token.argmax() == stop.key


def test_a_path_that_begins_with_a_weight_needs_no_answer(minilm):
    said = {state.MODEL: MINILM, state.TEXT: SENTENCE, "path": "score 5.11@10>2, key 4.3"}
    app = words(opened("why", **said, stop="1", cuts="1"))
    of = score_attribution(capture(minilm, SENTENCE, components=True), 5, 11, 10, 2)
    gave = of.by_key.set_index("component")["contribution"]["4.3"]
    assert f"Head 5.11 scored “animal” **{of.score:.2f}** above the mean of the other keys" in app
    assert f"predicted {of.score - gave:.2f}".replace("-", "−") in app
    assert "needs a query and a key" in words(opened("why", **said | {"path": "score 5.11"}))


def test_what_a_head_wrote_into_a_key_came_from_the_token_before(smollm):
    taken = capture(smollm, "seven green doors and a cold river seven green", components=True)
    stop = follow(taken, read_hops("score 18.6@8>2, key 16.0")).stops[1]
    assert (stop.query, stop.key) == (2, 1)
    assert stop.by_token[1] > 0.9 * stop.by_token.sum() > 5
