"""What is told of a step beside its picture: candidates, temperature, and the cache."""

from __future__ import annotations

import numpy as np
import streamlit as st

from core import Generation
from core.capturing.sampling import at_temperatures
from core.figures.labels import visible
from core.figures.plots.bars import share_bars
from core.figures.plots.lines import Series, lines
from ui import presenting
from ui.markdown import quoted
from ui.views.charts import show_chart
from ui.views.numbers import of_tokens

CANDIDATES = 8
CURVES = 5  # candidates whose probability is drawn over the temperature
TEMPERATURES = tuple(np.round(np.linspace(0.1, 3.0, 30), 2).tolist())


def show_candidates(generation: Generation, step: int) -> None:
    candidates = generation.candidates(step, CANDIDATES)
    groups = {"probability": np.array([candidate.probability for candidate in candidates])}
    if not generation.sampling.is_greedy:
        groups["as drawn"] = np.array([candidate.chance for candidate in candidates])
    tokens = [candidate.token for candidate in candidates]
    title, alt = f"What could be written in step {step + 1}", "Bars: the most probable next tokens."
    numbers = of_tokens(tokens, {"logit": [candidate.logit for candidate in candidates], **groups})
    show_chart(share_bars(tokens, groups), "candidates", alt, title=title, numbers=numbers)
    if generation.sampling.is_greedy:
        st.caption(f"{quoted(generation.tokens[step])} is the most probable one, and so it is written.")
    else:
        left = sum(candidate.chance > 0 for candidate in candidates)
        st.caption(
            f"{quoted(generation.tokens[step])} was drawn. “As drawn”: after temperature, top-k and top-p, which leave "
            f"{left if left < len(candidates) else 'all'} of these."
        )


def show_temperature(generation: Generation, step: int) -> None:
    candidates = generation.candidates(step, CURVES)[:CURVES]
    scores = generation.steps[step].scores
    curves = at_temperatures(scores, [candidate.token_id for candidate in candidates], TEMPERATURES)
    series = [
        Series(f"{rank}. {visible(candidate.token)}", TEMPERATURES, curve)
        for rank, (candidate, curve) in enumerate(zip(candidates, curves.T, strict=True), start=1)
    ]
    chart = lines(series, x="temperature", y="probability", height=presenting.height(340, 0.6))
    alt = "Curves: how probable the best candidates are at each temperature."
    show_chart(chart, "temperature", alt, title=f"Temperature in step {step + 1}")
    st.caption("The logits are divided by the temperature. Near 0 the best token takes all; the hotter, the more even.")


def show_cache(generation: Generation, step: int) -> None:
    """What came from the key/value cache and what was computed, its bytes, and the multiplications that it saves."""
    pass_ = generation.steps[step]
    tokens = "1 token was" if pass_.computed == 1 else f"{pass_.computed:,} tokens were"
    st.markdown(
        f"Step {step + 1}: {tokens} computed, **{pass_.cached:,}** came from the cache, which then holds "
        f"**{pass_.cache_bytes / 1e6:,.2f} MB** of keys and values."
    )
    if generation.tiles is not None:
        st.caption("Multiplications are counted for texts alone.")
        return
    costs = np.array([generation.multiplications(number) for number in range(len(generation.steps))], dtype=np.float64)
    curves = {name: costs[:, at] for at, name in enumerate(("with the cache", "everything anew"))}
    series = [Series(name, np.arange(1, len(costs) + 1), curve, kind="measured") for name, curve in curves.items()]
    chart = lines(series, x="step", y="multiplications", log_y=True, height=presenting.height(300, 0.6))
    alt = "Curves: the multiplications of every step, with the cache and without."
    numbers = of_tokens(generation.tokens, curves)
    show_chart(chart, "cache", alt, title="Multiplications of every step", numbers=numbers)
    with_cache, without = (int(number) for number in costs[step])
    total = costs.sum(axis=0)
    words = f"{with_cache:,} multiplications; reading everything anew takes {without:,}."
    st.caption(f"{words} All steps together: {1 - total[0] / total[1]:.1%} of the multiplications are saved.")
