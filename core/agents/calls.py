"""The ten calls: each reads a pass by core's own functions and says what it found.

A call is a function of the host and of its arguments. Its docstring, the types of its arguments and its answer are the schema
that an agent reads (`core.agents.serving`).
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice, product
from math import ceil
from os.path import isfile, join
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ..attention.ledger import explain
from ..attention.ledger import lines as steps_of
from ..capturing.answers import movers, next_token, vectors
from ..capturing.capture import Capture, capture
from ..capturing.edits.edits import Edits, every
from ..capturing.edits.lines import edits_of, lines_of
from ..capturing.generation.generating import generate as write
from ..capturing.rounding import OF_SUMS
from ..claims.claim import Claim
from ..claims.known import followed_most, included_texts, known_claims, measured, named
from ..claims.verdicts import RULE
from ..errors import InputError, check_index
from ..heads import paths
from ..heads.attribution import strongest
from ..heads.metrics import NAMES
from ..models.bounds import MAX_FILES
from ..models.catalogue import CATALOGUE
from ..models.checkups import fault_of, outcome
from ..models.modules import Kind
from . import answers
from .host import LONGEST, Host
from .ranking import by_claim, by_metric, by_pair, contributions, of_alike, of_score, of_token, tested

MOST_COMPARED = 2 * 10**7  # pairs of tokens that a certificate over many heads looks at
MOST_CONTROLS = 16
LISTED = 20  # models in a folder

Name = Annotated[str, Field(min_length=1, max_length=4096, description="As `models` lists it.")]
Text = Annotated[str, Field(min_length=1, max_length=300_000)]
Line = Annotated[str, Field(max_length=2_000)]
Place = Annotated[int, Field(ge=0, le=10**6, description="From 0.")]
Most = Annotated[int, Field(ge=1, le=50, description="Entries to list.")]
OfKind = Annotated[Kind | None, Field(description="Which attention, in a model with several; null: the first.")]
Target = Annotated[Text | None, Field(description="Of an encoder-decoder: what its decoder has written so far.")]
EditLines = Annotated[
    list[Line],
    Field(
        max_length=20,
        description="A change each: mute 23.4; scale 2 at 5.11; mask window 4 at 5; block key 3 at 5.11; block pair 10>2; "
        'pattern previous at 5.11; softmax hardmax at 5; mean 23.4 over "a text"; patch 23.4 from "a text of as many tokens"; '
        'token 3 "dog"; cut 16.0 from the key of 18.6',
    ),
]


def models(host: Host) -> answers.Models:
    """The models that can be asked here, and the limits of this host."""
    limits = host.limits
    here = [answers.ModelHere(name=one.name, kind=one.kind, layers=one.layers, heads=one.heads) for one in CATALOGUE]
    for folder in limits.folders:
        here += [answers.ModelHere(name=name) for name in _models_in(folder) if host.allowed.may_read(name)]
    of_host = {"most_tokens": limits.tokens, "most_seconds": limits.seconds, "hub": limits.hub}
    return answers.Models(models=here, **of_host, address=host.address("gallery"))


def open_text(
    host: Host, model: Name, text: Text, target: Target = None, kind: OfKind = None, first: Place = 0
) -> answers.Opened:
    """Let a model read a text: its tokens with their positions, its size, what comes next, and whether what is computed here
    agrees with the model's own attention. Begin here. Every other call takes the model and the text again; passes are kept."""
    passed = host.passed(model, text, target)
    tokens = passed.tokens(kind)[1]
    likely = [] if passed.logits is None else passed.next_tokens(5)
    return answers.Opened(
        revision=passed.model.revision,
        n_tokens=len(tokens),
        tokens=[*tokens[first:]],
        kinds={one: (passed.layers(one), passed.heads(one)) for one in passed.kinds},
        next_tokens=[answers.Likely(token=token, probability=share) for token, share in likely],
        notes=[*passed.model.notes, *passed.notes],
        checkup=outcome(passed.model),
        certificate=_certify(passed, kind),
        address=_view(host, "heads", model, text, target, kind),
    )


def heads(
    host: Host,
    model: Name,
    by: Annotated[str, Field(max_length=40, description=f"{', '.join(NAMES)}, pair (query, key) or claim.")],
    text: Annotated[
        Text | None, Field(description="null: random tokens read twice, with a null and errors; for a claim, prose.")
    ] = None,
    query: Place | None = None,
    key: Place | None = None,
    claim: Annotated[Line | None, Field(description="As in the call `claim`; its head does not matter.")] = None,
    target: Target = None,
    kind: OfKind = None,
    most: Most = 10,
) -> answers.Heads:
    """All heads ranked by one number: a metric, the weight of a pair of tokens, or what the keys of a claim get. The first of
    many heads is high by selection alone: compare it with `median` and `null`, and test it with `claim` on other texts."""
    if by == "pair":
        passed = host.passed(model, _given(text, "text"), target)
        ranking = by_pair(passed, _given(query, "query"), _given(key, "key"), kind)
    elif by == "claim":
        ranking = by_claim(host, model, _given(claim, "claim"), text)
    elif by in NAMES:
        ranking = by_metric(host, model, by, text, target, kind)
    else:
        raise InputError(f"Heads are ranked by one of {', '.join((*NAMES, 'pair', 'claim'))}.", field="by")
    passed, values = ranking.passed, ranking.columns["value"]
    places = [*product(range(passed.layers(kind)), range(passed.heads(kind)))]
    known = [row for row in np.argsort(-values, kind="stable").tolist() if np.isfinite(values[row])]
    if not known:
        raise InputError(f"No head has a number by {by} here: there is nothing to measure.", field="by")
    rows = [{name: of[row].item() for name, of in ranking.columns.items()} for row in known[:most]]
    first, *_ = shown = [places[row] for row in known[:most]]
    return answers.Heads(
        about=ranking.about,
        unit=ranking.unit,
        highest=ranking.highest,
        n=ranking.n,
        heads=[answers.HeadValue(layer=layer, head=head, **of) for (layer, head), of in zip(shown, rows, strict=True)],
        n_heads=len(known),
        median=float(np.median(values[known])),
        certificate=_certify(passed, kind, shown),
        address=host.address("claims", model=model, **ranking.words)
        if by == "claim"
        else _view(host, "heads", model, text, target, kind, layer=first[0], head=first[1], **ranking.words),
    )


def row(
    host: Host,
    model: Name,
    text: Text,
    layer: Place,
    head: Place,
    query: Place,
    target: Target = None,
    kind: OfKind = None,
    most: Most = 10,
) -> answers.Row:
    """What one query of a head looks at: its largest weights."""
    passed = host.passed(model, text, target)
    check_index(query, passed.shape(kind)[0], "query")
    trace, (queries, keys) = passed.trace(layer, head, kind, rows=range(query, query + 1)), passed.tokens(kind)
    weights, n_keys = trace.weights[0].astype(np.float64), int(trace.mask[0].sum())
    order = [key for key in np.argsort(-weights, kind="stable").tolist() if trace.mask[0, key]][:most]
    return answers.Row(
        token=queries[query],
        keys=[answers.KeyWeight(key=key, token=keys[key], weight=weights[key]) for key in order],
        rest=float(weights.sum() - weights[order].sum()),
        n_keys=n_keys,
        even=1 / max(1, n_keys),
        certificate=_certify(passed, kind, [(layer, head)]),
        address=_view(host, "heads", model, text, target, kind, layer=layer, head=head, query=query),
    )


def cell(
    host: Host,
    model: Name,
    text: Text,
    layer: Place,
    head: Place,
    query: Place,
    key: Place,
    target: Target = None,
    kind: OfKind = None,
) -> answers.Cell:
    """How one weight of a head comes about, step by step: q · k, scale, bias, mask, softmax."""
    passed = host.passed(model, text, target)
    for index, count, name in zip((query, key), passed.shape(kind), ("query", "key"), strict=True):
        check_index(index, count, name)
    trace, (queries, keys) = passed.trace(layer, head, kind, rows=range(query, query + 1)), passed.tokens(kind)
    ledger, weights, n_keys = explain(trace, 0, key), trace.weights[0], int(trace.mask[0].sum())
    return answers.Cell(
        tokens=(queries[query], keys[key]),
        allowed=ledger.allowed,
        raw=ledger.raw,
        scale=ledger.scale,
        masked=ledger.masked,
        weight=ledger.weight,
        error=abs(ledger.weight - float(weights[key])),
        steps=steps_of(ledger, has_bias=bool(ledger.bias)),
        rank=1 + int((weights > weights[key]).sum()),
        n_keys=n_keys,
        even=1 / max(1, n_keys),
        certificate=_certify(passed, kind, [(layer, head)]),
        address=_view(host, "step_by_step", model, text, target, kind, layer=layer, head=head, query=query, key=key),
    )


def why(
    host: Host,
    model: Name,
    text: Text,
    answer: Annotated[Line | None, Field(description='A next token, such as " Paris"; null: the likeliest.')] = None,
    against: Annotated[
        Line | None, Field(description="The token that it is compared with; null: the mean of all.")
    ] = None,
    like: Annotated[Text | None, Field(description="Of a model that predicts none: the text to compare with.")] = None,
    layer: Place | None = None,
    head: Place | None = None,
    query: Place | None = None,
    key: Place | None = None,
    kind: OfKind = None,
    most: Most = 12,
) -> answers.Why:
    """An exact sum over components: of an answer (the logit of a next token; the cosine of two texts), with the path back to
    the text; or, with `layer`, `head`, `query` and `key`, of the score that a head gave a key."""
    passed = host.passed(model, text, components=True)
    if (layer, head, query, key) != (None,) * 4:
        at = _given(layer, "layer"), _given(head, "head"), _given(key, "key"), _given(query, "query")
        asked = of_score(passed, paths.Hop("score", kind or passed.kinds[0], *at), most)
    elif like is not None or (passed.logits is None and answer is None):
        asked = of_alike(passed, host.passed(model, like or text), like or text)
    else:
        asked = of_token(passed, answer, against)
    table, listed = asked.table, strongest(asked.table, most)
    return answers.Why(
        about=asked.about,
        number=table.number,
        components=contributions(table, most),
        rest=table.total - sum(gave for _, gave in listed),
        n_components=table.sources,
        by_query=asked.by_query,
        path=asked.path,
        certificate=answers.Agreement(
            holds=table.holds and not fault_of(passed.model),
            compared="the sum of all contributions with the number",
            rounding=table.rounding,
            allowed=OF_SUMS[passed.model.network.dtype],
            covers="that the components add up to the number, with norms held at their scales in this pass",
            fault=fault_of(passed.model),
            does_not_cover="what happens without a component, as later heads and norms react: ask what_if",
        ),
        address=host.address("why", model=model, text=text, **asked.words),
    )


def what_if(
    host: Host, model: Name, text: Text, edits: EditLines, target: Target = None, most: Most = 8
) -> answers.WhatIf:
    """What the model does with changed heads, beside what it does without the changes. The model itself does not change."""
    if not (change := _edits(edits)):
        raise InputError("There is no change. Write one, such as mute 23.4.", field="edits")
    before, after = host.passed(model, text, target), host.passed(model, text, target, change)
    moved = [] if before.logits is None else _rows(movers(next_token(before, after), before, most))
    return answers.WhatIf(
        next_tokens=[answers.Moved(**one) for one in moved],
        effect=_effect(before, after),
        unit="1 - cosine" if before.logits is None else "nats",
        controls=_controls(before, change),
        certificate=_certify(after),
        address=_view(host, "what_if", model, text, target, None, edit=[*lines_of(change)]),
    )


def generate(
    host: Host,
    model: Name,
    text: Text,
    new_tokens: Annotated[int, Field(ge=1, le=200)] = 20,
    temperature: Annotated[float, Field(ge=0, le=5, description="0: always the likeliest token; else from 0.1.")] = 0.0,
    seed: Annotated[int, Field(ge=0, le=9999)] = 0,
    edits: EditLines = [],  # noqa: B006 - the schema says what it is by default; nobody changes it
) -> answers.Generated:
    """Let a model continue a text, also with changed heads."""
    if 0 < temperature < 0.1:
        raise InputError("The temperature is 0, or from 0.1 to 5.", field="temperature")
    change, of_model = _edits(edits), host.model(model)
    host.require_room(of_model, text, edits=change)
    written = write(of_model, text, new_tokens, temperature, seed, edits=change, max_tokens=host.limits.tokens)
    chosen = [written.candidates(step, 1)[-1] for step in range(len(written.steps))]
    words = {"choice": "drawn", "heat": temperature, "seed": seed} if temperature else {}
    return answers.Generated(
        text=written.text,
        tokens=[answers.NewToken(token=one.token, probability=one.probability, chance=one.chance) for one in chosen],
        n=len(chosen),
        ended=written.ended or "asked",
        certificate=_certify(written.capture_of(-1)),
        address=host.address("what_if", model=model, text=text, edit=[*lines_of(change)], writes="true")
        if change
        else host.address("generation", model=model, text=text, new=new_tokens, **words),
    )


def claim(
    host: Host,
    model: Name,
    claims: Annotated[
        list[Line],
        Field(
            max_length=10,
            description="Such as: 17.3: when the token occurred before, looks at the tokens after its occurrences, at least "
            "0.4. Or: any head: looks at the previous token, at least 0.4. Empty: the known claims of the literature; if the "
            "model comes along, those that hold, each for the head that gives its keys most.",
        ),
    ] = [],  # noqa: B006
    texts: Annotated[list[Text], Field(max_length=100, description="Empty: passages of prose that come along.")] = [],  # noqa: B006
) -> answers.Claims:
    """Test what is said of heads on texts, one half of which alone chooses among heads: verdict, interval, n, two base rates.
    What was found on a text has to be tested on others."""
    of_model, certificate = host.model(model), None
    words: dict[str, Any] = {"checked_on": "own" if texts else "some"}
    kept = measured(of_model.revision) if not claims and not texts else None
    n_passages = n_asked = len(included_texts())
    if kept is not None:
        table, words = followed_most(kept), {"checked_on": "included"}
    else:
        given = [Claim.read(line) for line in claims] or [one for one in known_claims() if not one.needs_annotation]
        check = tested(host, of_model, given, texts)
        table, n_passages, n_asked = named(check.table()), check.done, check.total
        if table["queries"].iloc[0]:
            layer, head = map(int, table["head"].iloc[0].split("."))
            certificate = _certify(capture(of_model, check.passages[0].text), None, [(layer, head)])
    words |= {"claims": "\n".join(table["claim"]), "texts": "\n\n".join(texts) or None}
    return answers.Claims(
        verdicts=[answers.Verdict(**one) for one in _rows(table)],
        rule=RULE,
        n_passages=n_passages,
        n_asked=n_asked,
        certificate=certificate,
        address=host.address("claims", model=model, **words),
    )


def link(
    host: Host,
    page: Literal["heads", "step_by_step", "head", "what_if"],
    model: Name,
    text: Text,
    layer: Place | None = None,
    head: Place | None = None,
    query: Place | None = None,
    key: Place | None = None,
    target: Target = None,
    kind: OfKind = None,
    edits: EditLines = [],  # noqa: B006
) -> answers.Answer:
    """The address of a view in the app, to show to a person. Nothing is computed, not even whether there is such a head."""
    change = [*lines_of(_edits(edits))] or None
    if change and page != "what_if":
        raise InputError("Only the page what_if shows changes. Choose it, or leave out the edits.", field="edits")
    place: dict[str, Any] = {"layer": layer, "head": head, "query": query, "key": key, "edit": change}
    return answers.Answer(address=_view(host, page, model, text, target, kind, most=LONGEST, **place))


CALLS: dict[str, Callable[..., answers.Answer]] = {
    "models": models,
    "open": open_text,
    "heads": heads,
    "row": row,
    "cell": cell,
    "why": why,
    "what_if": what_if,
    "generate": generate,
    "claim": claim,
    "link": link,
}


# --- parts of answers


def _models_in(folder: str) -> list[str]:
    """The paths of the first models in a folder, as far as they can be said."""
    inside = [folder]
    with suppress(OSError), os.scandir(folder) as entries:
        inside += sorted(entry.path for entry in islice(entries, MAX_FILES))
    found = (path for path in inside if isfile(join(path, "config.json")) or path.endswith(".gguf"))
    return [*islice(filter(str.isprintable, found), LISTED)]


def _given(value: Any, name: str) -> Any:
    if value is None:
        raise InputError(f"This needs a {name}. Give one.", field=name)
    return value


def _view(
    host: Host, page: str, model: str, text: str | None, target: str | None, kind: Kind | None, **words: Any
) -> str | None:
    """The address of a view of heads in one text."""
    return host.address(page, model=model, text=text, target=target, kind=kind, **words)


def _rows(table: Any) -> list[dict[str, Any]]:
    return table.to_dict("records")


def _edits(lines: Sequence[str]) -> Edits:
    return every(edits_of(line) for line in lines)


def _certify(
    passed: Capture, kind: Kind | None = None, places: Sequence[tuple[int, int]] | None = None
) -> answers.Agreement:
    """The certificates of these heads as one; None: of all, or of as many at equal distances as it may look at."""
    every_head = [*product(range(passed.layers(kind)), range(passed.heads(kind)))]
    if places is None:
        queries, keys = passed.shape(kind)
        places = every_head[:: ceil(len(every_head) * queries * keys / MOST_COMPARED)]
    each = [passed.certificate(*place, kind) for place in places]
    return answers.Agreement(
        holds=all(one.holds for one in each),
        compared=f"the outputs of {len(each)} of {len(every_head)} heads, computed from their queries, keys and values, with "
        f"those of the model's own attention: {sum(one.cells for one in each):,} numbers",
        rounding=max(one.rounding for one in each),
        allowed=each[0].allowed,
        fault=fault_of(passed.model),
    )


def _effect(before: Capture, after: Capture) -> float:
    """How far a change moves the next token's distribution, or the sentence vector."""
    return vectors(before, after).sentence if before.logits is None else next_token(before, after).divergence


def _controls(before: Capture, change: Edits) -> answers.Controls | None:
    """The effects of muting other heads of the layer, where one head is muted and nothing else."""
    (only, *more), place = change.each, change.each[0].at
    if more or only.keyword != "mute_heads" or place.layer is None or place.head is None:
        return None
    others = [head for head in range(before.heads(place.kind)) if head != place.head][:MOST_CONTROLS]
    read = {"input_ids": before.input_ids, "target": before.target_ids[1:] or None, "known": [before]}
    edits = (Edits(mute_heads={place._replace(head=head)}) for head in others)
    effects = [_effect(before, capture(before.model, **read, edits=one)) for one in edits]
    return answers.Controls(n=len(effects), median=float(np.median(effects)), highest=max(effects)) if effects else None
