"""The page Head: every number of the card is what core gives for the same head, text and passages."""

import re
from dataclasses import replace

import numpy as np
import pytest

from core import capture, cosine_attribution, head_effects, logit_attribution, score_attribution
from core.claims import checking, known
from core.claims.checking import check_claims
from core.claims.claim import Claim
from core.corpus.opened import open_run
from core.heads.attribution import main_reason
from core.heads.examples import WIDE
from core.heads.likeness import heads_like, random_pairs_divergence
from tests.core.corpus.made_runs import made_run
from tests.core.tiny_models import tiny
from tests.depth import thorough
from tests.pages.app import FRANCE, MINILM, SMOLLM, drawn, links, opened, press, words
from tests.ui.sharing.test_as_python import View, run_lines
from ui import progress, state
from ui.views.claims import results as claims_results
from ui.views.head_card import page as card
from ui.views.sources.text_fields import SENTENCE
from ui.views.why.page import signed


def said_of(model: str = MINILM, text: str = SENTENCE, **said: object) -> str:
    return words(opened("head", model=model, text=text, **said)).replace("**", "")


def of_one(table, layer: int, head: int, name: str) -> float:
    return table.loc[(table["layer"] == layer) & (table["head"] == head), name].item()


def test_each_number_on_this_text_is_that_of_core(minilm):
    app = opened("head", model=MINILM, text=SENTENCE)
    said, taken = words(app).replace("**", ""), capture(minilm, SENTENCE, components=True)
    weights = taken.trace(5, 11).weights
    np.testing.assert_allclose(drawn(app, "head"), weights, atol=1e-6)
    assert f"Head 5.11 gives {weights[10, 2]:.1%} from “it” to “animal”." in said
    score = score_attribution(taken, 5, 11, 10, 2)
    key, query = main_reason(score.by_key), main_reason(score.by_query)
    assert f"Reads: {score.score:.2f} above the mean score of the other keys: " in said
    assert key is not None
    assert query is not None
    assert (key.component, query.component) == ("embedding", "mlp 4")
    assert f"key from the embedding, {key.gave:.2f}; query from MLP 4, {query.gave:.2f}" in said
    assert f"{score.by_key.sources} components, which add up to within" in said
    alike = cosine_attribution(taken, capture(minilm, WIDE))
    written = of_one(alike, 5, 11, "contribution")
    assert f"Writes: {signed(written)} to the {alike.number:.2f} of the cosine with “{WIDE}”" in said
    (to_why,) = links(app, label="Why this answer?")
    asked = opened("why", **{name: of[0] for name, of in to_why.items()})
    assert f"The cosine with “{WIDE}” is {alike.number:.2f}" in words(asked).replace("**", "")
    np.testing.assert_allclose(drawn(asked, "components")[5, 11], written, rtol=1e-5)
    effect = of_one(head_effects(minilm, SENTENCE), 5, 11, "effect")
    assert f"Muted: {effect:.3f} turn of the sentence vector" in said
    like, pairs = heads_like([taken], 5, 11), random_pairs_divergence(taken)
    for layer, head in like[["layer", "head"]].head(3).to_numpy().tolist():
        assert f" to {layer}.{head}" in said
    assert f"Like it: {like['divergence'][0]:.3f} nats to {like['layer'][0]}.{like['head'][0]}, " in said
    assert f"two random heads {pairs.mean:.3f} ({pairs.low:.3f} to {pairs.high:.3f})" in said
    (why,), (mute,), (compare,) = (links(app, label=label) for label in ("Why this weight?", "Mute it", "Compare"))
    assert why[state.PATH] == ["score 5.11@10>2"]
    assert mute[state.EDITS] == ["mute 5.11"]
    assert (compare[state.VIEW], compare[state.HEAD]) == (["compare"], ["11"])
    claims = {tuple(link[state.CLAIMS][0].splitlines()) for link in links(app, label="Claims")}
    assert claims == {tuple(str(replace(claim, head="5.11")) for claim in known.known_claims())}


@thorough
def test_known_claims_are_tested_on_the_head_itself(minilm, claims_of_few_texts):
    claims_of_few_texts(MINILM)
    claims = [Claim("0.2", claim.when, claim.keys, claim.least) for claim in known.known_claims()]
    table = check_claims(minilm, claims, claims_results.included_texts())
    row = table.iloc[0]
    assert row["verdict"] == "holds"
    said = said_of(layer=0, head=2)
    share = f"{row['share']:.1%} ({row['low']:.1%} to {row['high']:.1%})"
    assert f"Claim holds: {share} “{claims[0]}”" in said
    on = f"{row['queries']} queries in {row['passages']} included passages, half for testing"
    assert f"{on}; chance {row['null']:.1%}" in said
    assert "In general" not in said  # the claim that it follows most holds
    other = said_of(layer=5, head=11)
    assert "No known claim holds for this head." in other
    assert re.search(r"^14 claims$", other, re.MULTILINE)
    assert "Claim holds" not in other
    assert re.search(r"In general: \d+\.\d% \(.*\) special tokens", other)


@thorough
def test_a_head_of_a_model_that_writes(smollm):
    said = said_of(SMOLLM, FRANCE, layer=23, head=4)
    taken = capture(smollm, FRANCE, components=True)
    first, second = (-taken.logits).argsort()[:2]
    table, other = logit_attribution(taken, int(first), int(second)), smollm.tokenizer.decode([second])
    written = of_one(table, 23, 4, "contribution")
    than = other.replace(" ", "·")
    to = f"{table.number:.2f} by which the logit of “·Paris” is above that of “{than}”"
    assert f"Writes: {written:.2f} to the {to}" in said
    asked = words(opened("why", model=SMOLLM, text=FRANCE)).replace("**", "")
    assert f"The logit of “·Paris” is {table.number:.2f} above that of “{than}”" in asked
    assert "Muted: 77.2% → 14.1% for “·Paris” as the next token" in said.replace("77.3%", "77.2%")


@thorough
@pytest.mark.usefixtures("claims_of_few_texts")
def test_what_is_not_tested_to_its_end_says_so_and_goes_on(monkeypatch):
    monkeypatch.setattr(progress, "TRIAL", 0)
    monkeypatch.setattr(progress, "LONG", 0)
    app = opened("head", model=MINILM, text=SENTENCE)
    assert "None holds so far." in words(app)
    assert "No known claim" not in words(app)
    assert re.search(r"14 claims, included passages \(the first \d of \d\d\)", words(app))
    assert "In general" not in words(app)  # of so few passages
    app = press(app, "Continue")
    assert "No known claim holds for this head." in words(app)
    assert "In general" in words(app)


def test_what_was_measured_before_stands_there_at_once(minilm, monkeypatch):
    """No passage is read for it."""
    monkeypatch.setattr(checking, "add_passage", None)
    for head, row in known.measured(minilm.revision).groupby("head").first().loc[["0.2", "1.8", "5.11"]].iterrows():
        layer, number = head.split(".")
        said = said_of(layer=layer, head=number)
        about = "Claim holds" if row["verdict"] == "holds" else "In general"
        assert f"{about}: {row['share']:.1%} ({row['low']:.1%} to {row['high']:.1%}) " in said
        assert ("No known claim holds for this head." in said) == (row["verdict"] != "holds")


def test_a_corpus_run_with_claims_says_which_hold_and_of_which_texts(minilm, tmp_path, monkeypatch):
    texts = [passage.text for passage in known.included_texts() if not isinstance(passage, str)]
    run = open_run(made_run(tmp_path / "sentences", minilm, sentences=tuple(texts[:24])))
    monkeypatch.setattr(card, "corpora", lambda: tmp_path)
    row = run.claims.iloc[0]
    assert (row["head"], row["verdict"]) == ("0.2", "holds")
    said = said_of(layer=0, head=2)
    share = f"{row['share']:.1%} ({row['low']:.1%} to {row['high']:.1%})"
    assert f"Claim holds: {share} “0.2: looks at the previous token, at least 0.5”" in said
    assert f"{row['queries']} queries in {row['passages']} of 24 passages of the run sentences, half for test" in said
    assert said.count("Claim holds") == 2  # that of the run, and a known one, which speaks of fewer queries
    said = said_of(layer=5, head=11)
    assert "No known claim holds" in said
    assert "of the run" not in said
    (tmp_path / "sentences" / "claims.parquet").write_bytes(b"?")
    assert "of the run" not in said_of(layer=0, head=2)  # it is damaged: the page Corpus says so


@thorough
def test_what_a_model_cannot_say_is_said_in_its_line(tmp_path):
    said = said_of("written-dates", "the 3rd of march 1987", kind="cross")
    assert "Known claims: Not tested. They are about encoder attention." in said
    assert "Reads: " in said
    assert said.count("The model writes") == 1
    said = said_of("written-dates", "the 3rd of march 1987", kind="encoder")
    assert "Writes: Nothing into the answer itself" in said
    tiny("Llama").save_pretrained(tmp_path)
    assert "tokenizer" in said_of(str(tmp_path))


def test_its_lines_give_the_picture(tmp_path):
    view = View("head", **{state.MODEL: MINILM, state.TEXT: SENTENCE})
    figure = run_lines(view.lines, tmp_path)["results"][0]
    values = next(trace for trace in figure["data"] if trace["type"] == "heatmap")["z"]
    np.testing.assert_allclose(np.asarray(values, float), view.drawn("head"), atol=1e-6)
