"""The longest text that a host reads holds for every way in which numbers come to be computed."""

import io

import numpy as np
import pytest

import core
from core import Edits, InputError, capture
from core.capturing.sampling import Sampling
from core.exporting.exhibit import Exhibit, KeptHead, write
from tests.core.tiny_models import number_words, tiny
from tests.pages.app import go, new
from ui import settings, state
from ui.cache import Store
from ui.requests import (
    AnswerRequest,
    GeneratedTarget,
    KindRequest,
    ModelChoice,
    RunRequest,
    TextRequest,
    WritingRequest,
)
from ui.views.corpus.run import own_run
from ui.views.generation import page as writing
from ui.views.sources import models, passes
from ui.views.what_if import results
from ui.views.why.results import answer

MOST = 6  # tokens
SHORT, LONG = "3 4 5", "3 4 5 6 7 8 9 10"
NETWORKS = {"reads": "BERT", "writes": "Llama", "both": "BART", "exposes": "GPT-J"}
READS, WRITES, BOTH, EXPOSES = map(ModelChoice, NETWORKS)


@pytest.fixture(autouse=True)
def host(keep, monkeypatch):
    """One that takes short texts, with a model of each kind."""
    monkeypatch.setattr(settings, "current", lambda: settings.Settings(tokens=MOST, models=tuple(NETWORKS)))
    monkeypatch.setattr(models.loaded, "store", Store(len(NETWORKS), waits=True))
    for name in NETWORKS:
        keep(models.loaded, model(name), ModelChoice(name))


def model(name):
    return core.load_model(tiny(NETWORKS[name]), tokenizer=number_words())


def recorded(folder):
    capture(model("reads"), LONG).save(file := folder / "pass.safetensors")
    return ModelChoice(file.name, contents=file.read_bytes())


def weights():
    np.savez(file := io.BytesIO(), attentions=np.full((1, 1, 8, 8), 1 / 8))
    return ModelChoice("weights.npz", contents=file.getvalue())


def edited(**edits):
    return TextRequest(READS, SHORT, edits=Edits(**edits))  # pyright: ignore[reportArgumentType]


TOO_LONG = {
    "a text": lambda _: passes.captured(TextRequest(READS, LONG)),
    "a text for components": lambda _: passes.with_components(TextRequest(READS, LONG)),
    "a text for weights": lambda _: passes.weights_only(TextRequest(EXPOSES, LONG)),
    "a target": lambda _: passes.captured(TextRequest(BOTH, SHORT, target=LONG)),
    "token numbers": lambda _: passes.captured(TextRequest(BOTH, SHORT, target=(3,) * 9)),
    "a text whose mean is taken": lambda _: passes.captured(edited(mean_heads={(0, 0)}, mean_over=LONG)),
    "a text to patch from": lambda _: passes.captured(edited(patch_heads={(0, 0)}, patch_from=LONG)),
    "a source to patch from": lambda _: results.patching(KindRequest(TextRequest(WRITES, SHORT), "self"), LONG),
    "a text to be like": lambda _: answer(AnswerRequest(TextRequest(READS, SHORT), None, "mean", LONG)),
    "a text to continue": lambda _: results.continuation(TextRequest(WRITES, LONG)),
    "a text to write after": lambda _: writing.written_after(
        WritingRequest(TextRequest(WRITES, LONG), False, Sampling())
    ),
    "a text of one's own": lambda _: own_run(RunRequest(READS, "a.txt", LONG.encode())),
    "a recorded pass": lambda folder: models.load(recorded(folder)),
    "weights in a file": lambda _: models.load(weights()),
}


@pytest.mark.parametrize("way", TOO_LONG)
def test_what_is_too_long_is_refused(way, tmp_path):
    with pytest.raises(InputError, match=rf"(most|than) {MOST}\b"):
        TOO_LONG[way](tmp_path)


def test_what_is_written_grows_no_longer():
    assert len(results.continuation(TextRequest(WRITES, SHORT))) <= MOST
    generating = writing.written_after(WritingRequest(TextRequest(WRITES, SHORT), False, Sampling())).generating
    assert len(generating.write(50).token_ids) + len(SHORT.split()) <= MOST + 1  # the last one is read by nobody
    assert len(passes.generated(TextRequest(BOTH, SHORT, target=GeneratedTarget())).ids) < MOST


def refused(app):
    assert not app.run().exception, app.exception
    (error,) = app.error
    return error.value.replace("\\", "")


def test_an_exhibit_is_refused_beside_its_field():
    head = KeptHead.of(capture(model("reads"), LONG), 0, 0, "self")
    exhibit = Exhibit(page="heads", title="Heads", address={}, about={}, heads={"a head": head})
    app = go(new(), "exhibit")
    app.file_uploader(state.EXHIBIT_FILE).set_value(("a.headlight", write(exhibit), "application/octet-stream"))
    assert f"8 queries and 8 keys; this host takes at most {MOST} of each" in refused(app)


@pytest.mark.parametrize("name", ["query", "key"])
def test_matrices_are_refused_however_few_their_scores_are(name):
    app = go(new(), "step_by_step", source="own")
    for field in ("key", "value") if name == "key" else ("query",):
        app.text_area(state.OWN[field]).set_value("1,2\n" * (MOST + 1))
    assert f"this host takes at most {MOST} of each. Leave some out" in refused(app)
