"""Three worked examples of changed heads, every number of them measured when it is asked for.

A head that knows a fact, a head that another one needs (Olsson et al. 2022, induction), and heads patched between two sentences
(Vig et al. 2020; Wang et al. 2023, activation patching).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..attention.trace import Array
from ..capturing.answers import pass_with_losses
from ..capturing.calls.head_places import EVERYWHERE, Place
from ..capturing.calls.rows import row_blocks
from ..capturing.capture import Capture, capture
from ..capturing.edits.edits import Edits
from ..capturing.sampling import next_probabilities
from ..errors import InputError
from ..models.calls import Call
from ..models.inputs import one_token
from ..models.model import Model
from ..progress import OnProgress, step_counter
from .probing import SCORES, RandomText, mean_on_copies, random_texts

LANGUAGE_MODEL, SENTENCE_MODEL = "SmolLM2-135M-Instruct", "all-MiniLM-L6-v2"


class OneHead(NamedTuple):
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.layer}.{self.head}"


# --- the head that knows Paris

FRANCE, ITALY, PARIS = "The capital of France is", "The capital of Italy is", " Paris"
KNOWS_PARIS = OneHead(23, 4)


@dataclass(frozen=True)
class NextWord:
    """What comes next with some edits.

    paris        the probability of " Paris", in [0, 1]
    says, share  the most probable token, and its probability
    """

    name: str
    edits: Edits
    paris: float
    says: str
    share: float


PARIS_STEPS = 4


def knows_paris(model: Model, on_progress: OnProgress | None = None) -> tuple[NextWord, ...]:
    """What follows "The capital of France is", as it is and with three edits, in `PARIS_STEPS` passes."""
    head, step = KNOWS_PARIS, step_counter(on_progress)
    paris = one_token(model, PARIS, with_blank=False, field="model")
    edits_by_name = {
        "as it is": Edits(),
        f"head {head} muted": Edits(mute_heads={head}),
        f"head {head} from the sentence about Italy": Edits(patch_heads={head}, patch_from=ITALY),
        "every scale doubled": Edits(scale_by=2.0),
    }
    rows = []
    for name, edits in edits_by_name.items():
        passed = capture(model, FRANCE, edits=edits)
        ((says, share),) = passed.next_tokens(1)
        rows.append(NextWord(name, edits, float(next_probabilities(passed.predicted)[paris]), says, share))
        step()
    return tuple(rows)


# --- what an induction head needs

LENGTH, SEEDS = 50, (0, 1, 2, 3)  # of the probe
SHOWN, RIVALS, CONTROLS = 5, 3, 5


@dataclass(frozen=True)
class Repetition:
    """How the model reads repeated random tokens with some heads muted.

    scores  of each of `Induction.heads`, its mean weight on the token after the earlier copy, over the second half
    loss    the mean of -ln p over the second half but its first token, which cannot be predicted; in nats
    """

    name: str
    muted: tuple[OneHead, ...]
    scores: tuple[float, ...]
    loss: float

    @property
    def edits(self) -> Edits:
        return Edits(mute_heads=self.muted)


@dataclass(frozen=True)
class Induction:
    """Repeated random tokens without an edit, with heads muted that look at the previous token, and with others muted.

    heads     the strongest induction heads of the probe, in layers after `cut`
    rivals    of the layers before the strongest induction head, those that look at the previous token most; `cut` is the first
    previous  how much each of the rivals does, in the probe
    plain     without an edit; by_rival, by_control: with each of these heads muted; all_rivals, all_controls: with all of them.
              Controls are in the layer of `cut`: the other heads whose look at the previous token is nearest to the median
    itself    with the strongest induction head muted
    shuffled, shuffled_cut  the loss without an edit and with `cut`, if the second half is shuffled: nothing can be followed
    """

    heads: tuple[OneHead, ...]
    rivals: tuple[OneHead, ...]
    previous: tuple[float, ...]
    plain: Repetition
    by_rival: tuple[Repetition, ...]
    all_rivals: Repetition
    by_control: tuple[Repetition, ...]
    all_controls: Repetition
    itself: Repetition
    shuffled: float
    shuffled_cut: float

    @property
    def cut(self) -> Repetition:
        return self.by_rival[0]

    def costs(self, row: Repetition) -> float:
        """By how many nats a token the loss is higher than without an edit."""
        return row.loss - self.plain.loss


INDUCTION_STEPS = len(SEEDS) * (1 + RIVALS + 1 + CONTROLS + 1 + 1 + 2)


def needs_previous(
    model: Model, probed: pd.DataFrame, on_progress: OnProgress | None = None, *, seeds: Sequence[int] = SEEDS
) -> Induction:
    """Mute what an induction head needs: the head that tells each token which one stood before it.

    probed  what `probe_heads` found, by which all heads are chosen before anything is muted
    seeds   of the random texts; the probe's own

    Raises InputError for a model in which the probe found no induction head after a head that looks at the previous token.
    """
    induction = probed.query("is_induction")
    strongest = _best(induction, "induction", 1)
    rivals = _best(probed.query(f"layer < {strongest[0].layer}"), "previous", RIVALS) if strongest else ()
    if not rivals:
        raise InputError(f"The probe found no induction head in {model.name} that could be cut off.", field="model")
    heads = _best(induction.query(f"layer > {rivals[0].layer}"), "induction", SHOWN)
    controls = _controls(probed, rivals[0])
    texts, shuffled = zip(*(random_texts(model, LENGTH, seed) for seed in seeds), strict=True)
    step = step_counter(on_progress)

    def predict(text: RandomText, muted: tuple[OneHead, ...]) -> tuple[list[Call], float]:
        calls, losses = pass_with_losses(model, text.ids, edits=Edits(mute_heads=muted), start=text.second + 1)
        step()
        return calls, float(losses[: LENGTH - 1].mean())

    def read(name: str, *muted: OneHead) -> Repetition:
        scores, losses = [], []
        for text in texts:
            calls, loss = predict(text, muted)
            queries = range(text.second, text.second + LENGTH)
            blocks = [row_blocks(calls[layer], head, rows=queries) for layer, head in heads]
            scores.append([float(mean_on_copies(of, LENGTH, SCORES["induction"])[0]) for of in blocks])
            losses.append(loss)
        return Repetition(name, muted, tuple(np.mean(scores, axis=0).tolist()), float(np.mean(losses)))

    previous = dict(zip(_heads_of(probed), probed["previous"].tolist(), strict=True))
    return Induction(
        heads,
        rivals,
        tuple(previous[head] for head in rivals),
        plain=read("as it is"),
        by_rival=tuple(read(f"{head} muted", head) for head in rivals),
        all_rivals=read("all three muted", *rivals),
        by_control=tuple(read(f"{head} muted", head) for head in controls),
        all_controls=read("all five muted", *controls),
        itself=read(f"{strongest[0]} itself muted", strongest[0]),
        shuffled=float(np.mean([predict(text, ())[1] for text in shuffled])),
        shuffled_cut=float(np.mean([predict(text, rivals[:1])[1] for text in shuffled])),
    )


def _best(probed: pd.DataFrame, score: str, count: int) -> tuple[OneHead, ...]:
    return _heads_of(probed.sort_values(score, ascending=False, kind="stable").head(count))


def _controls(probed: pd.DataFrame, cut: OneHead) -> tuple[OneHead, ...]:
    layer = probed.query(f"layer == {cut.layer}")
    away = np.abs(layer["previous"].to_numpy() - np.median(layer["previous"]))
    nearest = layer.assign(away=away).query(f"head != {cut.head}").sort_values("away", kind="stable")
    return tuple(sorted(_heads_of(nearest.head(CONTROLS))))


def _heads_of(rows: pd.DataFrame) -> tuple[OneHead, ...]:
    return tuple(map(OneHead, rows["layer"].tolist(), rows["head"].tolist()))


# --- a pronoun between two sentences

TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
PRONOUN_HEAD = OneHead(5, 11)  # looks from "it" to "animal"
PRONOUN, ANIMAL, STREET = "it", "animal", "street"


@dataclass(frozen=True)
class Movement:
    """The sentence that ends in "tired" with some heads' outputs from the one that ends in "wide".

    word      how far the last layer's vector of "it" has moved towards its vector in the other sentence, see `share_of_way`
    sentence  the same of the sentence vector (core.models.sentences)
    animal, street  what `PRONOUN_HEAD` gives of the attention of "it" to these words, in [0, 1]
    """

    name: str
    edits: Edits
    word: float
    sentence: float
    animal: float
    street: float


@dataclass(frozen=True)
class Pronoun:
    """Both sentences as they are, and the first with heads patched from the second.

    by_head     every head by itself, layer after layer
    one_layer   all heads of the layer of the one that moves "it" most
    every_head  all heads of the model
    """

    tired: Movement
    wide: Movement
    by_head: tuple[Movement, ...]
    one_layer: Movement
    every_head: Movement
    heads: int

    @property
    def known(self) -> Movement:
        """With the head patched that looks at "animal"."""
        return self.by_head[PRONOUN_HEAD.layer * self.heads + PRONOUN_HEAD.head]

    @property
    def strongest(self) -> Movement:
        """With the head patched that moves "it" most."""
        return max(self.by_head, key=lambda moved: moved.word)

    @property
    def rank(self) -> int:
        """The place of `known` among all heads by how far they move "it", from 1."""
        return 1 + sum(moved.word > self.known.word for moved in self.by_head)


def pronoun_steps(model: Model) -> int:
    """The number of edits in `patch_pronoun`."""
    config = model.network.config
    return config.num_hidden_layers * config.num_attention_heads + 2


def patch_pronoun(model: Model, on_progress: OnProgress | None = None) -> Pronoun:
    """Put what single heads give in one sentence into another, and see how far "it" follows."""
    one, other = capture(model, TIRED), capture(model, WIDE)
    tokens, _ = one.tokens()
    it, animal, street = (tokens.index(word) for word in (PRONOUN, ANIMAL, STREET))
    step = step_counter(on_progress)

    def movement(name: str, passed: Capture) -> Movement:
        start, now, goal = (_vectors(each) for each in (one, passed, other))
        weights = passed.trace(*PRONOUN_HEAD, rows=range(it, it + 1)).weights[0]
        word = share_of_way(now[it], start[it], goal[it])
        sentence = share_of_way(passed.sentence_vector, one.sentence_vector, other.sentence_vector)
        return Movement(name, passed.edits, word, sentence, float(weights[animal]), float(weights[street]))

    def patched(name: str, place: Place) -> Movement:
        passed = capture(model, TIRED, edits=Edits(patch_heads={place}, patch_from=WIDE), known=[one, other])
        step()
        return movement(name, passed)

    every = [OneHead(layer, head) for layer in range(one.layers()) for head in range(one.heads())]
    by_head = tuple(patched(f"head {head}", Place(*head)) for head in every)
    layer = every[int(np.argmax([each.word for each in by_head]))].layer
    return Pronoun(
        movement("“… tired”", one),
        movement("“… wide”", other),
        by_head,
        one_layer=patched(f"all heads of layer {layer}", Place(layer)),
        every_head=patched("all heads", EVERYWHERE),
        heads=one.heads(),
    )


def share_of_way(now: Array, start: Array, goal: Array) -> float:
    """(now - start) · (goal - start) / |goal - start|²: 0 at the start, 1 at the goal or beside it, below 0 away from it."""
    way = (goal - start).astype(np.float64)
    return float((now - start) @ way / (way @ way))


def _vectors(passed: Capture) -> Array:
    if passed.vectors is None:
        raise InputError(f"{passed.model.name} gives no vector for each token. Choose another model.", field="model")
    return passed.vectors
