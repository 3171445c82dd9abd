"""What a page shows as the few lines of Python that compute it, for a notebook.

Views tell what they were asked for (`ui.shown`); fields whose values are numbers and texts are read by their keys. Whatever
others wrote stands in the lines as Python writes text, so that it cannot become code. An empty line stands where a notebook's
next cell may begin.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import streamlit as st

import core
from core.attention.matrix_files import read_mask, read_matrix
from core.capturing.sampling import Sampling
from core.heads.examples import LANGUAGE_MODEL, SENTENCE_MODEL
from core.heads.views import HeadView
from ui import models, passes, state
from ui import shown as pages
from ui.controls.heads_by import ByMetric, ByPattern
from ui.controls.what_if import AS_GIVEN, CUSTOM, Change
from ui.requests import (
    CorpusRequest,
    EffectRequest,
    HeadRequest,
    KindRequest,
    ModelChoice,
    PatchRequest,
    TextRequest,
    WritingRequest,
)
from ui.sharing.lessons_as_python import LESSONS
from ui.views.heads import results

LONG = 1_024  # tokens: a trace of more takes memory, a head does not
WIDE = 88  # letters of an import in one line
Asked = TypeVar("Asked")

DOOR = frozenset(dir(core))
# Where names live that do not stand at the door.
HOMES = {
    "Effects": "heads.effects",
    "Path": "pathlib",
    "HeadView": "heads.views",
    "ViewMatrix": "heads.views",
    "all_inputs": "models.inputs",
    "blocks": "heads.patterns",
    "columns": "heads.patterns",
    "diagonal": "heads.patterns",
    "from_rows": "attention.masks",
    "head_contributions": "heads.contributions",
    "knows_paris": "heads.examples",
    "needs_previous": "heads.examples",
    "open_run": "corpus.opened",
    "pair_shares": "heads.pairs",
    "pair_sides": "heads.pairs",
    "pairs": "heads.patterns",
    "patch_effects": "heads.patching",
    "patch_pronoun": "heads.examples",
    "read_image": "models.images",
    "read_keys": "heads.patterns",
    "read_mask": "attention.matrix_files",
    "read_matrix": "attention.matrix_files",
    "read_npz": "attention.matrix_files",
    "read_pairs": "heads.patterns",
    "spread_over_quantiles": "corpus.opened",
    "strongest_pair": "attention.ledger",
    "thumbnails": "heads.thumbnails",
} | {name: f"lessons.{lesson}" for lesson, (names, _) in LESSONS.items() for name in names}


def show_as_python(shown: pages.Shown) -> None:
    """The lines, with a button that copies them; or that there are none."""
    lines = lines_of(shown)
    if lines is None:
        st.caption("There are no lines for what this page shows now.")
    else:
        st.code(lines, language="python")
        st.caption("`pip install .` in Headlight's own folder makes `headlight` known to Python.")


def lines_of(shown: pages.Shown) -> str | None:
    """A program whose last line gives what the page shows; None where there is none."""
    makers = {
        "step_by_step": _steps,
        "heads": _heads,
        "what_if": _what_if,
        "generation": _written,
        "corpus": _corpus,
    } | dict.fromkeys(LESSONS, _lesson)
    lines = makers[shown.page](shown) if shown.page in makers else None
    return with_imports(lines) if lines else None


def with_imports(lines: Iterable[str]) -> str:
    """The lines below the imports of whatever they name."""
    body = "\n".join(lines)
    homes: dict[str, list[str]] = {}
    for name in sorted({node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}):
        if name in DOOR:
            homes.setdefault("headlight", []).append(name)
        elif name in HOMES:
            homes.setdefault(HOMES[name] if name == "Path" else f"headlight.{HOMES[name]}", []).append(name)
    imports = [_import(home, homes[home]) for home in sorted(homes, key=lambda home: (home != "pathlib", home))]
    if "np." in body:
        imports.insert("pathlib" in homes, "import numpy as np")
    return "\n".join([*imports, "", body])


def _import(home: str, names: list[str]) -> str:
    line = f"from {home} import {', '.join(names)}"
    return line if len(line) <= WIDE else "\n".join([f"from {home} import (", *(f"    {name}," for name in names), ")"])


def _said(key: str) -> Any:
    """What the field of this key holds."""
    return st.session_state.get(key)


def _asked(shown: pages.Shown, kind: type[Asked]) -> Asked | None:
    """What a view was last asked for, of this kind; None where nothing."""
    return next((one for one in reversed(shown.asked) if isinstance(one, kind)), None)


def _call(function: str, *given: str, **named: object) -> str:
    """A call: `given` as Python, `named` as values, those that are None left out."""
    words = [*given, *(f"{name}={value!r}" for name, value in named.items() if value is not None)]
    return f"{function}({', '.join(words)})"


# --- a pass over a text, and a head of it


def _pass(text: TextRequest, name: str = "passed", model: str = "model") -> list[str]:
    """The model, the text, and the pass over it."""
    said = [] if text.image is not None else [f"text = {text.text!r}"]
    return [_model(text.model, model), *said, _capture(text, "text", name, model)]


def _model(of: ModelChoice, name: str = "model") -> str:
    usual = ModelChoice(of.name)
    more = {part: getattr(of, part) for part in ("dtype", "device") if getattr(of, part) != getattr(usual, part)}
    return f"{name} = {_call('load_model', repr(of.name), **more)}"


def _capture(text: TextRequest, words: str, name: str = "passed", model: str = "model") -> str:
    """words: the text in Python"""
    read = words if text.image is None else f"image=read_image(Path({_said(state.SHOWN_IMAGE)[0]!r}).read_bytes())"
    return f"{name} = {_call('capture', model, read, **_beside(text), edits=text.edits or None)}"


def _beside(text: TextRequest) -> Mapping[str, object]:
    """What is read besides the text, and how much of it."""
    cut = {} if text.keep is None else {"max_tokens": text.keep, "truncate": True}
    return {"pair": text.pair, "target": _target(text)} | cut


def _target(text: TextRequest) -> str | tuple[int, ...] | None:
    """What the decoder was given; what it wrote by itself as token numbers."""
    return passes.target_of(text) or None


def _kind(of: HeadRequest | KindRequest) -> str | None:
    """The kind of attention, where it is not the first, which goes without saying."""
    return None if of.kind == passes.captured(of.text).kinds[0] else of.kind


def _head(of: HeadRequest) -> str:
    """The trace of a head; of a long text the head, which makes a few rows at a time."""
    method = "head" if _is_long(of) else "trace"
    return f"trace = {_at(of, 'passed', method)}"


def _at(of: HeadRequest, passed: str, method: str = "trace") -> str:
    return _call(f"{passed}.{method}", layer=of.layer, head=of.head, kind=_kind(of))


def _is_long(of: HeadRequest) -> bool:
    return max(passes.captured(of.text).shape(of.kind)) > LONG


def _tokens(of: HeadRequest, passed: str = "passed") -> str:
    kind = _kind(of)
    return _call(f"{passed}.tokens", *([] if kind is None else [repr(kind)]))


def _figure(name: str, stage: str, tokens: str) -> str:
    given = [name, repr(stage), *([f"tokens={tokens}"] if tokens else []), "cell=cell"]
    return _call("stage_figure", *given)


def _cell(name: str, is_long: bool) -> str:
    """The chosen (query, key): where a box is empty, that of the strongest pair."""
    strongest = f"{name}.strongest({name}.overview())" if is_long else f"strongest_pair({name})"
    chosen = _said(state.QUERY), _said(state.KEY)
    if chosen == (None, None):
        return f"cell = {strongest}"
    query, key = (f"{strongest}[{at}]" if place is None else repr(place) for at, place in enumerate(chosen))
    return f"cell = ({query}, {key})"


# --- Step by step


def _steps(shown: pages.Shown) -> list[str] | None:
    is_long = False
    if shown.of is not None:
        is_long = _is_long(shown.of)
        lines, tokens = [*_pass(shown.of.text), _head(shown.of)], _tokens(shown.of)
    else:
        source = {"toy": _toy, "random": _random, "own": _own}.get(_said(state.SOURCE))
        if source is None:
            return None
        lines, tokens = source()
    name, change = "trace", _asked(shown, Change)
    if change is not None:
        name = "changed"
        lines.append(f"changed = trace.changed({_changes(change)})")
    explained = f"{name}.explain(*cell)" if is_long else f"explain({name}, *cell)"
    return [*lines, "", _cell(name, is_long), explained, "", _figure(name, _said(state.STAGE), tokens)]


def _toy() -> tuple[list[str], str]:
    return _of_matrices(
        _call("toy_sentence", repr(_said(state.TOY_TEXT)), d_head=_said(state.TOY_SIZE), seed=_said(state.SEED))
    )


def _random() -> tuple[list[str], str]:
    sizes = [repr(_said(key)) for key in (state.QUERIES, state.KEYS, state.D_K, state.D_V)]
    more = {"seed": _said(state.SEED), "distribution": _said(state.DISTRIBUTION)}
    return _of_matrices(_call("random_matrices", *sizes, **more))


def _of_matrices(made: str) -> tuple[list[str], str]:
    lines = [f"made = {made}", "trace = attend(made.query, made.key, made.value)"]
    return lines, "(made.query_tokens, made.key_tokens)"


def _own() -> tuple[list[str], str]:
    """What was typed, as lists; files by their names, to be put where the notebook is."""
    if (archive := _said(state.ARCHIVE)) is not None:
        return [f"trace = attend(**read_npz(Path({archive.name!r}).read_bytes()))"], ""
    lines = []
    for name, key in state.OWN.items():
        file, typed = _said(state.FILES[name]), _said(key)
        read = "read_mask" if name == "mask" else "read_matrix"
        if file is not None:
            field = [] if name == "mask" else [f"field={name!r}"]
            lines.append(f"{name} = {_call(read, f'Path({file.name!r}).read_bytes()', *field)}")
        elif name != "mask":
            lines.append(f"{name} = {_plain(read_matrix(typed, field=name).tolist())!r}")
        elif typed.strip():
            lines.append(f"mask = {read_mask(typed).astype(int).tolist()!r}")
    mask = ["mask=mask"] if len(lines) == len(state.OWN) else []
    return [*lines, f"trace = {_call('attend', 'query', 'key', 'value', *mask)}"], ""


def _plain(rows: list[list[float]]) -> list[list[float]]:
    """1.0 as 1, as somebody typed it."""
    return [[int(number) if number.is_integer() else number for number in row] for row in rows]


def _changes(change: Change) -> str:
    said = [] if change.scaling else ["scale=1.0"]
    if change.mask == CUSTOM and change.rows.strip():
        said.append(f"mask={read_mask(change.rows).astype(int).tolist()!r}")
    elif change.mask not in (AS_GIVEN, CUSTOM):
        said.append(f"mask=MASKS[{change.mask!r}].grid({change.number!r}, *trace.shape)")
    return ", ".join(said)


# --- Heads


def _heads(shown: pages.Shown) -> list[str] | None:
    of = shown.of
    if of is None:
        return None
    if not models.load(of.text.model).captures:
        read = f"passed = {_call('attention_weights', 'model', repr(of.text.text))}"
        of_all = _of_all_heads(shown, of, None)
        return [_model(of.text.model), read, *of_all, "", _call("passed.weights", repr(of.layer), repr(of.head))]
    kind, view = _kind(of), _asked(shown, HeadView)
    lines = [*_pass(of.text), *_of_all_heads(shown, of, kind), ""]
    if view is None or view == HeadView(heads=((of.layer, of.head),)):
        return [*lines, _head(of), _cell("trace", _is_long(of)), _figure("trace", "weights", _tokens(of))]
    return [*lines, f"view = {view!r}", f"ViewMatrix(passed, {of.kind!r}, view).overview().matrices['view'].values"]


def _of_all_heads(shown: pages.Shown, of: HeadRequest, kind: str | None) -> list[str]:
    """The number by which heads are coloured and listed, or their small pictures."""
    words = [] if kind is None else [repr(kind)]
    by_metric, by_pattern = _asked(shown, ByMetric), _asked(shown, ByPattern)
    if by_pattern is not None:
        name, made = "Match", _call("match_heads", "passed", _pattern(by_pattern), *words)
    elif by_metric is None:
        return []
    elif by_metric.on == "random":
        length = repr(results.probe_length(of.text.model))
        name, made = by_metric.metric.name, _call("probe_heads", "model", length, repr(results.PROBE_SEEDS))
    else:
        name, made = by_metric.metric.name, _call("head_metrics", "passed", *words)
    pictures = [_call("thumbnails", "passed", *words)] if _said(state.ATLAS_BY) == "pictures" else []
    return ["", f"numbers = {made}", _call("heads_figure", "numbers", repr(name), head=(of.layer, of.head)), *pictures]


def _pattern(by: ByPattern) -> str:
    match by.pattern:
        case "diagonal":
            return f"diagonal({int(by.detail)})"
        case "stripes":
            return f"columns(read_keys({by.detail!r}))"
        case "blocks":
            return f"blocks({int(by.detail)})"
        case "pairs":
            return f"pairs(read_pairs({by.detail!r}))"
    return "columns([0])"


# --- What if


def _what_if(shown: pages.Shown) -> list[str] | None:
    view = _said(state.VIEW)
    if view == "examples":
        return _example()
    makers = {"change": _changed, "matter": _effects, "patch": _patched, "compare": _compared}
    return None if shown.of is None else makers[view](shown, shown.of)


def _changed(shown: pages.Shown, of: HeadRequest) -> list[str]:
    """The pass and the changed one, what comes of both, and the head in both."""
    outcome = "vectors" if passes.captured(of.text).logits is None else "next_tokens(5)"
    if not shown.beside:
        return [*_pass(of.text), _head(of), f"passed.{outcome}"]
    changed = next(iter(shown.beside.values()))
    made = [*_pass(of.text), _capture(changed.text, "text", "edited")]
    return [
        *made,
        "",
        f"passed.{outcome}, edited.{outcome}",
        "",
        f"compare({_at(of, 'passed')}, {_at(changed, 'edited')})",
    ]


def _compared(shown: pages.Shown, one: HeadRequest) -> list[str] | None:
    if not shown.beside:
        return None
    two = next(iter(shown.beside.values()))
    if two.text == one.text:
        return [*_pass(one.text), "", f"compare({_at(one, 'passed')}, {_at(two, 'passed')})"]
    is_one_model = two.text.model == one.text.model
    lines, loosely = _pass(one.text), "" if is_one_model else ", loosely=True"
    if not is_one_model:
        lines.append(_model(two.text.model, "other_model"))
    lines.append(_capture(two.text, repr(two.text.text), "other", "model" if is_one_model else "other_model"))
    lines += ["", f"ours, theirs = {_tokens(one)}, {_tokens(two, 'other')}"]
    axes = [f"{side} = align(ours[{at}], theirs[{at}]{loosely})" for at, side in enumerate(("queries", "keys"))]
    return [*lines, *axes, f"compare({_at(one, 'passed')}, {_at(two, 'other')}, queries=queries, keys=keys)"]


def _effects(shown: pages.Shown, of: HeadRequest) -> list[str] | None:
    asked = _asked(shown, EffectRequest)
    if asked is None:
        return None
    text, kind = asked.of.text, _kind(asked.of)
    lines = [_model(text.model), f"text = {text.text!r}"]
    if asked.taken_away == "heads" and text.keep is None:
        call = _call("head_effects", "model", "text", token=asked.token, **_beside(text), kind=kind)
        return [*lines, f"effects = {call}", _call("heads_figure", "effects", "'effect'", head=(of.layer, of.head))]
    inputs = f"inputs = {_call('all_inputs', 'model', 'text', **_beside(text))}"
    effects = _call("Effects", "model", "inputs", token=asked.token, kind=kind)
    taken = {"heads": "of_heads", "layers": "of_layers", "tokens": "of_keys"}[asked.taken_away]
    return [*lines, inputs, f"dict({effects}.{taken}())"]


def _patched(shown: pages.Shown, of: HeadRequest) -> list[str] | None:
    asked = _asked(shown, PatchRequest)
    if asked is None or asked.of.text.keep is not None:
        return None
    text = asked.of.text
    more = {"target": _target(text), "kind": _kind(asked.of), "through": asked.through}
    call = _call("patch_effects", "model", repr(text.text), repr(asked.source), **more)
    return [_model(text.model), f"moved = {call}", _call("heads_figure", "moved", "'moved'", head=(of.layer, of.head))]


def _example() -> list[str] | None:
    decoder, encoder = (_model(ModelChoice(name)) for name in (LANGUAGE_MODEL, SENTENCE_MODEL))
    probed = _call("probe_heads", "model", repr(results.PROBE_LENGTH), repr(results.PROBE_SEEDS))
    return {
        "paris": [decoder, "knows_paris(model)"],
        "induction": [decoder, f"needs_previous(model, {probed})"],
        "pronoun": [encoder, "patch_pronoun(model)"],
    }.get(_said(state.EXAMPLE))


# --- Generation


def _written(shown: pages.Shown) -> list[str] | None:
    """The text that is written, and the head in the chosen step."""
    asked, of = _asked(shown, WritingRequest), shown.of
    if asked is None or of is None:
        return None
    text, usual = asked.text, Sampling()
    said = {name: getattr(asked.sampling, name) for name in ("temperature", "top_k", "top_p", "seed")}
    more = {name: value for name, value in said.items() if value != getattr(usual, name)}
    cut = {} if text.keep is None else {"max_tokens": text.keep, "truncate": True}
    new_tokens = _said(state.NEW_TOKENS)
    written = _call("generate", "model", "text", new_tokens=new_tokens, **more, chat=asked.chat or None, **cut)
    kind = None if of.kind == "self" else of.kind
    tokens = _call("passed.tokens", *([] if kind is None else [repr(kind)]))
    return [
        _model(text.model),
        f"text = {text.text!r}",
        f"written = {written}",
        "written.text",
        "",
        f"passed = written.capture_of({int(_said(state.STEP) or 1) - 1})",
        f"trace = {_call('passed.trace', layer=of.layer, head=of.head, kind=kind)}",
        f"cell = (len(trace.weights) - 1, {_said(state.KEY)!r})"
        if _said(state.KEY) is not None
        else "cell = (len(trace.weights) - 1, trace.weights[-1].argmax())",
        "",
        _figure("trace", "weights", tokens),
    ]


# --- Corpus


def _corpus(shown: pages.Shown) -> list[str] | None:
    """The run by its name, wherever it lies, its numbers for the chosen head and metric, and the examples."""
    asked = _asked(shown, CorpusRequest)
    if asked is None:
        return None
    head, metric = f"layer={asked.layer}, head={asked.head}", repr(asked.metric)
    lines = [
        f"run = open_run({f'corpora/{asked.run}'!r})",
        f"run.means({metric})",
        "",
        f"run.distribution({head}, metric={metric}).quantile(0.5)",
        f"run.classes({head})",
        "",
    ]
    if asked.kept == "strongest":
        return [*lines, f"run.strongest({head}, metric={metric})"]
    low, high = asked.quantiles
    return [
        *lines,
        f"sample = run.sample({head})",
        f"places = spread_over_quantiles(sample.ordered({metric}, {low!r}, {high!r}))",
        f"sample.examples(places, {metric})",
    ]


# --- Learn


def _lesson(shown: pages.Shown) -> list[str] | None:
    """The experiment with its knobs; of a part that measures in a real model, the pass and the head before it."""
    experiment, text = LESSONS[shown.page][1].get(_said(state.PART)), _asked(shown, TextRequest)
    if experiment is None:
        return None
    lines = [] if text is None else _pass(text)
    if shown.of is not None:
        lines.append(f"trace = {_at(shown.of, 'passed')}")
    return [*lines, *([""] if lines else []), *experiment(_said)]
