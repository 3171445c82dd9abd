"""Train the encoder-decoder that turns written dates into ISO dates, and write it with its model card.

python -m tools.training                        into core/models/written_dates, 10 to 30 minutes on two cores
python -m tools.training --out DIR --steps 300  a shorter one, elsewhere
"""

import argparse
import hashlib
import time
from datetime import datetime
from pathlib import Path
from random import Random

import numpy as np

from .card import Training, card
from .dates import HELD_OUT, KNOWN, WrittenDate, draw, split
from .learning import train
from .measuring import alignment, right

OUT = Path(__file__).resolve().parent.parent.parent / "core/models/written_dates"
STEPS = 2_500
A_FORM = 250  # held-out dates in each form
MEASURED_SEED = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="the folder to write")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of training, {STEPS:,} unless told")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    say(f"training with seed {options.seed}")
    started = time.monotonic()
    network, tokenizer, losses = train(options.steps, options.seed)
    minutes = (time.monotonic() - started) / 60
    for step in range(0, options.steps, max(1, options.steps // 20)):
        say(f"step {step:5,}: mean loss of 100 steps {np.mean(losses[step : step + 100]):.5f}")
    say(f"trained in {minutes:.1f} minutes; measuring")
    network.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)
    weights = options.out / "model.safetensors"
    weights.chmod(0o644)  # safetensors lets its owner alone read it; in a container somebody else does
    known, held_out = held_out_dates(KNOWN), held_out_dates(HELD_OUT)
    run = Training(
        seed=options.seed,
        losses=losses,
        minutes=minutes,
        numbers=network.num_parameters(),
        sha256=hashlib.sha256(weights.read_bytes()).hexdigest(),
        known=(known, right(network, tokenizer, known)),
        held_out=(held_out, right(network, tokenizer, held_out)),
        alignment=alignment(network, tokenizer, known),
    )
    (options.out / "README.md").write_text(card(run), encoding="utf-8")
    say(f"right: {np.mean(run.known[1]):.2%} in known forms, {np.mean(run.held_out[1]):.2%} in forms held out")
    say(f"wrote {options.out}, sha256 {run.sha256}")


def held_out_dates(forms: tuple[str, ...], each: int = A_FORM) -> list[WrittenDate]:
    """What is measured: held-out dates, so many in each form."""
    random = Random(MEASURED_SEED)
    _, dates = split()
    return [draw(random, dates, [form]) for form in forms for _ in range(each)]


def say(words: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {words}", flush=True)


if __name__ == "__main__":
    main()
