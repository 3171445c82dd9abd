"""Experiments of the lessons, each computed once for all sessions."""

from core import AttentionTrace
from core.attention.rowwise import Pooled
from core.attention.trace import Array
from core.figures.heatmaps.side_by_side import small
from core.heads.views import HeadContributions, add_up, head_contributions
from core.lessons import long_range, scaling
from core.lessons.scaling import Around, HeadGradients, ModelScores, RowStatistics, StackGradients, Sweep, sweep
from core.models.modules import Kind
from core.models.projections import head_weights
from ui.cache import OnProgress, Store, cached
from ui.calls import call, made_by
from ui.requests import HeadRequest, KindRequest, TextRequest
from ui.views.sources.passes import captured


@cached(Store(3, waits=True))
def trace(request: HeadRequest) -> AttentionTrace:
    return call(captured(request.text).trace, layer=request.layer, head=request.head, kind=request.kind)


@cached(Store(4))
def layer_heads(
    text: TextRequest, kind: Kind, layer: int, *, on_progress: OnProgress | None = None
) -> tuple[list[Pooled], HeadContributions]:
    """The weights of each head of a layer, small enough to draw, and what each adds to the layer's output."""
    pass_ = captured(text)
    pictures, outputs = [], []
    for head in range(pass_.heads(kind)):  # one trace at a time: those of a long text are large
        trace = pass_.trace(layer, head, kind)
        pictures.append(small(trace.weights, trace.mask))
        outputs.append(trace.output)
        if on_progress is not None:
            on_progress(head + 1)
    contributions = add_up(outputs, [head_weights(pass_.model, layer, head, kind) for head in range(len(outputs))])
    return pictures, made_by(contributions, head_contributions, pass_, layer, kind)


@cached(Store(8))
def mean_distances(request: KindRequest, without_first: bool, *, on_progress: OnProgress | None = None) -> Array:
    """[layers, heads] the mean number of tokens between a query and its keys."""
    pass_ = captured(request.text)
    return call(long_range.mean_distances, pass_, request.kind, without_first=without_first, on_progress=on_progress)


@cached(Store(4))
def scores_of_all_heads(request: KindRequest, *, on_progress: OnProgress | None = None) -> ModelScores:
    return call(scaling.model_scores, captured(request.text), request.kind, on_progress=on_progress)


@cached(Store(32, waits=True), spinner="Measuring gradients")
def gradient_reach(length: int, gain: float, forget_bias: float) -> dict[str, long_range.Reach]:
    return call(long_range.compare_reach, length, gain=gain, forget_bias=forget_bias)


@cached(Store(12, waits=True), spinner="Measuring random heads")
def scaling_sweep(keys: int, distribution: str, deviation: float) -> Sweep[RowStatistics]:
    return call(sweep, keys=keys, distribution=distribution, deviation=deviation)


@cached(Store(1, waits=True), spinner="Following gradients through random heads")
def gradient_sweep() -> Sweep[HeadGradients]:
    return call(scaling.head_gradients)


@cached(Store(64, waits=True), spinner="Following gradients through the stack")
def gradients_in_stack(layers: int, width: int, around: Around) -> tuple[StackGradients, StackGradients]:
    """Without and with the scale."""
    given = {"width": width, "around": around}
    unscaled = call(scaling.stack_gradients, layers, **given, scaled=False)
    return unscaled, call(scaling.stack_gradients, layers, **given, scaled=True)
