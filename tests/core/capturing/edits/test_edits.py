"""Every kind of edit, on every kind of architecture, against a computation of the tests' own (naive_attention.py)."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertModel
from transformers.models.diffllama import modeling_diffllama

from core import Edits, Place, capture, head_effects, load_model
from core.attention import rowwise
from core.attention.rowwise import pool
from core.capturing.calls.rows import row_blocks
from core.capturing.capture import check_edits
from core.capturing.edits.edits import every
from core.capturing.edits.kinds import EDIT_KINDS, CutPath, Mean, Patch, ReplaceToken
from core.capturing.edits.lines import edits_of, lines_of
from core.errors import InputError
from core.heads.views import thumbnails
from core.models.calls import IMPLEMENTATIONS
from core.models.inputs import all_inputs, image_inputs
from tests.core.capturing.edits.test_lines import ANY_CHANGE
from tests.core.naive_attention import NAME, Naive, naive_pass
from tests.core.passes import assert_same_bits, every_head, tiny_model, tiny_pass
from tests.core.tiny_models import SMALL, eager, number_words, randomised, tiny, twin_of
from tests.hostile import processor_time
from tests.refusals import refused

TEXT = " ".join(map(str, np.random.default_rng(1).integers(3, 64, 11)))
OTHER = " ".join(map(str, np.random.default_rng(2).integers(3, 64, 11)))
LONGER = " ".join(map(str, np.random.default_rng(3).integers(3, 64, 15)))
WRITTEN = " ".join(map(str, np.random.default_rng(4).integers(3, 64, 6)))
PATCHED = {("0.1", (1, 0, "key")): "patch"}
MODELS = ("Llama", "BERT", "T5", "Gemma 2", "gpt-oss")
TOLERANCE = 2e-5


@cache
def model_and_twin(name: str):
    network = tiny(name)
    return load_model(network, tokenizer=number_words()), twin_of(network, NAME)


def naive(name: str, text: str = TEXT, changes=lambda *_: {}) -> Naive:
    model, twin = model_and_twin(name)
    target = {"target": WRITTEN} if model.is_encoder_decoder else {}
    return naive_pass(twin, all_inputs(model, text, **target), changes)


@cache
def plain_naive(name: str, text: str) -> Naive:
    return naive(name, text)


def captured(name: str, edits: Edits | None = None, text: str = TEXT, **known):
    model, _ = model_and_twin(name)
    target = {"target": WRITTEN} if model.is_encoder_decoder else {}
    return capture(model, text, edits=edits, **target, **known)


def changed(name: str, edits: Edits):
    """The edited pass, continued from the plain one as far as that goes."""
    return captured(name, edits, known=[plain(name), plain(name, OTHER), plain(name, LONGER)])


@cache
def plain(name: str, text: str = TEXT):
    return captured(name, text=text)


def last(taken) -> np.ndarray:
    """The last token's logits, or the last hidden states of all."""
    return taken.vectors if taken.logits is None else taken.logits


def assert_same_pass(taken, expected: Naive, tolerance: float = TOLERANCE) -> None:
    """The stages of every head, whose downstream ones hold what edits before them led to, and what the model gives."""
    for layer, head, kind in every_head(taken):
        at = (kind, layer, head)
        trace, given = taken.trace(layer, head, kind), taken.model_output(layer, head, kind)
        weights, output = expected.weights[at].numpy(), expected.output[at].numpy()
        for ours, theirs in ((trace.weights, weights), (trace.output, output), (given, output)):
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance, err_msg=str(at))
        assert taken.certificate(layer, head, kind).holds, at
    theirs = expected.last if taken.logits is None else expected.last[-1]
    np.testing.assert_allclose(last(taken), theirs.numpy(), rtol=5 * tolerance, atol=5 * tolerance)


def first(kind: str) -> bool:
    """The kind that a layer's number alone speaks of."""
    return kind in ("self", "encoder")


def at_one(kind: str, layer: int, head: int) -> bool:
    return first(kind) and (layer, head) == (0, 1)


def when(condition, **changes):
    return lambda kind, layer, head: changes if condition(kind, layer, head) else {}


def everywhere(*_) -> bool:
    return True


def in_first(kind: str, layer: int, _head: int) -> bool:
    return first(kind) and layer == 0


def together(*each):
    """What the later ones say counts."""
    return lambda *at: {name: change for one in each for name, change in one(*at).items()}


MUTED = torch.zeros(1, 1)
PAINTED = {0: {9: 0.25, 2: 0.75}, 4: {4: 1.0}, 10: {0: 0.5, 1: 0.5}}
# Edits, and what each of them says of a head: (kind, layer, head) -> changes, as tests/core/naive_attention.py reads them.
CASES = {
    "mute a head": (Edits(mute_heads={(0, 1)}), when(at_one, output=MUTED)),
    "mute a layer": (Edits(mute_heads={0}), when(in_first, output=MUTED)),
    "no scale at all": (Edits(scale_by=0.0), when(everywhere, factor=0.0)),
    "the narrower place wins": (
        Edits(scale_by={None: 2.0, 0: 0.5, (0, 1): -1.0}),
        *(when(everywhere, factor=2.0), when(in_first, factor=0.5), when(at_one, factor=-1.0)),
    ),
    "unscaled": (Edits(softmax="unscaled"), when(everywhere, unscaled=True)),
    "unscaled, then halved": (
        Edits(softmax={(0, 1): "unscaled"}, scale_by=0.5),
        *(when(everywhere, factor=0.5), when(at_one, unscaled=True)),
    ),
    "hardmax everywhere": (Edits(softmax="hardmax"), when(everywhere, weighing="hardmax")),
    "sigmoid": (Edits(softmax="sigmoid"), when(everywhere, weighing="sigmoid")),
    "no mask": (Edits(mask="none"), when(everywhere, allowed=lambda *_: True)),
    "a window in one head": (
        Edits(mask={(0, 1): "window 2"}),
        when(at_one, allowed=lambda query, key: abs(query - key) < 2),
    ),
    "a window, but not in one layer": (
        Edits(mask={None: "causal-window 3", 0: "none"}),
        when(everywhere, allowed=lambda query, key: key <= query and abs(query - key) < 3),
        when(in_first, allowed=lambda *_: True),
    ),
    "block keys": (Edits(block_keys=[2, 5]), when(everywhere, keys=(2, 5))),
    "block what a first query needs": (Edits(block_keys={(0, 1): 0}), when(at_one, keys=(0,))),
    "block what the mask opens": (
        Edits(mask={(0, 1): "none"}, block_keys={(0, 1): [3]}, block_pairs={(0, 1): [(0, 0)]}),
        when(at_one, allowed=lambda *_: True, keys=(3,), pairs=((0, 0),)),
    ),
    **{
        f"{pattern} in a head": (Edits(pattern={(0, 1): pattern}), when(at_one, pattern=pattern))
        for pattern in ("uniform", "previous", "first", "self")
    },
    "uniform everywhere": (Edits(pattern="uniform"), when(everywhere, pattern="uniform")),
    "uniform where the mask lets": (
        Edits(pattern={(0, 1): "uniform"}, block_keys={(0, 1): [1]}),
        when(at_one, pattern="uniform", keys=(1,)),
    ),
    "painted over a pattern": (
        Edits(pattern={0: "first", (0, 1): PAINTED}),
        *(when(in_first, pattern="first"), when(at_one, painted=PAINTED)),
    ),
    "a pattern in the place of a painting": (
        Edits(pattern={0: PAINTED, (0, 1): "first"}),
        *(when(in_first, painted=PAINTED), when(at_one, painted={}, pattern="first")),
    ),
    "blocked in a wide place and in a narrow one": (
        Edits(block_keys={None: [2], (0, 1): [5]}, block_pairs={0: [(4, 4)], (0, 1): [(3, 1)]}),
        when(everywhere, keys=(2,)),
        when(in_first, pairs=((4, 4),)),
        when(at_one, keys=(2, 5), pairs=((4, 4), (3, 1))),
    ),
    "painted on what is blocked": (
        Edits(pattern={(0, 1): {3: {9: 1.0}}}, block_keys={(0, 1): [9]}, block_pairs={(0, 1): [(3, 9)]}),
        when(at_one, painted={3: {9: 1.0}}, keys=(9,), pairs=((3, 9),)),
    ),
    "several at once": (
        Edits(mute_heads={(0, 0)}, scale_by={(0, 1): 3.0}, softmax={(1, 2): "sigmoid"}, block_keys=[1]),
        when(everywhere, keys=(1,)),
        when(lambda kind, *at: first(kind) and at == (0, 0), output=MUTED),
        when(at_one, factor=3.0),
        when(lambda kind, *at: first(kind) and at == (1, 2), weighing="sigmoid"),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", MODELS)
def test_every_edit_is_the_naive_computation(name, case):
    edits, *changes = CASES[case]
    check_edits(plain(name), edits)
    taken = changed(name, edits)
    assert_same_pass(taken, naive(name, changes=together(*changes)))
    assert taken.edits == edits


def test_every_kind_is_computed_by_the_tests_too():
    """Below, what needs another text: means, patches and other tokens. Path cuts are in test_path_cuts.py."""
    computed = {type(edit) for edits, *_ in CASES.values() for edit in edits.each}
    assert computed | {Mean, Patch, ReplaceToken, CutPath} == {*EDIT_KINDS}


@pytest.mark.parametrize("name", MODELS)
def test_a_mean_and_a_patch_of_other_texts(name):
    longer, other = naive(name, LONGER), naive(name, OTHER)

    def changes(kind, layer, head):
        if not first(kind):
            return {}
        if (layer, head) == (1, 3):
            return {"output": MUTED}
        if head == 2 and layer == 0:
            return {"output": longer.output[kind, layer, head].mean(dim=0, keepdim=True)}
        return {"output": other.output[kind, layer, head]} if layer == 1 else {}

    means = Edits(mean_heads={(0, 2)}, mean_over=LONGER)
    patches = Edits(patch_heads={1}, patch_from=OTHER, mute_heads={(1, 3)})
    assert_same_pass(changed(name, means | patches), naive(name, changes=changes))


@pytest.mark.parametrize("name", MODELS)
def test_a_replaced_token_is_another_text(name):
    words = TEXT.split()
    words[3], words[10] = "7", "61"
    taken = changed(name, Edits(replace_tokens={3: "7", 10: "61"}))
    assert taken.input_ids == tuple(map(int, words))
    assert_same_pass(taken, naive(name, " ".join(words)))


@pytest.mark.parametrize(
    ("name", "case"),
    [
        *product(["Llama", "T5"], ["block keys", "no mask", "painted over a pattern", "hardmax everywhere"]),
        *product(["Llama", "gpt-oss"], ["several at once", "patched"]),
        *product(["Llama", "BERT"], ["painted on what is blocked"]),
        *product(["Gemma 2", "gpt-oss"], ["no mask", "hardmax everywhere"]),
    ],
)
def test_every_way_to_look_at_a_head_shows_the_same_a_few_rows_at_a_time(name, case, monkeypatch):
    """As a long text is gone through: what is edited in a row does not depend on which rows are worked out with it."""
    monkeypatch.setitem(row_blocks.__kwdefaults__, "cells", 3 * 4 * 11)
    monkeypatch.setattr(rowwise, "CELLS", 3 * 11)
    patched = naive(name, OTHER).output[next(iter(plain(name).kinds)), 0, 1]
    patching = Edits(patch_heads={(0, 1)}, patch_from=OTHER), when(at_one, output=patched)
    edits, *changes = CASES.get(case, patching)
    taken = captured(name, edits)
    assert len(list(row_blocks(taken.layer_call(0)))) > 2
    assert_same_pass(taken, naive(name, changes=together(*changes)))
    pictures = {kind: thumbnails(taken, kind).values for kind in taken.kinds}
    for layer, head, kind in every_head(taken):
        trace, one = taken.trace(layer, head, kind), taken.head(layer, head, kind)
        overview, certificate = taken.certified_overview(layer, head, kind)
        assert certificate.holds
        assert certificate.left_out == trace.empty_rows.sum()
        for drawn in (overview, one.overview()):
            np.testing.assert_allclose(drawn.row_numbers["output"], trace.output, atol=1e-5)
            weights = np.where(trace.mask, trace.weights, np.nan)
            np.testing.assert_allclose(drawn.matrices["weights"].values, weights, atol=1e-6)
        some = taken.trace(layer, head, kind, rows=range(3, 6))
        np.testing.assert_allclose(some.weights, trace.weights[3:6], atol=1e-6)
        np.testing.assert_allclose(some.output, trace.output[3:6], atol=1e-5)
        np.testing.assert_allclose(pictures[kind][layer, head], pool(trace.weights, 24, trace.mask).values, atol=1e-6)
        assert (trace.weights[~trace.mask] == 0).all()


KINDS = ("cross", "decoder", "encoder")


@pytest.mark.parametrize(
    ("place", "meant"),
    [
        *((Place(0, 1, kind), lambda *at, kind=kind: at == (kind, 0, 1)) for kind in KINDS),
        *((Place(kind=kind), lambda k, *_, kind=kind: k == kind) for kind in KINDS),
        (Place(None, 2, "cross"), lambda kind, _, head: (kind, head) == ("cross", 2)),
        (Place(None, 2), lambda _kind, _layer, head: head == 2),
        (Place(1), lambda kind, layer, _: (kind, layer) == ("encoder", 1)),
        (Place(), everywhere),
    ],
    ids=lambda part: str(part) if isinstance(part, Place) else "",
)
def test_each_attention_of_an_encoder_decoder(place, meant):
    """Other texts are read by the encoder, beside what the decoder has written here."""
    other, longer = plain_naive("T5", OTHER).output, plain_naive("T5", LONGER).output

    def patched(*at):
        return {"output": other[at]} if meant(*at) else {}

    def meaned(*at):
        return {"output": longer[at].mean(dim=0, keepdim=True)} if meant(*at) else {}

    for edits, changes in (
        (Edits(mute_heads={place}), when(meant, output=MUTED)),
        (Edits(scale_by={place: 0.3}, block_keys={place: [4]}), when(meant, factor=0.3, keys=(4,))),
        (Edits(patch_heads={place}, patch_from=OTHER), patched),
        (Edits(mean_heads={place}, mean_over=LONGER), meaned),
    ):
        assert_same_pass(captured("T5", edits), naive("T5", changes=changes))


def test_a_head_of_one_kind_is_narrower_than_a_layer():
    edits = Edits(scale_by={Place(None, 1, "self"): 3.0, 0: 0.5})
    changes = together(when(in_first, factor=0.5), when(lambda _kind, _layer, head: head == 1, factor=3.0))
    assert_same_pass(captured("Llama", edits), naive("Llama", changes=changes))


def test_an_edit_is_made_in_one_of_the_layers_that_share_their_weights():
    edits = Edits(mute_heads={(2, 1)}, scale_by={3: 2.0})
    muted, doubled = (lambda _, *at: at == (2, 1)), (lambda _kind, layer, _head: layer == 3)
    changes = together(when(muted, output=MUTED), when(doubled, factor=2.0))
    assert_same_pass(captured("ALBERT", edits), naive("ALBERT", changes=changes))


def test_a_head_of_a_layer_that_attends_twice_is_one(monkeypatch):
    """Head 1.2 of DiffLlama is head 2 in both calls of layer 1: as in transformers' own code with a hook in these."""
    model, own = tiny_model("DiffLlama"), modeling_diffllama.eager_attention_forward
    plain = tiny_pass("DiffLlama")

    def hooked(heads) -> torch.Tensor:
        def muted(module, *given, **options):
            output, weights = own(module, *given, **options)
            for layer, head in heads:
                output[:, :, head] *= module.layer_idx != layer
            return output, weights

        monkeypatch.setattr(modeling_diffllama, "eager_attention_forward", muted)
        return eager(model.network, input_ids=torch.tensor([plain.input_ids])).logits[0, -1]

    for edits, heads in (
        (Edits(mute_heads={(1, 2)}), [(1, 2)]),
        (Edits(mute_heads={2}), [(2, one) for one in range(4)]),
    ):
        taken = tiny_pass("DiffLlama", edits=edits)
        np.testing.assert_allclose(taken.logits, hooked(heads).numpy(), rtol=0, atol=1e-5)
        assert np.abs(taken.logits - plain.logits).max() > 0.05
        assert {at[:2] for at in every_head(taken) if not taken.trace(*at).output.any()} == set(heads)
        assert all(taken.certificate(*at).holds for at in every_head(taken))
        assert_same_bits(tiny_pass("DiffLlama", edits=edits, known=[plain]), taken)
    effects = head_effects(model, input_ids=plain.input_ids)
    before, after = (logits.log_softmax(-1)[plain.logits.argmax()] for logits in (hooked([]), hooked([(1, 2)])))
    assert len(effects) == 12
    assert effects.effect[6] == pytest.approx(float(after - before), abs=1e-5)


def test_a_head_that_attends_twice_is_patched_whole():
    """With every head of a layer patched, what follows is as in the other text: both parts have come from there."""
    other = tiny_pass("DiffLlama", text=OTHER, input_ids=None)
    patched = Edits(patch_heads={0, 1, 2}, patch_from=OTHER)
    taken = tiny_pass("DiffLlama", text=TEXT, input_ids=None, edits=patched)
    for layer, head, _ in every_head(taken):
        np.testing.assert_array_equal(taken.model_output(layer, head), other.model_output(layer, head))


def test_an_image_with_a_muted_head():
    network = tiny("ViT")
    model, twin = load_model(network), twin_of(network, NAME)
    picture = np.random.default_rng(3).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    taken = capture(model, image=picture, edits=Edits(mute_heads={(0, 1)}, block_keys=[4]))
    changes = together(when(everywhere, keys=(4,)), when(at_one, output=MUTED))
    assert_same_pass(taken, naive_pass(twin, image_inputs(model, picture), changes))
    for edits, field in (
        (Edits(replace_tokens={1: "a"}), "text"),
        (Edits(patch_heads={0}, patch_from="a text"), "patch_from"),
        (Edits(mean_heads={0}, mean_over="a text"), "mean_over"),
    ):
        assert_refused_also_by_the_check(taken, edits, field, partial(capture, model, image=picture, edits=edits))


def assert_refused_also_by_the_check(taken, edits, field, run, words=""):
    """The same is raised by the pass and by the check that runs none."""
    with refused(field, words) as raised:
        run()
    with refused(field) as checked:
        check_edits(taken, edits)
    assert str(checked.value) == str(raised.value)


@pytest.mark.parametrize("name", MODELS)
def test_what_changes_nothing_changes_nothing(name):
    before = plain(name)
    for edits in (
        Edits(),
        Edits(scale_by=1.0),
        Edits(scale_by={(0, 1): 1}, softmax="softmax", block_keys=[], block_pairs=[], pattern={(0, 1): {}}),
    ):
        assert not edits
        np.testing.assert_array_equal(last(captured(name, edits)), last(before))


@pytest.mark.parametrize("name", MODELS)
def test_the_model_stays_as_it_was(name):
    model, _ = model_and_twin(name)
    before, parameters = plain(name), {key: part.clone() for key, part in model.network.state_dict().items()}
    edits = Edits(mute_heads={(0, 1)}, scale_by=2.0, pattern={(1, 2): "first"}, mean_heads={(1, 1)}, mean_over=LONGER)
    captured(name, edits)
    with pytest.raises(InputError):
        captured(name, Edits(mute_heads={(1, 99)}))
    after = captured(name)
    assert_same_bits(after, before)
    assert model.network.config._attn_implementation in IMPLEMENTATIONS.values()
    assert all(torch.equal(part, parameters[key]) for key, part in model.network.state_dict().items())


def test_steps_that_an_edit_has_replaced_are_not_explained():
    edits = Edits(pattern={(0, 0): "first"}, softmax={(0, 1): "sigmoid"}, mute_heads={(0, 2)}, scale_by={(0, 3): 2.0})
    taken = captured("Llama", edits)
    for head in (0, 1):
        with pytest.raises(InputError, match="edit"):
            taken.head(0, head).explain(4, 2)
    with pytest.raises(InputError, match="edit"):
        taken.head(0, 2).sum_of(4)
    assert taken.head(0, 3).explain(4, 2).weight == pytest.approx(taken.trace(0, 3).weights[4, 2], abs=1e-6)
    np.testing.assert_allclose(taken.head(0, 1).sum_of(4).total, taken.trace(0, 1).output[4], atol=1e-5)


def test_sessions_at_once():
    """Some edit and some do not, on other texts, on one model and at the same moment: what they shared would show."""
    model, _ = model_and_twin("Llama")
    edits = Edits(mute_heads={(0, 1)}, scale_by={1: 2.0}, pattern={(1, 0): "uniform"})
    wishes = ((TEXT, None), (TEXT, edits), (OTHER, None), (TEXT, Edits(mask="none")))
    expected = [capture(model, text, edits=wish).logits for text, wish in wishes]
    assert all(np.abs(expected[0] - expected[other]).max() > 0.01 for other in (1, 2, 3))
    start = threading.Barrier(len(wishes))

    def session(number: int) -> None:
        text, wish = wishes[number]
        start.wait()
        for _ in range(15):
            found = capture(model, text, edits=wish)
            assert (found.layers(), found.edits) == (2, wish or Edits())
            np.testing.assert_allclose(found.logits, expected[number], rtol=0, atol=1e-6)

    with ThreadPoolExecutor(len(wishes)) as threads:
        list(threads.map(session, range(len(wishes))))  # raises what a session has raised


@given(st.lists(ANY_CHANGE, max_size=4).map(every))
def test_edits_are_the_python_that_makes_them(edits):
    again = eval(repr(edits), {"Edits": Edits, "Place": Place})  # noqa: S307 - the words are our own
    assert again == edits
    assert hash(again) == hash(edits)
    assert repr(again) == repr(edits)
    assert edits | Edits() == Edits() | edits == edits | edits == edits


def test_edits_of_equal_meaning_are_equal_and_cannot_be_altered():
    assert Edits(mute_heads=[(0, 1), (0, 1), 2]) == Edits(mute_heads={2, Place(0, 1)})
    assert Edits(scale_by=2) == Edits(scale_by={None: 2.0}) == Edits(scale_by={Place(): 2.0}) != Edits(scale_by=3)
    of_numpy = Edits(mute_heads={(np.int64(3), np.int64(1))}, block_keys=np.int64(2))
    assert of_numpy == Edits(mute_heads={(3, 1)}, block_keys=[2])
    assert Edits(block_keys=[]) == Edits(pattern={0: {}}) == Edits()
    assert repr(Edits(mute_heads={(23, 4)}, scale_by=2)) == "Edits(mute_heads={(23, 4)}, scale_by=2.0)"
    assert not any((Edits(), Edits(scale_by=1.0), Edits(softmax="softmax"), Edits(mean_over=TEXT, patch_from=TEXT)))
    assert all(edits for edits, *_ in CASES.values())
    assert Edits(replace_tokens={0: "5"})
    with pytest.raises(AttributeError):
        Edits().scale_by = 2.0  # pyright: ignore


def test_edits_combine_and_the_later_wins():
    """Each line: one change, a later one, and what they come to."""
    cut = "cut 0.1 from the key of 1.0"
    for one, other, both in (
        ("mute 0.1", "mute 1.1", ["mute 0.1", "mute 1.1"]),
        ("scale 2", "scale 3 at 1", ["scale 2", "scale 3 at 1"]),
        ("scale 3 at 1", "scale 1 at 1", ["scale 1 at 1"]),
        ("block key 1", "block key 2", ["block key 1-2"]),
        ("paint 0>0=1 1>0=1 at 0.1", "paint 1>1=1 at 0.1", ["paint 0>0=1 1>1=1 at 0.1"]),
        ("pattern first at 1", "paint 0>0=1 at 1", ["paint 0>0=1 at 1"]),
        ('token 0 "5"', 'token 0 "6"', ['token 0 "6"']),
        ('mean 1.1 over "5"', 'mean 0.0 over "6"', ['mean 0.0 over "6"', 'mean 1.1 over "6"']),
        (cut, "cut 0.1 mean from the key of 1.0", ["cut 0.1 mean from the key of 1.0"]),
        (cut, "cut 0.1 from the query of 1.0", ["cut 0.1 from the query of 1.0", cut]),
    ):
        assert sorted(lines_of(edits_of(one) | edits_of(other))) == sorted(both)
    assert every([]) == Edits()


@pytest.mark.parametrize(
    ("make", "field", "words"),
    [
        (lambda: Edits(mute_heads={(0, -1)}), "head", "no head -1"),
        (lambda: Edits(mute_heads={-2}), "layer", "no layer -2"),
        (lambda: Edits(mute_heads={"0.1"}), "layer", "not a place"),
        (lambda: Edits(mute_heads={(0, 1, 2)}), "layer", "not a place"),
        (lambda: Edits(mute_heads=(23, 4)), "layer", r"\{\(23, 4\)\} for one head, \{23, 4\} for two layers"),
        (lambda: Edits(mean_heads={0}), "mean_over", "needs another text"),
        (lambda: Edits(mean_heads={0}, mean_over="  "), "mean_over", "needs another text"),
        (lambda: Edits(patch_heads={0}), "patch_from", "needs another text"),
        (lambda: Edits(cut_paths=PATCHED), "patch_from", "needs another text"),
        (lambda: Edits(scale_by=float("nan")), "scale", "finite"),
        (lambda: Edits(scale_by={0: float("inf")}), "scale", "finite"),
        (lambda: Edits(softmax="softmin"), "softmax", "choose softmax, unscaled, hardmax, sigmoid"),
        (lambda: Edits(mask="diagonal"), "mask", "no mask 'diagonal'"),
        (lambda: Edits(mask="window"), "mask", "window 4"),
        (lambda: Edits(mask="causal 3"), "mask", "no mask 'causal 3'"),
        (lambda: Edits(mask="window -3"), "mask", "no mask"),
        (lambda: Edits(mask="window 0"), "mask", "window"),
        (lambda: Edits(block_keys=[-1]), "edits", "no position -1"),
        (lambda: Edits(block_pairs=[(0, 1.5)]), "edits", "no position 1.5"),
        (lambda: Edits(pattern="next"), "pattern", "no pattern 'next'"),
        (lambda: Edits(pattern={0: {3: {1: 0.5, 2: 1.5}}}), "pattern", "Divide each by 2"),
        (lambda: Edits(pattern={0: {3: {1: 1.5, 2: -0.5}}}), "pattern", "between 0 and 1"),
        (lambda: Edits(pattern={0: {3: {}}}), "pattern", "sums to 0"),
        (lambda: Edits(pattern={0: {3: {1: float("nan")}}}), "pattern", "nan"),
    ],
)
def test_what_no_model_could_do(make, field, words):
    with refused(field, words):
        make()


@pytest.mark.parametrize(
    ("name", "edits", "field", "words"),
    [
        ("Llama", Edits(mute_heads={(0, 4)}), "head", "no head 4: they run from 0 to 3"),
        ("Llama", Edits(scale_by={2: 2.0}), "layer", "no layer 2: they run from 0 to 1"),
        ("Llama", Edits(mute_heads={Place(0, kind="cross")}), "kind", "no cross attention here, only self"),
        ("T5", Edits(mute_heads={Place(kind="self")}), "kind", "only encoder, decoder, cross"),
        ("Llama", Edits(block_keys=[11]), "key", "no key 11: they run from 0 to 10"),
        ("Llama", Edits(block_pairs=[(11, 0)]), "query", "no query 11"),
        ("T5", Edits(block_pairs={Place(kind="cross"): [(7, 0)]}), "query", "no query 7: they run from 0 to 6"),
        ("Llama", Edits(pattern={0: {0: {11: 1.0}}}), "key", "no key 11"),
        ("Llama", Edits(pattern={0: {11: {0: 1.0}}}), "query", "no query 11"),
        ("Llama", Edits(replace_tokens={11: "5"}), "replace_tokens", "no token 11"),
        ("Llama", Edits(replace_tokens={0: "5 6"}), "replace_tokens", "2 tokens"),
        ("Llama", Edits(patch_heads={0}, patch_from=LONGER), "patch_from", "has 11, the other one 15"),
        ("Llama", Edits(cut_paths=PATCHED, patch_from=LONGER), "patch_from", "has 11, the other one 15"),
        ("Llama", Edits(cut_paths={("1.1", (1, 0, "key")): "patch"}, patch_from=TEXT), "edits", "“1.1”"),
        ("Llama", Edits(mean_heads={0}, mean_over=" ".join(["5"] * 99)), "mean_over", "99 tokens"),
        ("Llama", Edits(patch_heads={0}, patch_from=" ".join(["5"] * 99)), "patch_from", "99 tokens"),
    ],
)
def test_what_this_pass_could_not_do(name, edits, field, words):
    assert_refused_also_by_the_check(plain(name), edits, field, lambda: captured(name, edits), words)


def test_the_check_costs_no_more_where_there_are_many_heads():
    """A page asks it of every line of a list, which may paint as many cells as a line holds."""
    config = BertConfig(**SMALL | {"hidden_size": 128, "num_attention_heads": 128, "num_hidden_layers": 4})
    taken = capture(load_model(randomised(BertModel(config)), tokenizer=number_words()), " ".join(["5"] * 25))
    painted = Edits(pattern={Place(): {query: dict.fromkeys(range(20), 1 / 20) for query in range(25)}})
    with processor_time(1):
        for _ in range(20):
            check_edits(taken, painted)
