"""Components in files: attribution of an opened pass against that of the pass that was saved."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from core import (
    Edits,
    InputError,
    capture,
    cosine_attribution,
    load_model,
    logit_attribution,
    open_capture,
    score_attribution,
)
from core.captures import opening
from core.captures.__main__ import main
from core.capturing.components import kept as kept_components
from core.heads.attribution import contributions_by_key, direct_contributions, logit
from core.heads.paths import follow, read_hops
from tests.core.captures.test_opening import TEXT, changed
from tests.core.tiny_models import number_words, randomised, tiny


def taken(name, dtype="float32", edits=None):
    model = load_model(randomised(tiny(name)).to(getattr(torch, dtype)), tokenizer=number_words())
    target = {"target": [3, 4, 5]} if model.is_encoder_decoder else {}
    return capture(model, TEXT, components=True, edits=edits, **target)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "pass.safetensors"


def alike(one, other, rounding=1e-6):
    """The same number to the last bit, and the same contributions up to rounding: their sums are made in another order."""
    assert other.number == one.number
    assert other.holds
    assert one["component"].tolist() == other["component"].tolist()
    ours, theirs = (table["contribution"].to_numpy() for table in (one, other))
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=rounding * max(1, np.abs(ours).sum()))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["BERT", "Llama", "T5", "Gemma 2", "gpt-oss", "Marian"])
def test_attribution_of_an_opened_pass_is_that_of_the_pass(name, dtype, file):
    saved = taken(name, dtype, None if name == "BERT" else Edits(mute_heads={(0, 1)}, scale_by={(1, 2): 2.0}))
    with torch.no_grad():
        saved.save(file)
    opened, rounding = open_capture(file), 1e-6 if dtype == "float32" else 0.02
    if saved.logits is None:
        alike(cosine_attribution(saved, saved), cosine_attribution(opened, opened), rounding)
    else:
        for against in (None, "mean", 9 if name == "T5" else 7):
            alike(logit_attribution(saved, None, against), logit_attribution(opened, None, against), rounding)
    for kind in saved.kinds:
        place = (1, 2, 2, 0 if kind == "cross" else 1)
        ours, theirs = (score_attribution(one, *place, kind=kind) for one in (saved, opened))
        alike(ours.by_query, theirs.by_query, rounding)
        alike(ours.by_key, theirs.by_key, rounding)
        if dtype == "float32":
            theirs = theirs.table.reindex(ours.table.index)[ours.table.columns]
            np.testing.assert_allclose(theirs, ours.table, rtol=0, atol=1e-6 * max(1, np.abs(ours.table).sum().sum()))
    if dtype == "float32":
        ours, theirs = (direct_contributions(one)["contribution"] for one in (saved, opened))
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5)
    again = file.with_name("again.safetensors")
    opened.save(again)
    assert again.read_bytes() == file.read_bytes()
    assert main(["check", str(file)]) == 0


def test_a_path_along_named_tokens_has_the_same_stops(file):
    saved = taken("Llama")
    saved.save(file)
    opened = open_capture(file)
    hops = read_hops("1.2>3, key 0.1>0")
    ours, theirs = (follow(one, hops, logit_attribution(one), logit(one)).stops for one in (saved, opened))
    for one, other in zip(ours, theirs, strict=True):
        assert (one.query, one.key, one.score) == (other.query, other.key, other.score)
        assert other.gave == pytest.approx(one.gave, abs=1e-6)
        alike(one.of_key, other.of_key)
        assert other.is_weights
        weights = saved.trace(one.hop.layer, one.hop.head).weights[one.query]
        np.testing.assert_allclose(other.by_token, weights, atol=1e-6)
        assert not one.is_weights
    begun = [follow(one, read_hops("score 1.2@5>3")).stops[0].score for one in (saved, opened)]
    assert begun[0] == begun[1]


def test_scores_of_chosen_heads_and_what_the_file_does_not_hold(file):
    saved = taken("Llama")
    sizes = []
    for scores in (None, [1], [(1, 2)], []):
        saved.save(file, scores)
        sizes.append(file.stat().st_size)
    assert sizes == sorted(sizes, reverse=True)
    saved.save(file, [(1, 2)])
    opened = open_capture(file)
    alike(score_attribution(saved, 1, 2, 5, 1).by_key, score_attribution(opened, 1, 2, 5, 1).by_key)
    rare = int(np.argmin(saved.logits))
    needing = {
        "scores of head 1.0": lambda: score_attribution(opened, 1, 0, 5, 1),
        "passed on from each token needs the model": lambda: contributions_by_key(opened, logit(opened), 1, 2),
        "at another position than the last needs the model": lambda: logit_attribution(opened, position=0),
        "keeps no components": lambda: logit_attribution(replace(opened, components=None)),
    }
    for words, need in needing.items():
        with pytest.raises(InputError, match=words) as error:
            need()
        assert error.value.field == "model"
    assert rare in (opened.components.readout.tokens or ())  # of a vocabulary of 64 all are among the best 100
    with pytest.raises(InputError, match="There is no token 64"):
        logit_attribution(opened, 64)
    for places in ([(9, 0)], [(0, 9)]):
        with pytest.raises(InputError, match="There is no"):
            saved.save(file, places)


def test_scores_of_more_heads_than_a_file_holds_are_refused(file, monkeypatch):
    passed = taken("Llama")
    monkeypatch.setattr(kept_components, "MOST_BYTES", 10_000)
    with pytest.raises(InputError, match=r"scores of these 8 heads .* Name heads"):
        passed.save(file)
    assert not file.exists()
    passed.save(file, scores=[(1, 2)])


def test_a_head_into_which_a_path_is_cut_is_left_out(file):
    saved = taken("Llama", edits=Edits(cut_paths={("0.1", (1, 2, "key")): "zero"}))
    saved.save(file)
    opened = open_capture(file)
    with pytest.raises(InputError, match=r"scores of head 1\.2"):
        score_attribution(opened, 1, 2, 5, 1)
    alike(score_attribution(saved, 1, 3, 5, 1).by_key, score_attribution(opened, 1, 3, 5, 1).by_key)


def test_what_components_gave_grows_with_the_text_and_not_with_its_square(file, smollm):
    sizes = []
    for words in (4, 8, 12):
        capture(smollm, " one" * words, components=True).save(file, [(2, 3)])
        arrays = load_file(file)
        sizes.append(sum(array.nbytes for name, array in arrays.items() if name.startswith("components.self.")))
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0]
    opened = open_capture(file)
    with pytest.raises(InputError, match="the 100 most probable next tokens, and token 0 is not"):
        logit_attribution(opened, 0)


# --- files that somebody has changed


@pytest.mark.parametrize("name", ["Llama", "BERT", "Marian"])
def test_one_changed_number_is_refused_or_turns_a_sum_red(name, file, capsys):
    taken(name).save(file, [(1, 2)])
    names = [array for array in load_file(file) if array.startswith("components.") and not array.endswith(".parts")]
    assert len(names) >= 4
    for array in names:
        taken(name).save(file, [(1, 2)])

        def change(arrays, _, array=array):
            arrays[array].view(-1)[3] += 1

        assert main(["check", str(changed(file, change))]) == 1, array
        said = capsys.readouterr().out
        assert "does not add up to" in said or "do not give its logits" in said or "components" in said


def test_a_changed_vector_turns_the_attribution_red(file):
    taken("Llama").save(file)

    def change(arrays, _):
        arrays["components.self.1.key.1"][3, 2] += 1

    opened = open_capture(changed(file, change))
    assert not score_attribution(opened, 1, 2, 5, 3).by_key.holds
    assert score_attribution(opened, 1, 2, 5, 3).by_query.holds


def _array(name, of):
    def change(arrays, _):
        arrays[f"components.{name}"] = of(arrays[f"components.{name}"])

    return change


def _said(name, to):
    def change(_, content):
        content["components"][name] = to(content["components"][name])
        return content

    return change


CHANGES = {
    "NaN": (_array("self.1.key.1", lambda array: array * torch.nan), "holds NaN"),
    "too large": (_array("self.1.key.1", lambda array: array * 0 + 1e29), "is too large"),
    "tokens left out": (_array("self.1.key.1", lambda array: array[1:].clone()), "does not fit it"),
    "another size": (_array("self.1.key.1", lambda array: array[..., :-1].clone()), "does not fit it"),
    "flat": (_array("self.1.key.1", lambda array: array.flatten()), "not 3 dimensions"),
    "whole numbers": (_array("self.1.key.1", lambda array: array.int()), "holds int32"),
    "one component twice": (_array("self.1.key.1.parts", lambda array: array * 0), "does not fit it"),
    "components beyond": (_array("self.1.key.1.parts", lambda array: array + 90), "that are not there"),
    "components below 0": (_array("self.1.key.1.parts", lambda array: array - 9), "not from 0 to 2,147,483,647"),
    "names of components": (_array("self.1.key.1.parts", lambda array: array.double()), "holds float64"),
    "positions": (_array("final.whole", lambda array: array.repeat(2, 1)), "does not fit it"),
    "no tokens": (_array("tokens", lambda array: array[:0].clone()), "at least 1"),
    "tokens beyond": (_array("tokens", lambda array: array + 60), "not from 0 to 63"),
    "fewer rows": (_array("weight", lambda array: array[1:].clone()), "do not fit its tokens"),
    "large rows": (_array("weight", lambda array: array * 0 + 1e29), "are too large"),
    "other rows": (_array("weight", lambda array: array.flip(0)), "do not give its logits"),
    "another factor": (_said("factor", lambda _: 2.0), "do not give its logits"),
    "a factor in words": (_said("factor", lambda _: "1"), "factor is not a number"),
    "no components": (_said("each", lambda _: []), "not a list of 1 to"),
    "too many": (_said("each", lambda each: each * 20_000), "not a list of 1 to"),
    "the same twice": (_said("each", lambda each: [*each[:-1], each[0]]), "twice"),
    "a role that is none": (_said("each", lambda each: [["soul", "", 0, None], *each[1:]]), "no network has"),
    "a layer below 0": (_said("each", lambda each: [["mlp", "", -1, None], *each[1:]]), "no network has"),
    "markup": (_said("each", lambda each: [["mlp", "<b>", 0, None], *each[1:]]), "no network has"),
    "no list": (_said("each", lambda _: [5]), "no network has"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_damaged_components_are_refused_in_words(case, file):
    change, message = CHANGES[case]
    taken("Llama").save(file)
    with pytest.raises(InputError, match="cannot be opened") as error:
        open_capture(changed(file, change))
    assert error.value.field == "file"
    assert message in str(error.value)


def test_more_vectors_than_python_can_list_are_refused(file, monkeypatch):
    taken("Llama").save(file)
    monkeypatch.setattr(opening, "MAX_GIVEN", 10)
    with pytest.raises(InputError, match="to more than 10 vectors"):
        open_capture(file)
