"""The page "Corpus": what it says of a run is what the run holds, and what cannot be shown is said."""

import json
import os
import re
import shutil
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core import capture, head_metrics, load_model
from core.claims.known import included_texts
from core.corpus.opened import open_run
from tests.core.corpus.damages import damages
from tests.core.corpus.made_runs import CLAIMS, CLUSTERS, FILE, SENTENCES, STRONGEST, add_map, made_run
from tests.core.tiny_models import CAUSAL_WEIGHTS, randomised
from tests.pages.app import address, choose, fields, figure, go, links, opened, press, ran, saved, words
from tests.ui.sharing.test_as_python import View, run_lines
from ui import state
from ui.views.corpus import run as corpus

HERE = {state.LAYER: "2", state.HEAD: "9", state.METRIC: "previous"}


@pytest.fixture(scope="module")
def folder(minilm, tmp_path_factory) -> Path:
    """A folder with two runs, one of them with a map."""
    folder = tmp_path_factory.mktemp("corpora")
    made_run(folder / "a_few_heads", minilm, sentences=SENTENCES[:1], heads=((1, 3), (4, 0)))
    add_map(made_run(folder / "sentences", minilm))
    return folder


@pytest.fixture(autouse=True)
def _runs(folder):
    with mock.patch.object(corpus, "corpora", return_value=folder):
        yield


def page(**said: str) -> AppTest:
    return opened("corpus", **{state.RUN: "sentences"} | HERE | said)


def live(app: AppTest) -> list[dict[str, list[str]]]:
    """The links that open examples, by what they say."""
    return links(app, label="Open live")


def test_a_run_a_head_and_its_examples_are_told_with_their_numbers(folder):
    app, run = page(), open_run(folder / "sentences")
    said, found = words(app), run.distribution(2, 9, "previous")
    assert "all-MiniLM-L6-v2 has read" in said.replace("**", "")
    assert f"in {len(SENTENCES)} passages of 1 file: {FILE}" in said
    assert "somewhere" not in said  # where on this machine is nobody's business
    assert [one.label for one in app.expander] == ["1 text could not be read"]
    assert f"Mean **{found.mean:.1%}**" in said
    assert f"lie between {found.quantile(0.25):.1%} and {found.quantile(0.75):.1%}" in said
    assert f"Over {found.count} queries" in said
    assert figure(app, "heads of the corpus").layout["meta"]["rows"] == "layer"
    assert f"1 to 10 of the {STRONGEST} queries" in said
    for number, one in enumerate(run.strongest(2, 9, "previous", 0, 10), 1):
        assert f"**{number}. Previous token {one.score:.1%}**" in said
        assert f"{FILE}, row {one.row}" in said
    assert len(live(app)) == 10
    assert f"11 to {STRONGEST} of the" in words(choose(app, state.BATCH, 2))
    app = choose(app, state.METRIC, "entropy")
    assert f"Mean **{run.distribution(2, 9, 'entropy').mean:.3g} nats**" in words(app)
    fields(app, **{state.LOOKS_BY: "distance"})
    fields(app, **{state.LOOKS_BY: "relation"})
    assert any("baseline" in table.value for table in app.dataframe)
    first = next(button for button in app.button if button.key == state.one_of(state.ALIKE, 0))
    assert first.label.startswith("2.10")
    press(app, first.label)
    assert (app.session_state[state.LAYER], app.session_state[state.HEAD]) == (2, 10)
    assert "Layer 2, head 10" in [one.value for one in app.subheader]


@pytest.mark.thorough
def test_an_example_opens_live_whatever_text_was_read_before(folder):
    found = open_run(folder / "sentences").strongest(2, 9, "previous", 2, 3)[0]
    app = opened("heads", **{state.TEXT: "Something else.", state.LAYER: "1", state.QUERY: "1"})
    fields(go(app, "corpus"), **{state.METRIC: "previous", state.RUN: "sentences", state.HEAD_BOX: "2.9"})
    go(app, "heads", **live(app)[2])
    expected = {state.TEXT: found.text, state.MODEL: "all-MiniLM-L6-v2", state.LAYER: 2, state.HEAD: 9}
    expected |= {state.QUERY: found.query, state.KEY: int(np.argmax(found.weights))}
    assert {key: app.session_state[key] for key in expected} == expected


def test_the_sample_is_cut_to_quantiles(folder):
    sample = open_run(folder / "sentences").sample(2, 9)
    app = page(kept="spread")
    most = sample.examples(sample.ordered("previous")[:1], "previous")[0]
    assert f"**1. Previous token {most.score:.1%}**" in words(app)
    app = choose(app, state.QUANTILES, (0, 25))
    places = sample.ordered("previous", 0, 0.25)
    best = sample.examples(places[:1], "previous")[0]
    assert f"**1. Previous token {best.score:.1%}**" in words(app)
    assert f"of {len(places)}, most first" in words(app)
    assert "There are no such queries" in words(choose(app, state.QUANTILES, (0, 0)))
    said = words(page(metric="sink"))
    assert "Of this metric the run kept no strongest queries" in said
    assert "**1. First token" in said


def test_heads_that_were_not_looked_at_are_said():
    app = opened("corpus", run="a_few_heads", layer="0", head="0")
    assert "did not look at head 0.0" in words(app)
    assert not live(app)


def test_the_map_shows_clusters_with_words():
    app = page(heads_as="map")
    drawn = figure(app, "heads of the corpus")
    assert [trace["name"] for trace in drawn.data if trace.get("showlegend") is not False] == list(CLUSTERS)
    assert drawn.layout["meta"]["map"]["places"][13][:2] == [1, 1]
    alt = next(chart.proto.alt for chart in app.get("plotly_chart") if "map of all heads" in chart.proto.alt)
    assert f"argest: cluster {CLUSTERS[1]}: 48" in alt


def test_the_claims_of_a_run_stand_at_their_heads(minilm, tmp_path):
    """In the line of the head and where one points at it on the map; what somebody has written stays text."""
    marked = (*CLAIMS, 'any head: looks at special tokens or words among "<b>$x$", at least 0.5')
    sentences = tuple(one.text for one in included_texts() if not isinstance(one, str))[:24]
    add_map(made_run(tmp_path / "claimed", minilm, sentences=sentences, claims=marked))
    found = open_run(tmp_path / "claimed").claims_by_head
    row = found[(found["head"] == "0.2") & (found["verdict"] == "holds")].iloc[0]
    words_of = f"the previous token {row['share']:.1%} ({row['low']:.1%} to {row['high']:.1%})"
    with mock.patch.object(corpus, "corpora", return_value=tmp_path):
        app = opened("corpus", layer="0", head="2", run="claimed", heads_as="map")
        assert f"holds: {words_of}" in words(app)
        said = {}
        for trace in figure(app, "heads of the corpus").data:
            if "customdata" in trace:
                places = map(tuple, trace["customdata"])
                said |= dict(zip(places, trace["text"], strict=True))
        assert said[0, 2].startswith(f"<br>{words_of}")
        assert said[5, 11] == ""
        assert not any("<b>" in text or "$" in text for text in said.values())
        assert any("&lt;b&gt;&#36;x&#36;" in text for text in said.values())
        assert "holds: " not in words(opened("corpus", layer="5", head="11", run="claimed"))


@pytest.mark.parametrize("place", [None, Path("nowhere")])
def test_without_runs_it_opens_on_the_included_one_and_says_what_stands_out(place):
    with mock.patch.object(corpus, "corpora", return_value=place):
        app = opened("corpus")
    means = (
        pd.read_parquet(corpus.INCLUDED / "metrics.parquet").set_index(["metric", "layer", "head"])["mean"].to_dict()
    )
    name, chosen = app.session_state[state.METRIC], app.session_state[state.HEAD_BOX]
    mean = means[(name, *map(int, chosen.split(".")))]
    assert mean == max(other for (metric, *_), other in means.items() if metric == name)
    assert re.search(rf"Head {chosen} gives \*\*{mean:.1%}\*\* of its attention to .*, on average over", words(app))


def asked(app, text=None):
    """With the text in its field, or a file, and Run pressed."""
    if text is None:
        app.file_uploader(key=state.OWN_FILE).set_value(("my: *text*.txt", SENTENCES[0].encode(), "text/plain"))
    else:
        app.text_area(key=state.OWN_TEXT).set_value(text)
    app.button(key=state.START_RUN).click()
    return ran(app)


@pytest.mark.thorough
def test_a_pasted_text_is_run_on_the_page(minilm):
    """It is short, so that it is one passage: what one pass over it measures is what the page says."""
    text = " ".join(SENTENCES)
    app = asked(page(), text)
    head = app.session_state[state.HEAD_BOX]
    layer, number = map(int, head.split("."))
    measured = head_metrics(capture(minilm, text)).set_index(["layer", "head"])
    share = measured.loc[(layer, number), app.session_state[state.METRIC]]
    said = words(app)
    assert f"Head {head} gives **{share:.1%}**" in said
    assert f"{len(capture(minilm, text).input_ids)} tokens** in 1 passage of 1 file: pasted.txt" in said
    assert address(app, state.RUN) == [state.RUN_OWN]
    assert "in 5 passages" in words(choose(app, state.RUN, "sentences"))


def test_a_file_of_an_earlier_visit_is_asked_for_again_and_keeps_its_name():
    app = page(**{state.RUN: state.RUN_OWN})
    assert "was given in an earlier visit" in words(app)
    assert address(app, state.RUN) == [state.RUN_OWN]
    assert "of 1 file: my_ _text_.txt" in words(asked(app))
    assert app.session_state[state.OWN_RUN].contents == SENTENCES[0].encode()


def test_a_file_that_is_no_longer_on_the_server_is_said_to_be_gone():
    """As after a restart, which a browser with the file's name in its field outlives."""
    app = page()
    with mock.patch.object(app, "_register_uploaded_files"):
        app = asked(app)
    assert "This file is no longer on the server." in words(app)
    assert "There is no text in it." in words(app)


@pytest.mark.parametrize(
    ("text", "said"),
    [(" \n", "There is no text in it."), (40 * "word ", "more than 20 tokens for all-MiniLM-L6-v2. Shorten it")],
)
def test_a_text_that_cannot_be_run_is_said_to_be_so_and_stays(text, said):
    with mock.patch.object(corpus, "MOST_TOKENS", 20):
        app = asked(page(), text)
    assert said in words(app)
    assert app.text_area(key=state.OWN_TEXT).value == text


@pytest.mark.thorough
def test_of_all_runs_over_texts_of_their_own_visitors_see_only_theirs():
    asked(page(), "A text that one visitor has pasted.")
    app = page(run=state.RUN_OWN)
    assert "pasted.txt" not in words(app)
    assert "was given in an earlier visit" in words(app)


@pytest.fixture(scope="module")
def every(folder):
    return damages(folder / "sentences", folder / "a_few_heads")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("metrics.mean: NaN", {}),
        ("sample.weights: with NaN", {state.KEPT: "spread"}),
    ],
)
def test_a_run_that_cannot_be_read_is_said_to_be_so(every, folder, tmp_path, name, said):
    """When it is opened, or with the rows in which it cannot be."""
    for one in ("bad", "good"):
        shutil.copytree(folder / "sentences", tmp_path / one)
    every[name](tmp_path / "bad")
    with mock.patch.object(corpus, "corpora", return_value=tmp_path):
        app = page(run="bad", layer="5", head="11", **said)
        assert "“bad” cannot be read: " in words(app).replace("'bad'", "“bad”")
        assert "Run it again, into another folder." in words(app)
        app = choose(app, state.RUN, "good")
        assert not app.error
        assert len(live(app)) == 10


def test_broken_runs_are_named_beside_the_others(every, folder, tmp_path):
    for one in ("bad", "good"):
        shutil.copytree(folder / "sentences", tmp_path / one)
    every["metadata: brackets without an end"](tmp_path / "bad")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "metrics.parquet").write_bytes(b"PAR1")
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")
    with mock.patch.object(corpus, "corpora", return_value=tmp_path):
        app = opened("corpus")
    assert next(one.label for one in app.expander) == "3 folders beside the runs cannot be opened"
    for said in ("“bad” cannot be read: its files do not say what was run", "“half” is not complete", "has read"):
        assert said in re.sub("'(bad|half)'", r"“\1”", words(app))


def test_a_run_whose_files_change_is_opened_anew(every, folder, tmp_path):
    shutil.copytree(folder / "sentences", tmp_path / "run")
    with mock.patch.object(corpus, "corpora", return_value=tmp_path):
        app = page(run="run")
        assert not app.error
        every["passages: one row missing"](tmp_path / "run")
        assert "has a query in a passage that is not there" in words(ran(app))
        shutil.copyfile(folder / "sentences" / "passages.parquet", tmp_path / "run" / "passages.parquet")
        assert not ran(app).error


def test_a_model_that_exposes_weights_only_has_no_chance(tmp_path):
    model = load_model(saved(tmp_path / "model", randomised(CAUSAL_WEIGHTS["GPT-J"]())))
    made_run(tmp_path / "corpora" / "weights", model, sentences=("1 2 3 4 1 2 3", "5 6 7 5 6"))
    with mock.patch.object(corpus, "corpora", return_value=tmp_path / "corpora"):
        app = opened("corpus")
        assert "exposes its weights only" in words(app)
        assert len(live(app)) == 10
        assert not [one for one in app.get("button_group") if one.key == state.AGAINST]
        assert "chance" not in json.dumps(figure(choose(app, state.LOOKS_BY, "distance"), "looks").data)


def test_the_same_in_python(folder, tmp_path, monkeypatch):
    (tmp_path / "corpora").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    here = {"run": "sentences", "layer": "2", "head": "9", "metric": "previous"}
    lines = View("corpus", **here, kept="spread", quantiles=["25", "75"]).lines
    means, median, classes, examples = run_lines(lines, tmp_path)["results"]
    run = open_run(folder / "sentences")
    np.testing.assert_array_equal(means, run.means("previous"))
    assert median == run.distribution(2, 9, "previous").quantile(0.5)
    assert classes.equals(run.classes(2, 9))
    sample = run.sample(2, 9)
    places = sample.ordered("previous", 0.25, 0.75)
    scores = {example.score for example in sample.examples(places, "previous")}
    assert len(examples) > 1
    assert {example.score for example in examples} <= scores


def test_a_visitor_can_ask_for_anything():
    for said in ({state.BATCH: "99"}, {state.QUANTILES: "1e999"}, {state.RUN: "../.."}, {state.LAYER: "77"}):
        assert "has read" in words(page(**said))
