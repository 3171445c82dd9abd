"""What looking at attention costs while a model writes.

    python -m bench.generation            both
    python -m bench.generation writing    tokens a second with and without capture, in turns
    python -m bench.generation stepping   from an arrow key to the step's picture, on a short and a long text, in Chromium

Every figure is the median of several rounds. Times hang on the machine; of interest is their ratio.
"""

import statistics
import sys
import time
from collections.abc import Callable
from urllib.parse import urlencode

import torch
from playwright.sync_api import Browser

from bench.browser import SCREEN, Traffic, walk
from bench.measuring import chromium
from core import Model, load_model
from core.capturing.generation.generating import Generating
from core.models.inputs import all_inputs, cache_of
from tests.browser.driver import App, Server

MODEL = "SmolLM2-135M-Instruct"
ROUNDS, NEW = 7, 20
SENTENCE = "the cat saw the other cat and sat down "  # nine tokens


def without_capture(model: Model, ids: torch.Tensor) -> Callable[[], None]:
    """The same greedy loop on the network alone."""
    token: torch.Tensor = ids
    cache: dict = {}

    def step() -> None:
        nonlocal token, cache
        with torch.inference_mode():
            returned = model.network(input_ids=token, **cache, use_cache=True, logits_to_keep=1)
        token, cache = returned.logits[:, -1:].argmax(-1), cache_of(returned)

    return step


def writing(tokens: int) -> None:
    model = load_model(MODEL)
    inputs = all_inputs(model, SENTENCE * (tokens // 9))
    seconds: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(ROUNDS):
        generating = Generating(model, inputs)
        steps = {"without": without_capture(model, inputs["input_ids"]), "with": generating.go_on}
        for step in steps.values():
            step()  # the text itself
        for _ in range(NEW):
            for name, step in steps.items():  # in turns, so that both meet the same machine
                started = time.perf_counter()
                step()
                seconds[name].append(time.perf_counter() - started)
    plain, captured = (statistics.median(seconds[name]) for name in ("without", "with"))
    print(
        f"{tokens:5} tokens: {1 / plain:.1f} tokens a second without capture, {1 / captured:.1f} with, "
        f"{captured / plain:.2f} times the time"
    )


def stepping(browser: Browser, server: Server, tokens: int) -> None:
    asked = {"model": MODEL, "text": (SENTENCE * (tokens // 9 + 1)).strip(), "rows": "steps"}
    app = App(browser.new_context(viewport=SCREEN), server)
    traffic = Traffic().listen(app.page)
    app.open(f"/generation?{urlencode(asked)}")
    app.eventually(lambda: app.drawn("row"), patience=300)
    app.idle()
    seconds, megabytes = walk(app, traffic, "row", ("ArrowRight", "ArrowLeft"))
    print(f"{tokens:5} tokens: {seconds:.2f} s from an arrow key to the step's picture, {megabytes:.2f} MB")


def main(wanted: str) -> None:
    if wanted in ("", "writing"):
        for tokens in (16, 1_024):
            writing(tokens)
    if wanted in ("", "stepping"):
        server = Server().wait()
        with chromium() as browser:
            for tokens in (16, 1_024):
                stepping(browser, server, tokens)
        server.stop()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
