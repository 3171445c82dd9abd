"""The page that a notebook shows of the same attention weights, by Headlight, BertViz and CircuitsVis, in a real Chromium.

    python -m bench.viewers

Two sizes: 12 × 12 heads on 30 random tokens, with random weights, and SmolLM2's 30 × 9 heads on 512. For each page: its bytes,
the seconds to write it, to the first picture, and to another head (in head_view, another layer), each until it is painted. The
network is off. BertViz loads three scripts from elsewhere, without which its pages stay empty: here it gets those of npm. Both
other libraries are installed for this run alone, beside the packages of this environment. What takes more than a minute is
stopped.
"""

import os
import resource
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LIMIT = 60  # seconds
MEMORY = 12 * 2**30  # bytes of the process that writes a page
ROUNDS = 5
PACKAGES = ("bertviz==1.4.1", "circuitsvis==1.43.3", "importlib-metadata==8.7.0", "zipp==3.23.0")
# What BertViz loads, by the end of its address: the package of npm, and the file in it. npm has no jQuery 2.0.0.
SCRIPTS = {
    "require.min.js": ("requirejs@2.3.6", "require.js"),
    "d3.min.js": ("d3@5.7.0", "dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.1.0", "dist/jquery.min.js"),
}


@dataclass(frozen=True)
class Viewer:
    """A way to show all heads. drawn: what is there once the first picture is; another: what chooses another head"""

    library: str
    function: str
    drawn: str
    another: str

    def __str__(self) -> str:
        return f"{self.library} {self.function}"


VIEWERS = {
    str(viewer): viewer
    for viewer in (
        Viewer("Headlight", "view", "h3.chosen:not(:empty)", "select[name=Layer]"),
        Viewer("BertViz", "head_view", "svg line", "#layer"),
        Viewer("BertViz", "model_view", "svg line", "#attn_background_1_1 ~ rect"),
        Viewer("CircuitsVis", "attention_heads", "canvas", "canvas >> nth=1"),
    )
}
# Two frames later what has changed is painted.
FIRST = """
{
    const look = () => document.querySelector("DRAWN") ? after() : requestAnimationFrame(look);
    const after = () => requestAnimationFrame(() => requestAnimationFrame(() => (window.first = performance.now())));
    look();
}
"""
NEXT = """
() => {
    const after = () => requestAnimationFrame(() => requestAnimationFrame(() => (window.next = performance.now() - start)));
    let start;
    const begin = () => {
        if (start !== undefined) return;
        start = performance.now();
        const changes = { childList: true, subtree: true, attributes: true, characterData: true };
        new MutationObserver((_, watch) => (watch.disconnect(), after())).observe(document.body, changes);
    };
    for (const name of ["change", "click", "mouseover"]) addEventListener(name, begin, { capture: true });
}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        other = _environment(folder)
        for layers, heads, tokens in ((12, 12, 30), (30, 9, 512)):
            arrays = folder / f"{tokens}.npz"
            names = np.array([f"t{position}" for position in range(tokens)])
            np.savez(arrays, attentions=_random(layers, heads, tokens) if tokens == 30 else _real(tokens), tokens=names)
            print(f"\n{layers} × {heads} heads, {tokens} tokens; medians of {ROUNDS}")
            print(f"{'':28}{'MB':>8}{'written':>10}{'first':>10}{'another':>10}   seconds")
            for name in VIEWERS:
                print(f"{name:28}{_measured(name, other, arrays, folder)}", flush=True)


def _measured(name: str, other: Path, arrays: Path, folder: Path) -> str:
    page = folder / "page.html"
    written = _in_a_process(str(other), "--write", name, str(arrays), str(page))
    if isinstance(written, str):
        return f"  not written: {written}"
    told = f"{page.stat().st_size / 1e6:8.1f}{written[0]:10.2f}"
    rounds: list[list[float]] = []
    for _ in range(ROUNDS):
        seconds = _in_a_process(sys.executable, "--open", name, str(page), str(folder))
        if isinstance(seconds, str):
            return f"{told}  not shown: {seconds}"
        rounds.append(seconds)
    return told + "".join(f"{statistics.median(times):10.2f}" for times in zip(*rounds, strict=True))


def _in_a_process(python: str, *words: str) -> list[float] | str:
    """The numbers that this program prints with these words, or why there are none."""
    program = [python, "-m", "bench.viewers", *words]
    with subprocess.Popen(program, stdout=-1, stderr=-1, text=True, start_new_session=True) as process:
        try:
            out, problem = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"not within {LIMIT} s"
    return (problem.splitlines() or ["killed"])[-1][:80] if process.returncode else list(map(float, out.split()))


def _random(layers: int, heads: int, tokens: int) -> NDArray[np.float32]:
    given = np.random.default_rng(0).dirichlet(np.full(tokens, 0.3), (layers, heads, tokens))
    return given.astype(np.float32)


def _real(tokens: int) -> NDArray[np.float32]:
    from core import capture, load_model

    ids = np.random.default_rng(0).integers(100, 40_000, tokens)
    passed = capture(load_model("SmolLM2-135M-Instruct"), input_ids=ids)
    grid = range(passed.layers()), range(passed.heads())
    return np.array([[passed.trace(layer, head).weights for head in grid[1]] for layer in grid[0]], np.float32)


# --- what the others need


def _environment(folder: Path) -> Path:
    """The python of an environment that has this one's packages and the two libraries; and BertViz' scripts in the folder."""
    venv.create(folder / "other", with_pip=True)
    python = folder / "other" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", *PACKAGES], check=True)
    site = next((folder / "other").glob("lib/*/site-packages"))
    (site / "shared.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    for name, (package, file) in SCRIPTS.items():
        pack = subprocess.run(["npm", "pack", "-s", package], cwd=folder, check=True, capture_output=True, text=True)
        read = ["tar", "xzfO", pack.stdout.strip(), f"package/{file}"]
        (folder / name).write_bytes(subprocess.run(read, cwd=folder, check=True, capture_output=True).stdout)
    return python


# --- in a process of their own


def write(name: str, arrays: str, file: str) -> None:
    """Write a page, in the environment of the others; print the seconds."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with np.load(arrays) as given:
        weights, tokens = given["attentions"], given["tokens"].tolist()
    make = {"Headlight": _by_headlight, "BertViz": _by_bertviz, "CircuitsVis": _by_circuitsvis}[VIEWERS[name].library]
    make(weights[:1, :1, :2, :2], tokens[:2], VIEWERS[name].function)  # imports take their own time
    start = time.perf_counter()
    page = make(weights, tokens, VIEWERS[name].function)
    print(time.perf_counter() - start)
    Path(file).write_text(page, "utf-8")


def _by_headlight(weights: NDArray[np.float32], tokens: list[str], _: str) -> str:
    from core import view

    return view(weights, tokens).page


def _by_bertviz(weights: NDArray[np.float32], tokens: list[str], function: str) -> str:
    import bertviz  # pyright: ignore[reportMissingImports]
    import torch

    layers = tuple(torch.from_numpy(layer)[None] for layer in weights)
    return _in_a_page(getattr(bertviz, function)(layers, tokens, html_action="return").data)


def _by_circuitsvis(weights: NDArray[np.float32], tokens: list[str], _: str) -> str:
    from circuitsvis.attention import attention_heads  # pyright: ignore[reportMissingImports]

    names = [f"{layer}.{head}" for layer, head in np.ndindex(weights.shape[:2])]
    heads = weights.reshape(-1, *weights.shape[2:])
    return _in_a_page(attention_heads(heads, tokens, names, mask_upper_tri=False).local_src)


def _in_a_page(body: str) -> str:
    return f'<!doctype html><html><meta charset="utf-8"><body>{body}</body></html>'


def show(name: str, file: str, folder: str) -> None:
    """Open a page; print the seconds to the first picture and to another head."""
    from playwright.sync_api import Route

    from bench.measuring import chromium

    viewer = VIEWERS[name]

    def answer(route: Route) -> None:
        last = route.request.url.rpartition("/")[2]
        if route.request.url.startswith("file:"):
            route.continue_()
        elif last in SCRIPTS:
            route.fulfill(path=Path(folder) / last, content_type="text/javascript")
        else:
            route.abort()

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.route("**", answer)
        page.add_init_script(FIRST.replace("DRAWN", viewer.drawn))
        page.goto(Path(file).as_uri(), wait_until="commit", timeout=1000 * LIMIT)
        times = []
        for what in ("first", "next"):
            while not (milliseconds := page.evaluate(f"window.{what}")):
                page.wait_for_timeout(50)
            times.append(milliseconds / 1000)
            if what == "first":
                page.evaluate(NEXT)
                chooses = page.locator(viewer.another).first
                if viewer.library == "CircuitsVis":
                    chooses.hover()
                elif "select" in chooses.evaluate("element => element.localName"):
                    chooses.select_option(index=1)
                else:
                    chooses.click()
        print(*times)


if __name__ == "__main__":
    {"--write": write, "--open": show}[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:] else main()
