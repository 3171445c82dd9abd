"""The few lines of Python that compute what a page shows, for a notebook.

Views note their requests in `ui.shown`; fields whose values are numbers and texts are read by their keys. Text that others
wrote is quoted with `repr`, so that it cannot become code. An empty line separates parts that may be cells of a notebook.
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

LONG = 1_024  # tokens: the trace of a longer text takes much memory, its head does not
WIDE = 88  # characters of an import in one line
Request = TypeVar("Request")

DOOR = frozenset(dir(core))
# Modules of the names that `from core import ...` does not offer.
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


def show_as_python(shown: pages.PageContents) -> None:
    """Show the lines with a button that copies them, or say that there are none."""
    lines = lines_of(shown)
    if lines is None:
        st.caption("There is no Python for what this page shows now.")
    else:
        st.code(lines, language="python")
        st.caption("To install `headlight`, run `pip install .` in Headlight's own folder.")


def lines_of(shown: pages.PageContents) -> str | None:
    """Return a program whose last line gives what the page shows; None if there is none."""
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
    """Return the lines, after imports of the names that they use."""
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


def _value(key: str) -> Any:
    """Return the value of a field; None if the page has no such field."""
    return st.session_state.get(key)


def _last(shown: pages.PageContents, kind: type[Request]) -> Request | None:
    """Return the last request of this kind that a view noted; None if there is none."""
    return next((request for request in reversed(shown.asked) if isinstance(request, kind)), None)


def _call(function: str, *given: str, **named: object) -> str:
    """Return a call in Python.

    given  arguments, in Python
    named  values of keyword arguments; those that are None are left out
    """
    words = [*given, *(f"{name}={value!r}" for name, value in named.items() if value is not None)]
    return f"{function}({', '.join(words)})"


# --- a pass over a text, and a head of it


def _pass(text: TextRequest, name: str = "passed", model: str = "model") -> list[str]:
    """Return the lines that make the model, the text, and the pass over it."""
    words = [] if text.image is not None else [f"text = {text.text!r}"]
    return [_model(text.model, model), *words, _capture(text, "text", name, model)]


def _model(of: ModelChoice, name: str = "model") -> str:
    usual = ModelChoice(of.name)
    more = {part: getattr(of, part) for part in ("dtype", "device") if getattr(of, part) != getattr(usual, part)}
    return f"{name} = {_call('load_model', repr(of.name), **more)}"


def _capture(text: TextRequest, words: str, name: str = "passed", model: str = "model") -> str:
    """Return the line that makes a pass. words: the text in Python"""
    read = words if text.image is None else f"image=read_image(Path({_value(state.SHOWN_IMAGE)[0]!r}).read_bytes())"
    return f"{name} = {_call('capture', model, read, **_beside(text), edits=text.edits or None)}"


def _beside(text: TextRequest) -> Mapping[str, object]:
    """Return the arguments for what is read besides the text, and for its length."""
    cut = {} if text.keep is None else {"max_tokens": text.keep, "truncate": True}
    return {"pair": text.pair, "target": _target(text)} | cut


def _target(text: TextRequest) -> str | tuple[int, ...] | None:
    """Return the target of the decoder; what it generated as token numbers."""
    return passes.target_of(text) or None


def _kind(of: HeadRequest | KindRequest) -> str | None:
    """Return the kind of attention; None for the first kind of a model, which is the default."""
    return None if of.kind == passes.captured(of.text).kinds[0] else of.kind


def _head(of: HeadRequest) -> str:
    """Return the line that makes the trace of a head; for a long text its `Head`, which makes a few rows at a time."""
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
    """Return the line that makes the chosen (query, key); an empty box stands for the strongest pair."""
    strongest = f"{name}.strongest({name}.overview())" if is_long else f"strongest_pair({name})"
    chosen = _value(state.QUERY), _value(state.KEY)
    if chosen == (None, None):
        return f"cell = {strongest}"
    query, key = (f"{strongest}[{at}]" if place is None else repr(place) for at, place in enumerate(chosen))
    return f"cell = ({query}, {key})"


# --- Step by step


def _steps(shown: pages.PageContents) -> list[str] | None:
    is_long = False
    if shown.of is not None:
        is_long = _is_long(shown.of)
        lines, tokens = [*_pass(shown.of.text), _head(shown.of)], _tokens(shown.of)
    else:
        source = {"toy": _toy, "random": _random, "own": _own}.get(_value(state.SOURCE))
        if source is None:
            return None
        lines, tokens = source()
    name, change = "trace", _last(shown, Change)
    if change is not None:
        name = "changed"
        lines.append(f"changed = trace.changed({_changes(change)})")
    explained = f"{name}.explain(*cell)" if is_long else f"explain({name}, *cell)"
    return [*lines, "", _cell(name, is_long), explained, "", _figure(name, _value(state.STAGE), tokens)]


def _toy() -> tuple[list[str], str]:
    return _of_matrices(
        _call("toy_sentence", repr(_value(state.TOY_TEXT)), d_head=_value(state.TOY_SIZE), seed=_value(state.SEED))
    )


def _random() -> tuple[list[str], str]:
    sizes = [repr(_value(key)) for key in (state.QUERIES, state.KEYS, state.D_K, state.D_V)]
    more = {"seed": _value(state.SEED), "distribution": _value(state.DISTRIBUTION)}
    return _of_matrices(_call("random_matrices", *sizes, **more))


def _of_matrices(made: str) -> tuple[list[str], str]:
    lines = [f"made = {made}", "trace = attend(made.query, made.key, made.value)"]
    return lines, "(made.query_tokens, made.key_tokens)"


def _own() -> tuple[list[str], str]:
    """Return typed matrices as lists, and uploaded files by their names, which are read beside the notebook."""
    if (archive := _value(state.ARCHIVE)) is not None:
        return [f"trace = attend(**read_npz(Path({archive.name!r}).read_bytes()))"], ""
    lines = []
    for name, key in state.OWN.items():
        file, typed = _value(state.FILES[name]), _value(key)
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
    """Return the rows with whole numbers written as 1, not 1.0, as somebody typed them."""
    return [[int(number) if number.is_integer() else number for number in row] for row in rows]


def _changes(change: Change) -> str:
    arguments = [] if change.scaling else ["scale=1.0"]
    if change.mask == CUSTOM and change.rows.strip():
        arguments.append(f"mask={read_mask(change.rows).astype(int).tolist()!r}")
    elif change.mask not in (AS_GIVEN, CUSTOM):
        arguments.append(f"mask=MASKS[{change.mask!r}].grid({change.number!r}, *trace.shape)")
    return ", ".join(arguments)


# --- Heads


def _heads(shown: pages.PageContents) -> list[str] | None:
    of = shown.of
    if of is None:
        return None
    if not models.load(of.text.model).captures:
        read = f"passed = {_call('attention_weights', 'model', repr(of.text.text))}"
        of_all = _of_all_heads(shown, of, None)
        return [_model(of.text.model), read, *of_all, "", _call("passed.weights", repr(of.layer), repr(of.head))]
    kind, view = _kind(of), _last(shown, HeadView)
    lines = [*_pass(of.text), *_of_all_heads(shown, of, kind), ""]
    if view is None or view == HeadView(heads=((of.layer, of.head),)):
        return [*lines, _head(of), _cell("trace", _is_long(of)), _figure("trace", "weights", _tokens(of))]
    return [*lines, f"view = {view!r}", f"ViewMatrix(passed, {of.kind!r}, view).overview().matrices['view'].values"]


def _of_all_heads(shown: pages.PageContents, of: HeadRequest, kind: str | None) -> list[str]:
    """Return the lines that make the number by which heads are coloured and listed, and their small pictures."""
    words = [] if kind is None else [repr(kind)]
    by_metric, by_pattern = _last(shown, ByMetric), _last(shown, ByPattern)
    if by_pattern is not None:
        name, made = "Match", _call("match_heads", "passed", _pattern(by_pattern), *words)
    elif by_metric is None:
        return []
    elif by_metric.on == "random":
        length = repr(results.probe_length(of.text.model))
        name, made = by_metric.metric.name, _call("probe_heads", "model", length, repr(results.PROBE_SEEDS))
    else:
        name, made = by_metric.metric.name, _call("head_metrics", "passed", *words)
    pictures = [_call("thumbnails", "passed", *words)] if _value(state.ATLAS_BY) == "pictures" else []
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


def _what_if(shown: pages.PageContents) -> list[str] | None:
    view = _value(state.VIEW)
    if view == "examples":
        return _example()
    makers = {"change": _changed, "matter": _effects, "patch": _patched, "compare": _compared}
    return None if shown.of is None else makers[view](shown, shown.of)


def _changed(shown: pages.PageContents, of: HeadRequest) -> list[str]:
    """Return the lines that make the pass with and without changes, the outcome of both, and the head in both."""
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


def _compared(shown: pages.PageContents, first: HeadRequest) -> list[str] | None:
    if not shown.beside:
        return None
    second = next(iter(shown.beside.values()))
    if second.text == first.text:
        return [*_pass(first.text), "", f"compare({_at(first, 'passed')}, {_at(second, 'passed')})"]
    is_one_model = second.text.model == first.text.model
    lines, loosely = _pass(first.text), "" if is_one_model else ", loosely=True"
    if not is_one_model:
        lines.append(_model(second.text.model, "other_model"))
    lines.append(_capture(second.text, repr(second.text.text), "other", "model" if is_one_model else "other_model"))
    lines += ["", f"ours, theirs = {_tokens(first)}, {_tokens(second, 'other')}"]
    axes = [f"{side} = align(ours[{at}], theirs[{at}]{loosely})" for at, side in enumerate(("queries", "keys"))]
    return [*lines, *axes, f"compare({_at(first, 'passed')}, {_at(second, 'other')}, queries=queries, keys=keys)"]


def _effects(shown: pages.PageContents, of: HeadRequest) -> list[str] | None:
    request = _last(shown, EffectRequest)
    if request is None:
        return None
    text, kind = request.of.text, _kind(request.of)
    lines = [_model(text.model), f"text = {text.text!r}"]
    if request.taken_away == "heads" and text.keep is None:
        call = _call("head_effects", "model", "text", token=request.token, **_beside(text), kind=kind)
        return [*lines, f"effects = {call}", _call("heads_figure", "effects", "'effect'", head=(of.layer, of.head))]
    inputs = f"inputs = {_call('all_inputs', 'model', 'text', **_beside(text))}"
    effects = _call("Effects", "model", "inputs", token=request.token, kind=kind)
    taken = {"heads": "of_heads", "layers": "of_layers", "tokens": "of_keys"}[request.taken_away]
    return [*lines, inputs, f"dict({effects}.{taken}())"]


def _patched(shown: pages.PageContents, of: HeadRequest) -> list[str] | None:
    request = _last(shown, PatchRequest)
    if request is None or request.of.text.keep is not None:
        return None
    text = request.of.text
    more = {"target": _target(text), "kind": _kind(request.of), "through": request.through}
    call = _call("patch_effects", "model", repr(text.text), repr(request.source), **more)
    return [_model(text.model), f"moved = {call}", _call("heads_figure", "moved", "'moved'", head=(of.layer, of.head))]


def _example() -> list[str] | None:
    decoder, encoder = (_model(ModelChoice(name)) for name in (LANGUAGE_MODEL, SENTENCE_MODEL))
    probed = _call("probe_heads", "model", repr(results.PROBE_LENGTH), repr(results.PROBE_SEEDS))
    return {
        "paris": [decoder, "knows_paris(model)"],
        "induction": [decoder, f"needs_previous(model, {probed})"],
        "pronoun": [encoder, "patch_pronoun(model)"],
    }.get(_value(state.EXAMPLE))


# --- Generation


def _written(shown: pages.PageContents) -> list[str] | None:
    """Return the lines that write the text, and make the head in the chosen step."""
    request, of = _last(shown, WritingRequest), shown.of
    if request is None or of is None:
        return None
    text, usual = request.text, Sampling()
    chosen = {name: getattr(request.sampling, name) for name in ("temperature", "top_k", "top_p", "seed")}
    more = {name: value for name, value in chosen.items() if value != getattr(usual, name)}
    cut = {} if text.keep is None else {"max_tokens": text.keep, "truncate": True}
    new_tokens = _value(state.NEW_TOKENS)
    written = _call("generate", "model", "text", new_tokens=new_tokens, **more, chat=request.chat or None, **cut)
    kind = None if of.kind == "self" else of.kind
    tokens = _call("passed.tokens", *([] if kind is None else [repr(kind)]))
    return [
        _model(text.model),
        f"text = {text.text!r}",
        f"written = {written}",
        "written.text",
        "",
        f"passed = written.capture_of({int(_value(state.STEP) or 1) - 1})",
        f"trace = {_call('passed.trace', layer=of.layer, head=of.head, kind=kind)}",
        f"cell = (len(trace.weights) - 1, {_value(state.KEY)!r})"
        if _value(state.KEY) is not None
        else "cell = (len(trace.weights) - 1, trace.weights[-1].argmax())",
        "",
        _figure("trace", "weights", tokens),
    ]


# --- Corpus


def _corpus(shown: pages.PageContents) -> list[str] | None:
    """Return the lines that open the run in a folder `corpora`, and give numbers and examples of the chosen head."""
    request = _last(shown, CorpusRequest)
    if request is None:
        return None
    head, metric = f"layer={request.layer}, head={request.head}", repr(request.metric)
    lines = [
        f"run = open_run({f'corpora/{request.run}'!r})",
        f"run.means({metric})",
        "",
        f"run.distribution({head}, metric={metric}).quantile(0.5)",
        f"run.classes({head})",
        "",
    ]
    if request.kept == "strongest":
        return [*lines, f"run.strongest({head}, metric={metric})"]
    low, high = request.quantiles
    return [
        *lines,
        f"sample = run.sample({head})",
        f"places = spread_over_quantiles(sample.ordered({metric}, {low!r}, {high!r}))",
        f"sample.examples(places, {metric})",
    ]


# --- Learn


def _lesson(shown: pages.PageContents) -> list[str] | None:
    """Return the lines of an experiment; if it measures in a real model, after those that make the pass and the head."""
    experiment, text = LESSONS[shown.page][1].get(_value(state.PART)), _last(shown, TextRequest)
    if experiment is None:
        return None
    lines = [] if text is None else _pass(text)
    if shown.of is not None:
        lines.append(f"trace = {_at(shown.of, 'passed')}")
    return [*lines, *([""] if lines else []), *experiment(_value)]
