"""What muting every head in turn costs, as a multiple of one pass that is captured.

    python -m bench.effects
    python -m bench.effects --lengths 16 --rounds 15

bench/README.md says how to read the table.
"""

import argparse

import numpy as np
import torch

from bench.capture import MODEL, token_ids
from bench.measuring import quartiles, seconds
from core.capturing.capture import capture
from core.heads.effects import head_effects
from core.models.loading import load_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 256], help="tokens")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = load_model(MODEL)
    print(f"{MODEL}, {options.threads} threads, {options.rounds} rounds")
    print("tokens   one pass   every head muted    multiple (quartiles)")
    for length in options.lengths:
        ids = token_ids(length)
        capture(model, input_ids=ids)
        passes, effects = [], []
        for _ in range(options.rounds):
            passes.append(np.median([seconds(lambda ids=ids: capture(model, input_ids=ids)) for _ in range(5)]))
            effects.append(seconds(lambda ids=ids: head_effects(model, input_ids=ids)))
        multiple = quartiles(np.array(effects) / passes, 1)
        print(f"{length:6} {np.median(passes):8.3f} s {np.median(effects):16.2f} s       {multiple}", flush=True)


if __name__ == "__main__":
    main()
