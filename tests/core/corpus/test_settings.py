"""The settings of a run: what is refused, what a stopped run goes on with, and the metrics that belong to them."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from pyarrow import fs

from core.corpus.folder import RunFolder, load_parts, save_part
from core.corpus.settings import Job, RunSettings
from core.corpus.tables import schema_of, tables
from core.heads.metrics import NAMES
from tests.core.corpus.plain import passages, settings_of, tallied
from tests.refusals import refused

OTHER = RunSettings(
    column="body",
    by="line",
    heads=((0, 1), (1, 0)),
    tokens=900,
    passage_tokens=16,
    strongest=2,
    sample=3,
    examples_of=("next",),
    claims=("0.1: looks at itself, at least 0.5",),
    dtype="float64",
    device="cuda",
    metrics=("next", "sink"),
)


def test_settings_come_back_from_their_json_form():
    for one in (RunSettings(), OTHER):
        assert RunSettings.read(json.loads(json.dumps(asdict(one)))) == one
    assert all(value != getattr(OTHER, name) for name, value in asdict(RunSettings()).items())


@pytest.mark.parametrize("name", [*asdict(OTHER), "model", "revision", "folder", "versions", "corpus"])
def test_a_stopped_run_does_not_go_on_with_anything_else(name, tmp_path):
    """Both values are named; measured metrics are a setting like the others, and other weights are another revision."""
    begun, folder = job("model", RunSettings()), RunFolder.of(str(tmp_path / "run"))
    folder.begin(begun, 0)
    folder.begin(begun, 0)
    there = json.loads(begun)
    here = asdict(OTHER).get(name, "another")
    with refused("out") as error:
        folder.begin(json.dumps(there | {name: here}, sort_keys=True, indent=1), 0)
    here = json.loads(json.dumps(here))
    assert f"another run has been begun, with {name} {there[name]} (here {here}). Continue" in str(error.value)


def test_a_run_that_another_version_has_begun_is_refused_in_words(tmp_path):
    """One that did not write down which metrics it measured."""
    here, folder = job("model", RunSettings()), RunFolder.of(str(tmp_path / "run"))
    before = json.loads(here)
    del before["metrics"]
    folder.begin(json.dumps(before), 0)
    with refused("out", r"with a job\.json that another version of Headlight has written\."):
        folder.begin(here, 0)


def test_job_json_names_no_folders_of_the_machine():
    of_run = Job("/home/somebody/model", "revision", "/home/somebody/texts", {}, OTHER)
    assert "somebody" not in of_run.json("corpus")
    kept = json.loads(of_run.json("corpus"))
    assert (kept["model"], kept["folder"]) == ("model", "texts")
    there = json.loads(replace(of_run, model="org/name", folder="s3://bucket/texts").json("corpus"))
    assert (there["model"], there["folder"]) == ("org/name", "s3://bucket/texts")


def job(model: str, of_run: RunSettings) -> str:
    return Job(model, "revision", "folder", {"torch": "2"}, of_run).json("corpus")


def test_metrics_and_heads_are_counted_by_their_names(bert, tmp_path):
    """Some of them, in another order: the same numbers as among all."""
    chosen = {
        "metrics": ("distance", "next", "entropy"),
        "examples_of": ("entropy",),
        "heads": ((1, 2), (0, 3), (1, 0)),
    }
    every, some = (tallied(bert, passages(3), settings_of(bert, **given)) for given in ({}, chosen))
    metrics = [NAMES.index(name) for name in some.settings.metrics]
    heads = [every.settings.heads.index(head) for head in some.settings.heads]
    both = np.ix_(metrics, heads)
    assert (some.histogram == every.histogram[both]).all()
    assert (some.totals.values == every.totals.values[both]).all()
    np.testing.assert_array_equal(some.sample.rows["weights"], every.sample.rows["weights"][:, heads])
    # A product of other heads may round otherwise.
    np.testing.assert_allclose(some.attention.values, every.attention.values[heads], rtol=1e-6, atol=1e-9)
    of_some, of_all = some.strongest.rows, every.strongest.rows
    of_all = of_all[of_all["metric"] == every.settings.examples_of.index("entropy")]
    for place, head in enumerate(heads):
        np.testing.assert_array_equal(
            of_some["score"][of_some["head"] == place], of_all["score"][of_all["head"] == head]
        )
    written = dict(tables(some, dict.fromkeys(some.shown_passages, ())))
    assert written["metrics"]["metric"].to_pylist()[:3] == ["distance", "next", "entropy"]
    assert written["sample"].schema == schema_of("sample", some.settings.metrics)
    name = save_part(some, fs.LocalFileSystem(), str(tmp_path))
    assert load_parts(fs.LocalFileSystem(), str(tmp_path), name).settings == some.settings
