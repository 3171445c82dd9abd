"""All work of core passes stop points, at least one for so many numbers that it computes, and ends at any of them."""

import importlib
import inspect
import pkgutil
import time
from functools import cache

import numpy as np
import pytest

import core
from core.attention import masks, rowwise
from core.attention.rowwise import Whole
from core.capturing import weights_only
from core.capturing.calls import rows
from core.capturing.certifying import mask_in_words
from core.capturing.edits.edits import Edits
from core.capturing.generation.generating import Generating
from core.claims.consequences import muting, patching
from core.claims.examples import claim_examples, for_testing
from core.corpus.changes import swapped_back
from core.corpus.steps import InProcessRun
from core.exporting.exhibit import KeptHead
from core.exporting.tables import stage_table, to_csv, to_npz
from core.heads import comparing, likeness, views
from core.heads.attribution import contributions_by_key, cosine
from core.heads.effects import Effects, patch_effects
from core.heads.metrics import one_query
from core.heads.patterns import diagonal
from core.heads.views import crossing_shares, head_contributions, image_sinks, thumbnails
from core.lessons import blocks, long_range, scaling
from core.models.inputs import all_inputs
from core.models.passages import passages_of
from core.progress import stopped_by
from core.threads import one_thread
from tests.core.passes import tiny_model as model

TOKENS, LAYERS, HEADS = 60, 2, 4  # of the passes below
CELLS = 2**8  # numbers of a block here; thousands of times as many in earnest
ALLOWED = 4  # blocks between two stop points

ONE = TOKENS**2 // (ALLOWED * CELLS)  # stop points of what goes over all pairs of a head, at least
ALL = LAYERS * HEADS * ONE  # and over those of all heads


class Ended(BaseException):
    """What a page ends its work with is no Exception either."""


def text(count=TOKENS):
    return " ".join(str(3 + place % 50) for place in range(count))


@cache
def passed(name="BERT", *, components=False):
    return core.capture(model(name), text(), components=components)


@cache
def picture():
    return core.capture(model("ViT"), image=np.zeros((12, 12, 3)))


@cache
def exposed():
    return core.attention_weights(model("GPT-J"), text())


def npz(file):
    np.savez(file, attentions=np.full((LAYERS, HEADS, 4, 4), 0.25))
    return file


def saved(folder):
    passed().save(folder / "pass.safetensors")
    return (folder / "pass.safetensors").read_bytes()


def run_over_a_text(folder):
    file = folder / "text.txt"
    file.write_text("\n".join(text(20) for _ in range(2)))
    run = InProcessRun(model("BERT"), file, folder / f"run{len(list(folder.iterdir()))}", 10_000)
    while run.go_on():
        pass


def drained(pieces):
    for _, compute in pieces:
        compute()


def apart(name="Llama"):
    return passed(name, components=True)


def read(count):
    return all_inputs(model("Llama"), text(count))


def effects():
    return Effects(model("Llama"), read(20))


def table():
    head = passed().head(0, 0)
    return stage_table(head, "weights", *passed().tokens())


def kept():
    return KeptHead.of(passed("Mistral"), 0, 0, "self")


def view(**of):
    return views.ViewMatrix(passed(), "self", views.HeadView(heads=((0, 0), (1, 1)), **of))


TWO_TEXTS = text(20), text(21)[2:]
CLAIM = core.Claim("0.0", "always", "punctuation or not itself", 0.1)


@cache
def spoken_of():
    """Passages of the half that claims are tested on."""
    texts = (" ".join(str(3 + (place + first) % 50) for place in range(20)) for first in range(50))
    return for_testing(passages_of([model("Llama")], texts, 64), 3)


SCALED = Edits(scale_by={0: 2.0, 1: 2.0})
CALLS = LAYERS  # stop points of a pass: one at each attention call

# What takes long on a long text, with the stop points that it passes at least. `folder` is an empty one.
WORK = {
    # --- passes
    "capture": (lambda _: core.capture(model("Llama"), text()), CALLS),
    "capture of edited heads": (lambda _: core.capture(model("Llama"), text(), edits=SCALED), ALL // 4),
    "capture of components": (lambda _: core.capture(model("Llama"), text(), components=True), CALLS),
    "generate": (lambda _: core.generate(model("Llama"), text(20), 3), 3 * CALLS),
    "capturing.generation.generating.Generation.full_pass": (
        lambda _: core.generate(model("Llama"), text(20), 2).full_pass(),
        3 * CALLS,
    ),
    "capturing.generation.generating.Generating.write": (
        lambda _: Generating(model("Llama"), read(20)).write(2),
        2 * CALLS,
    ),
    "attention_weights": (lambda _: core.attention_weights(model("GPT-J"), text()), 2 * LAYERS),
    "check_model": (lambda _: core.check_model(model("Llama")), 2 * CALLS),
    "probe_heads": (lambda _: core.probe_heads(model("BERT"), 20, (0,)), 2 * CALLS),
    # --- files
    "open_weights": (lambda folder: core.open_weights(npz(folder / "weights.npz")), LAYERS * HEADS),
    "open_capture": (lambda folder: core.open_capture(saved(folder)), 4 * LAYERS),
    "Capture.save": (saved, LAYERS),
    "view": (lambda _: core.view(exposed()._layers), LAYERS * HEADS),
    # --- all heads
    "head_metrics": (lambda _: core.head_metrics(passed()), ALL),
    "head_metrics of weights": (lambda _: core.head_metrics(exposed()), ALL),
    "match_heads": (lambda _: core.match_heads(passed(), diagonal(1)), ALL),
    "pair_weights": (lambda _: core.pair_weights(passed(), 5, 3), LAYERS),
    "heads.views.thumbnails": (lambda _: thumbnails(passed()), ALL),
    "heads.metrics.one_query": (lambda _: one_query(passed(), 5), LAYERS),
    "heads.views.crossing_shares": (lambda _: crossing_shares(passed(), np.arange(TOKENS) % 2), ALL),
    "heads.likeness.head_changes": (lambda _: likeness.head_changes(passed(), passed()), ALL),
    "heads.likeness.weight_differences": (lambda _: likeness.weight_differences(passed(), passed()), ALL),
    "rounded_copy": (lambda _: core.rounded_copy(model("Llama"), "Q4_0"), 7 * LAYERS),
    "what_changed": (lambda _: core.what_changed(model("Llama"), model("Llama"), [text(20)] * 2), 4 * CALLS),
    "corpus.changes.swapped_back": (
        lambda _: swapped_back(model("Llama"), model("Llama"), [text(20)], [(0, 0)]),
        3 * CALLS,
    ),
    "heads.likeness.heads_like": (lambda _: likeness.heads_like([passed()], 0, 0), ALL),
    "heads.likeness.random_pairs_divergence": (lambda _: likeness.random_pairs_divergence(passed(), pairs=9), 18),
    "heads.views.head_contributions": (lambda _: head_contributions(passed(), 0), HEADS),
    "lessons.long_range.mean_distances": (lambda _: long_range.mean_distances(passed()), ALL),
    "lessons.scaling.model_scores": (lambda _: scaling.model_scores(passed()), 2 * ALL),
    # --- one head
    "attention.head.Head.overview": (lambda _: passed().head(0, 0).overview(), ONE),
    "attention.head.HeadStages.overview": (lambda _: passed().head(0, 0).stages("weights").overview(), ONE),
    "attention.head.HeadStages.window": (lambda _: passed().head(0, 0).window("raw", *[range(TOKENS)] * 2), ONE),
    "attention.rowwise.RowwiseMatrix.overview": (lambda _: Whole(np.ones((TOKENS, TOKENS))).overview(), ONE),
    "Capture.certificate": (lambda _: passed().certificate(0, 0), ONE),
    "Capture.certified_overview": (lambda _: passed().certified_overview(0, 0), ONE),
    "capturing.certifying.mask_in_words": (lambda _: mask_in_words(passed("Mistral").calls["self"][0], 0), ONE),
    "exporting.exhibit.KeptHead.overview": (lambda _: kept().overview(), 2 * ONE),
    "exporting.exhibit.KeptHead.parts": (lambda _: kept().parts(), 2 * ONE),
    "heads.views.ViewMatrix.overview": (lambda _: view().overview(), 2 * ONE),
    "heads.views.ViewMatrix.overview of words": (lambda _: view(by_word=True).overview(), 2 * ONE),
    "heads.views.ViewMatrix.inside": (lambda _: view().inside(), 2 * ONE),
    "heads.views.image_sinks": (lambda _: image_sinks(picture(), [(0, 0), (1, 1)]), 2),
    "heads.comparing.HeadPair.overview": (
        lambda _: comparing.HeadPair.of(passed().head(0, 0), passed().head(0, 1)).overview(),
        ONE,
    ),
    "compare": (lambda _: core.compare(passed().trace(0, 0), passed().trace(0, 1)), ONE),
    "align": (lambda _: core.align(text().split(), text()[::-1].split()), TOKENS),
    "exporting.tables.stage_table": (lambda _: table(), ONE),
    "exporting.tables.to_csv": (lambda _: to_csv([table()], {}), TOKENS),
    "exporting.tables.to_npz": (lambda _: to_npz([table()], {}), 8),
    "lessons.blocks.in_blocks": (lambda _: blocks.in_blocks(passed().trace(0, 0), 2), TOKENS // 2),
    # --- what an answer was read from; torch goes back through the norms of all layers
    "logit_attribution": (lambda _: core.logit_attribution(apart()), LAYERS),
    "direct_contributions": (lambda _: core.direct_contributions(apart()), LAYERS),
    "cosine_attribution": (lambda _: core.cosine_attribution(apart("BERT"), apart("BERT")), LAYERS),
    "score_attribution": (lambda _: core.score_attribution(apart(), 1, 0, 9, 3).table, LAYERS),
    "heads.attribution.contributions_by_key": (
        lambda _: contributions_by_key(apart("BERT"), cosine(apart("BERT"), apart("BERT")), 0, 0),
        TOKENS,
    ),
    "logit_lens": (lambda _: core.logit_lens(passed("Llama")), 2),
    # --- many passes
    "head_effects": (lambda _: core.head_effects(model("Llama"), text(20)), CALLS),
    "heads.effects.Effects.suspects_first": (lambda _: drained(effects().suspects_first()), 3 * CALLS),
    "heads.effects.Effects.layers_in_pieces": (lambda _: drained(effects().layers_in_pieces()), CALLS),
    "heads.effects.Effects.keys_in_pieces": (lambda _: drained(effects().keys_in_pieces()), 2 * CALLS),
    "heads.effects.patch_effects": (lambda _: patch_effects(model("Llama"), *TWO_TEXTS, answers=(5, 6)), 3 * CALLS),
    "corpus.steps.InProcessRun": (run_over_a_text, 2 + 2 * CALLS),
    # --- claims
    "check_claims": (lambda _: core.check_claims(model("Llama"), [CLAIM], spoken_of()), 3 * CALLS),
    "known_heads": (lambda _: core.known_heads(model("Llama"), spoken_of()), 3 * CALLS),
    "claims.examples.claim_examples": (lambda _: claim_examples(model("Llama"), CLAIM, (0, 0), spoken_of()), CALLS),
    "claims.consequences.muting": (lambda _: muting(model("Llama"), CLAIM, (0, 0), spoken_of()), 2 * CALLS),
    "claims.consequences.patching": (lambda _: patching(model("Llama"), CLAIM, (0, 0), spoken_of()), 2 * CALLS),
    # --- lessons
    "lessons.scaling.sweep": (lambda _: scaling.sweep((1, 2, 4), repeats=2), 6),
    "lessons.scaling.head_gradients": (lambda _: scaling.head_gradients((1, 2), repeats=2), 8),
    "lessons.scaling.stack_gradients": (lambda _: scaling.stack_gradients(3, scaled=True), 3),
    "lessons.long_range.compare_reach": (lambda _: long_range.compare_reach(8, seeds=2), 6),
}
# What else is told how far it is: parts of the work above, worked examples of it, and what runs in no page.
PARTS = {
    *("attention.rowwise.RowwiseMatrix.overview", "capturing.capture.read", "capturing.capture.edited_pass"),
    *("capturing.recorder.record", "capturing.generation.generating.Generating.go_on"),
    *("heads.effects.Interventions.table", "models.passages.PassageByPassage.finished"),
    *("progress.step_counter", "threads.side_by_side", "corpus.running.run", "corpus.running.begin"),
    "corpus.running_changes.run_changes",
    *("heads.examples.knows_paris", "heads.examples.needs_previous", "heads.examples.patch_pronoun"),
    *("corpus.reading.find_files", "corpus.walking.files_below"),
}
# Public names without any: one step whatever the text, or one that takes no longer than the text is long.
AT_ONCE = {
    *("attend", "explain", "softmax", "random_matrices", "toy_sentence", "layer_labels", "missing_layers"),
    *("head_weights", "load_model", "model_size", "heads_figure", "stage_figure", "save_page"),
}


@pytest.fixture
def looks(monkeypatch):
    """Small blocks. Gives how many stop points have been passed, in all threads, and at which one the work is to end."""
    looks = [0, 0]

    def is_over():
        return 0 < looks[1] <= looks[0]

    def look(_):
        looks[0] += 1
        if is_over():
            raise Ended

    def in_another_thread(check):
        def count(part):
            looks[0] += 1
            while is_over():  # until the thread that waits for this one has looked, too
                check(part)
                time.sleep(0.001)
            check(part)

        return stopped_by(count)

    monkeypatch.setattr("core.threads.stopped_by", in_another_thread)
    monkeypatch.setitem(rows.row_blocks.__kwdefaults__, "cells", CELLS)
    for module in (rowwise, masks, weights_only):
        monkeypatch.setattr(module, "CELLS", CELLS)
    for matrix in (comparing.HeadPair, views.ViewMatrix):
        monkeypatch.setattr(matrix, "cells", CELLS)
    with one_thread(), stopped_by(look):
        yield looks


@pytest.mark.parametrize("name", WORK)
def test_work_passes_stop_points_for_what_it_computes_and_ends_at_any(name, looks, tmp_path):
    work, least = WORK[name]
    work(tmp_path)  # what is made once is made

    def ends_at(number):
        looks[:] = 0, number
        with pytest.raises(Ended):
            work(tmp_path)
        assert looks[0] <= number + 8  # a file is closed

    ends_at(least // 2 + 1)
    looks[:] = 0, 0
    work(tmp_path)  # nothing that was ended half-way is in the way
    assert looks[0] >= least
    ends_at(1)


def test_all_that_takes_long_is_in_the_table():
    """Every public function of core that tells how far it is, and every name of its door."""
    listed = {name.split(" of ")[0] for name in WORK}
    told = {name for module in pkgutil.walk_packages(core.__path__, "core.") for name in _telling(module.name)}
    door = {name: f"{one.__module__}.{one.__qualname__}".removeprefix("core.") for name, one in _of_the_door()}
    assert told <= listed | PARTS | {door[name] for name in listed & door.keys()}
    assert door.keys() - listed == AT_ONCE


def _of_the_door():
    return ((name, one) for name in core.__all__ if inspect.isfunction(one := getattr(core, name)))


def _telling(name):
    if name.endswith("__main__"):
        return
    own = [one for one in vars(importlib.import_module(name)).values() if getattr(one, "__module__", None) == name]
    for one in [*own, *(of for each in own if inspect.isclass(each) for of in vars(each).values())]:
        if inspect.isfunction(one) and "on_progress" in inspect.signature(one).parameters:
            called = f"{name}.{one.__qualname__}".removeprefix("core.")
            if "._" not in f".{called}":
                yield called
