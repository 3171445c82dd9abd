"""Attribution: a logit, a cosine or an attention score as a sum over the components that it was read from.

With the norms held at their scales each of these numbers is linear in what the embeddings, heads, feed-forward layers and
biases wrote into the residual stream (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits",
https://transformer-circuits.pub/2021/framework). So the sums are exact, up to rounding, and every table states how exact. What
a component writes also changes the norms and what later components do; its contribution leaves both out.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..capturing.calls.edited_call import edit_of
from ..capturing.calls.rows import head_permissions
from ..capturing.capture import Capture
from ..capturing.components.written import Component, Components, Readout, of_head
from ..capturing.rounding import OF_SUMS, rounding_error
from ..errors import InputError, check_index, model_error
from ..models.calls import wide
from ..models.model import require_model
from ..models.modules import Kind

STRONGEST = 12  # components of each side in a table of pairs


class Attribution(pd.DataFrame):
    """A number as a sum over components: a row each, with the columns component, role, kind, layer, head and contribution.

    component     "embedding", "16.0" for a head, "mlp 9", "bias 9"; in an encoder-decoder model "encoder 1.2", "cross 1.2"
    role          "embedding", "head", "mlp", "rest" (what a layer without attention has instead) or "bias"; "group"; and what
                  is added to the number: "position bias", "bias of the vocabulary"
    kind          the kind of attention of a head, or "encoder" or "decoder"; "" in models of one stack
    layer, head   <NA> where there is none
    contribution  what it adds to the number, in the unit of the number

    number        the number itself, computed from what the components were read with
    sources       how many components can contribute: what a later one writes is not read there
    rounding      the difference of the sum from it, in units of one rounding error of all products that are added up
    holds         whether that is no more than rounding
    """

    _metadata = ["number", "sources", "rounding", "holds"]  # noqa: RUF012 - pandas hands these on
    number: float
    sources: int
    rounding: float
    holds: bool

    @property
    def _constructor(self) -> type[Self]:
        return type(self)

    @property
    def total(self) -> float:
        """The sum of all contributions."""
        return float(self["contribution"].to_numpy().sum())

    @property
    def logit(self) -> float:
        """The number, if it is a logit."""
        return self.number


def logit_attribution(
    capture: Capture,
    token: int | None = None,
    against: int | Literal["mean"] | None = None,
    position: int = -1,
    *,
    groups: Mapping[str, Collection[str]] | None = None,
) -> Attribution:
    """The logit of a next token, or its difference from another one, by component.

    token     a token's number; None: the most probable next token
    against   the number of the token whose logit is subtracted; "mean": the mean of all logits; None: nothing. Without a
              contrast the last feed-forward layers lead, which raise many logits alike
    position  of the token after which it stands
    groups    name -> components that are summed up under it

    The logits are those that the language-model head gives, before any soft cap. Raises InputError for a pass without
    components, a model without a language-model head, and numbers that are not there.
    """
    components = _components(capture)
    number = logit(capture, token, against, position)
    token, readout = _token(capture, token, position), _readout(capture)
    of_head, added = (
        0.0 if bias is None else float(readout.contrast(bias, token, against)) for bias in (readout.bias, readout.added)
    )
    fixed = {"bias of the vocabulary": of_head * (readout.factor or 1) + added}
    return _table(components, number, fixed, groups)


def cosine_attribution(
    capture: Capture, other: Capture, *, groups: Mapping[str, Collection[str]] | None = None
) -> Attribution:
    """The cosine of the sentence vectors of two passes, by component of the first.

    A sentence vector is what `core.models.sentences` says; its length is held like a norm, and of a maximum over tokens the
    token that has it. Raises InputError as `logit_attribution` does, and for models with a language-model head.
    """
    return _table(_components(capture), cosine(capture, other), {}, groups)


def direct_contributions(capture: Capture, token: int | None = None, kind: Kind | None = None) -> pd.DataFrame:
    """What each head itself writes into the answer that `head_effects` is about: a row a head, with the columns layer, head and
    contribution.

    contribution  for a model with a language-model head: to the logit of `token` as the next token, less the mean of all
                  logits. For any other: to the cosine of the sentence vector with itself, which is 1
    token         a token's number; None: the most probable next token
    kind          which heads, as in `Capture.trace`

    What a head does through later heads and layers is not in it: muting the head measures both. Errors as in
    `logit_attribution`, and InputError where the components do not add up to the answer.
    """
    kind = kind or capture.kinds[0]
    capture.layers(kind)  # raises where there is no such kind
    is_cosine = capture.vectors is not None
    table = cosine_attribution(capture, capture) if is_cosine else logit_attribution(capture, token, "mean")
    if not table.holds:
        why = f"What the components of {capture.model.name} write does not add up to its answer. Choose another model."
        raise InputError(why, field="model")
    heads = table[(table["role"] == "head") & (table["kind"] == ("" if kind == "self" else kind))]
    return pd.DataFrame(heads[["layer", "head", "contribution"]]).astype({"layer": int, "head": int})


def logit(
    capture: Capture, token: int | None = None, against: int | Literal["mean"] | None = None, position: int = -1
) -> Tensor:
    """The number that `logit_attribution` is about, without the bias of the language-model head, for torch to follow back."""
    read, readout = _read_at(capture, position), _readout(capture)
    with torch.enable_grad():
        direction = readout.contrast(readout.weight, _token(capture, token, position), against)
        return read @ direction * (readout.factor or 1)


def cosine(capture: Capture, other: Capture) -> Tensor:
    """The number that `cosine_attribution` is about, for torch to follow back."""
    components = _components(capture)
    if len(other.sentence_vector) != len(capture.sentence_vector):
        raise InputError("The vectors of these two models have different sizes, so they have no cosine.", field="model")
    with torch.enable_grad():
        own = capture.model.sentence.pooled(wide(components.final[0]))
        like = torch.tensor(other.sentence_vector).to(own)
        return own @ (like / like.norm()) / own.detach().norm()


def contributions_by_key(
    capture: Capture, number: Tensor, layer: int, head: int, kind: Kind | None = None, *, query: int | None = None
) -> NDArray[np.float64]:
    """What a number, a `logit`, a `cosine` or one of `scores`, owes to a head, by the key whose value it passed on: [keys].

    query  only what the head wrote at this position; None: at all of them

    Raises InputError if an edit gives the head another output.
    """
    kind, call = kind or capture.kinds[0], capture.layer_call(layer, kind)
    check_index(head, call.heads, "head")
    if edit_of(call, head).output is not None:
        raise InputError(f"A change replaces the output of head {layer}.{head}, so no key gave it.", field="edits")
    components = _components(capture)
    where = "" if kind == "self" else kind
    names = [(one.role, one.where, one.number) for one in components.written]
    gradient = components.gradients(number)[names.index(("head", where, layer))]
    by_key = np.zeros(call.key.shape[2])
    if gradient is None:
        return by_key
    by_query = wide(gradient[0, :, head]).numpy(force=True)
    for row in np.flatnonzero(by_query.any(axis=1)) if query is None else [query]:
        trace = capture.trace(layer, head, kind, rows=range(row, row + 1))
        by_key += trace.weights[0] * (trace.value @ by_query[row])
    return by_key


@dataclass(frozen=True, eq=False)
class Scores:
    """A score that torch can follow back along each side: scale · query · keys + bias.

    query  [d_k]
    keys   [d_k], the key, minus what it is compared with
    bias   what the position bias adds
    """

    query: Tensor
    keys: Tensor
    scale: float
    bias: float

    @property
    def by_query(self) -> Tensor:
        """The score without its bias, as it depends on the query."""
        with torch.enable_grad():
            return self.query @ self.keys.detach() * self.scale

    @property
    def by_keys(self) -> Tensor:
        """The same, as it depends on the keys."""
        with torch.enable_grad():
            return self.query.detach() @ self.keys * self.scale


@dataclass(frozen=True, eq=False)
class ScoreAttribution:
    """One attention score, or its difference from others of its row, as a sum over pairs of components.

    by_query   by component of the query: what each of them wrote that the query was made from
    by_key     by component of the keys
    score      the number itself: scaled and with its position bias, before a soft cap
    asked      the same, for torch to follow back
    parts      the components and groups
    strongest  number of components of each side in `table`
    """

    by_query: Attribution
    by_key: Attribution
    score: float
    asked: Scores
    components: Components
    parts: Sequence[Component]
    strongest: int

    @cached_property
    def table(self) -> pd.DataFrame:
        """The strongest components of the query [rows] with the strongest of the keys [columns]; what all others add is in
        the row and the column "rest"."""
        vectors, names, gave = [], [], []
        for vector, side in ((self.asked.query, self.by_query), (self.asked.keys, self.by_key)):
            rows = _largest(side.iloc[: len(self.parts)], self.strongest)  # what is fixed comes after the components
            vectors.append(self.components.vectors(vector, [self.parts[row] for row in rows]))
            names.append([self.parts[row].name for row in rows])
            gave.append(side["contribution"].to_numpy()[rows])
        pairs = (vectors[0] @ vectors[1].T * self.asked.scale).double().numpy(force=True)
        table = pd.DataFrame(pairs, *names)
        table["rest"] = gave[0] - pairs.sum(axis=1)
        rest = gave[1] - pairs.sum(axis=0)
        table.loc["rest"] = [*rest, self.by_query.total - gave[0].sum() - rest.sum()]
        return table

    @property
    def total(self) -> float:
        """The sum over all pairs."""
        return float(self.table.to_numpy().sum())

    @property
    def rest(self) -> float:
        """The part of the sum that is in no pair of two strongest components."""
        return self.total - float(self.table.drop(index="rest", columns="rest").to_numpy().sum())


def score_attribution(
    capture: Capture,
    layer: int,
    head: int,
    query: int,
    key: int,
    against: int | Literal["others"] | None = "others",
    *,
    kind: Kind | None = None,
    groups: Mapping[str, Collection[str]] | None = None,
    strongest: int = STRONGEST,
) -> ScoreAttribution:
    """Why a query scored a key as it did: the score by what the query and the keys were made from.

    against    "others": the mean score of the other keys that the query may attend to is subtracted; a number: the score of
               that key; None: nothing. The softmax sees only differences
    groups     name -> components that are summed up under it
    strongest  number of components of each side in the table of pairs

    Raises InputError for a pass without components, positions that are not there, a key that the query may not attend to, and
    a head whose weights an edit replaces or into which it cuts paths.
    """
    components = _components(capture)
    asked = scores(capture, layer, head, query, key, against, kind)
    fixed = {"position bias": asked.bias}
    by_query, by_key = (_table(components, number, fixed, groups) for number in (asked.by_query, asked.by_keys))
    parts = _grouped(components, groups)
    return ScoreAttribution(by_query, by_key, by_query.number, asked, components, parts, strongest)


def scores(
    capture: Capture,
    layer: int,
    head: int,
    query: int,
    key: int,
    against: int | Literal["others"] | None = "others",
    kind: Kind | None = None,
) -> Scores:
    """What `score_attribution` is about, with its arguments and errors."""
    components, kind = _components(capture), kind or capture.kinds[0]
    call = capture.layer_call(layer, kind)
    for index, count, name in ((head, call.heads, "head"), (query, call.query.shape[2], "query")):
        check_index(index, count, name)
    edit = edit_of(call, head)
    if edit.gives_weights:
        why = f"A change replaces the weights of head {layer}.{head}: no score leads to them."
        raise InputError(why, field="edits")
    if edit.cuts:
        why = f"Paths into head {layer}.{head} are cut: what its scores are made from is told without these cuts."
        raise InputError(why, field="edits")
    mask, bias = head_permissions(call, head, range(query, query + 1))
    factors = _contrasted_keys(mask[0], key, against)
    queries, keys = components.read(kind, layer, head)
    if not keys.requires_grad:  # LongT5's encoder computes attention outside of what can be captured
        raise model_error(
            f"What the keys of head {layer}.{head} were read from has no components: {capture.model.name} computes it in "
            f"another way."
        )
    with torch.enable_grad():
        of_query = wide(queries[query])
        of_keys = torch.from_numpy(factors).to(of_query) @ wide(keys)
    return Scores(of_query, of_keys, edit.scale(call.scale), float(factors @ bias[0]))


# --- tables


def _table(
    components: Components, number: Tensor, fixed: Mapping[str, float], groups: Mapping[str, Collection[str]] | None
) -> Attribution:
    """The attribution of a number. fixed: what is added to it that torch does not follow back, by component."""
    gradients = components.gradients(number)
    shares = [share.double() for share in components.shares(gradients)]
    parts = _grouped(components, groups)

    def gave(part: Component) -> float:
        return sum(float(of_head(shares[index], head)) for index, head in part.places if gradients[index] is not None)

    rows = [(part.name, part.role, part.where, part.layer, part.head, gave(part)) for part in parts]
    added = [(name, name, "", None, None, amount) for name, amount in fixed.items() if amount]
    table = Attribution(rows + added, columns=_COLUMNS).astype({"layer": "Int64", "head": "Int64"})
    table.number = float(number.detach().double()) + sum(fixed.values())
    read = (any(gradients[index] is not None for index, _ in part.places) for part in parts)
    table.sources = sum(read) + len(added)
    size = components.size(gradients) + sum(map(abs, fixed.values()))
    unit = rounding_error(components.dtype) * max(size, np.finfo(np.float64).tiny)
    table.rounding = abs(table.total - table.number) / unit
    table.holds = table.rounding <= OF_SUMS[components.dtype]
    return table


_COLUMNS = ["component", "role", "kind", "layer", "head", "contribution"]


def _grouped(components: Components, groups: Mapping[str, Collection[str]] | None) -> list[Component]:
    """All components, those of each group as one. Raises InputError (field "groups") for names that are not there."""
    left = {part.name: part for part in components.each}
    together: list[Component] = []
    for name, members in (groups or {}).items():
        if missing := [member for member in members if member not in left]:
            raise InputError(
                f"The group “{name}” has {missing[0]!r}, which is not a component or is in another group. Components are "
                f"called {next(iter(left))!r}, {next(reversed(left))!r} and so on.",
                field="groups",
            )
        places = tuple(place for member in members for place in left.pop(member).places)
        together.append(Component(name, "group", "", None, None, places))
    return [*left.values(), *together]


# --- what is asked


def _components(capture: Capture) -> Components:
    if capture.components is None:
        require_model(capture.model, "Attribution")
        raise InputError("This pass kept no components. Capture it again with components=True.", field="components")
    return capture.components


def _readout(capture: Capture) -> Readout:
    """The language-model head. Raises InputError if there is none."""
    readout = _components(capture).readout
    if readout is None:
        raise InputError(f"{capture.model.name} has no language-model head: it predicts no next token.", field="model")
    return readout


def _read_at(capture: Capture, position: int) -> Tensor:
    """[d_model], what the language-model head reads at a position. Raises InputError for one that is not there."""
    final, tokens = _components(capture).final, capture.shape(capture.kinds[-1])[0]
    check_index(position + tokens if position < 0 else position, tokens, "position")
    with torch.enable_grad():
        return wide(final[0, position])


def _token(capture: Capture, token: int | None, position: int) -> int:
    """The token, by default the most probable one after the position. Raises InputError for one that is not there."""
    if token is not None:
        return int(token)
    read, readout = _read_at(capture, position).detach(), _readout(capture)
    if capture.logits is not None and position in (-1, capture.shape(capture.kinds[-1])[0] - 1):
        return int(capture.logits.argmax())
    logits = nn.functional.linear(read.to(readout.weight), readout.weight, readout.bias)
    logits = wide(logits) * (readout.factor or 1)
    return int((logits if readout.added is None else logits + readout.added).argmax())


def _contrasted_keys(
    allowed: NDArray[np.bool_], key: int, against: int | Literal["others"] | None
) -> NDArray[np.floating]:
    """The factor of each key [keys] in the number: 1 for the key, and what is subtracted. Raises InputError."""
    for name, index in (("key", key), ("against", key if against in (None, "others") else against)):
        check_index(index, len(allowed), "key", field=name)
        if not allowed[index]:
            why = f"The query may not attend to key {index}: its score is masked. Choose another key."
            raise InputError(why, field=name)
    factors = np.zeros(len(allowed))
    factors[key] = 1
    if against == "others":
        others = allowed.copy()
        others[key] = False
        if not others.any():
            why = "The query may attend to one key only: there are no others to compare with."
            raise InputError(why, field="against")
        factors[others] = -1 / others.sum()
    elif against is not None:
        factors[against] -= 1
    return factors


# --- as a picture


@dataclass(frozen=True, eq=False)
class Grid:
    """An attribution as a grid of layers by heads, with a last column for the feed-forward layers.

    rows    (kind or "", layer) of each
    values  [rows, heads + 1], NaN where there is no such component
    """

    rows: tuple[tuple[str, int], ...]
    values: NDArray[np.float64]

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of the rows and of the columns."""
        heads = self.values.shape[1] - 1
        return tuple(f"{kind} {layer}".strip() for kind, layer in self.rows), (*map(str, range(heads)), "MLP")

    def row_of(self, kind: str, layer: int) -> int:
        return self.rows.index(("" if kind == "self" else kind, layer))


def as_grid(table: Attribution) -> Grid:
    """The heads and feed-forward layers of an attribution in a grid; embeddings and biases are not in it, nor layers from
    which nothing was read."""
    shown = table[table["role"].isin(["head", "mlp"]).to_numpy()]
    gave = shown.groupby(["kind", "layer"])["contribution"].transform("any").to_numpy(dtype=bool)
    shown = shown[gave] if gave.any() else shown
    rows = tuple(dict.fromkeys(zip(shown["kind"], shown["layer"].astype(int), strict=True)))
    heads = 1 + max(int(head) for head in shown["head"] if not pd.isna(head))
    values = np.full((len(rows), heads + 1), np.nan)
    columns = [heads if pd.isna(head) else int(head) for head in shown["head"]]
    places = [rows.index(row) for row in zip(shown["kind"], shown["layer"].astype(int), strict=True)]
    values[places, columns] = shown["contribution"]
    return Grid(rows, values)


def strongest(table: Attribution, count: int) -> list[tuple[str, float]]:
    """The components with the largest contributions, below 0 or above, each with its contribution."""
    rows = table.iloc[_largest(table, count)]
    return list(zip(rows["component"], rows["contribution"].tolist(), strict=True))


def _largest(table: pd.DataFrame, count: int) -> NDArray[np.intp]:
    """The rows with the largest contributions, below 0 or above."""
    return np.argsort(-np.abs(table["contribution"].to_numpy()), kind="stable")[:count]


class Reason(NamedTuple):
    """A component, its role, and its contribution, as in an `Attribution`."""

    component: str
    role: str
    gave: float


def main_reason(table: Attribution, role: str | None = None) -> Reason | None:
    """The component that adds most to the number, or, where the number is below 0, lowers it most. None where none does.

    role  look only among those of this role, such as "head"
    """
    gave = table["contribution"].to_numpy(np.float64)
    toward = gave * np.sign(table.number)
    if role is not None:
        toward[(table["role"] != role).to_numpy()] = 0
    row = int(np.argmax(toward))
    return (
        Reason(str(table["component"].iloc[row]), str(table["role"].iloc[row]), gave[row]) if toward[row] > 0 else None
    )


def main_pair(table: pd.DataFrame) -> tuple[str, str, float] | None:
    """Of a table of pairs the one that adds most to their sum, or lowers it most if it is below 0, as (component of the query,
    of the keys, contribution); None where none works in that direction."""
    sign = np.sign(table.to_numpy().sum())
    best = max(_pairs(table), key=lambda pair: pair[2] * sign, default=None)
    return best if best is not None and best[2] * sign > 0 else None


def strongest_pairs(table: pd.DataFrame, count: int) -> tuple[list[tuple[str, str, float]], float]:
    """Of a table of pairs the largest ones, below 0 or above, as (component of the query, of the keys, contribution), and what
    all others add."""
    largest = sorted(_pairs(table), key=lambda pair: -abs(pair[2]))[:count]
    return largest, float(table.to_numpy().sum()) - sum(number for *_, number in largest)


def _pairs(table: pd.DataFrame) -> list[tuple[str, str, float]]:
    return [
        (str(of_query), str(of_key), float(number))
        for of_query, row in table.drop(index="rest", columns="rest").iterrows()
        for of_key, number in row.items()
    ]
