"""How well the first ten heads of "Which heads matter" are chosen: how many of the ten strongest are among them.

    python -m bench.suspects

bench/README.md says how to read the table.
"""

from time import process_time

import pandas as pd
import torch

from core.heads.effects import SUSPECTS, Effects
from core.models.inputs import all_inputs
from core.models.loading import load_model

MODELS = ("all-MiniLM-L6-v2", "SmolLM2-135M-Instruct")
TEXTS = (
    "The capital of France is",
    "The meeting is on the 12th of March 2021, so please write the date as 12 March",
    "The keys to the old wooden cabinet that my brother built",
    "Mr Dursley met Mrs Potter in the village. Later that day, Mr Durs",
    "The animal didn't cross the street because it was too tired.",
    "She opened the window, looked at the rain and decided to stay at home with a cup of",
    "When Mary and John went to the store, John gave a drink to",
    "Water boils at 100 degrees Celsius and freezes at",
    "The river runs through the valley, past the mill and the old stone bridge, and on to the sea. In spring the meadows are "
    "flooded, and the herons stand in the shallow water waiting for fish. In summer the children from the village swim below "
    "the weir, where the water is deep and cool. Every autumn the farmers bring the cattle down from the hills, and the narrow "
    "road is full of animals and dust. When winter comes, the river freezes at its edges, and the people of the village walk "
    "along the bank, talk about the year that has passed, and wait for",
)


def main() -> None:
    torch.set_num_threads(1)
    for name in MODELS:
        model = load_model(name)
        print(f"\n{name}\ntokens  found  rank correlation  passes  text")
        for text in TEXTS:
            inputs = all_inputs(model, text)
            start = process_time()
            asked = Effects(model, inputs)
            one_pass, start = process_time() - start, process_time()
            order = asked.suspects(sum(asked.heads))
            passes = (process_time() - start) / one_pass
            sizes = {(layer, head): abs(size) for layer, row in asked.of_heads() for head, size in enumerate(row)}
            strongest = sorted(sizes, key=lambda head: -sizes[head])[:SUSPECTS]
            found = len({*strongest} & {*order[:SUSPECTS]})
            ranks = pd.Series([sizes[head] for head in order]).rank(ascending=False)
            agreement = ranks.corr(pd.Series(range(len(order))))
            tokens = inputs["input_ids"].shape[1]
            print(f"{tokens:6} {found:6} {agreement:17.2f} {passes:7.1f}  {text[:40]}", flush=True)


if __name__ == "__main__":
    main()
