"""Test the known claims on the included models and keep what comes out (core/claims/measured.json), for pages.

python -m tools.measured_claims      takes minutes
"""

import json

from core import load_model
from core.claims.known import MEASURED, by_head, known_check
from core.models.catalogue import CATALOGUE

DIGITS = 4  # after the point


def main() -> None:
    models = []
    for entry in CATALOGUE[:2]:  # the third one is not made of sentences
        model = load_model(entry.name)
        rows = by_head(known_check(model).finished().sums).round(DIGITS).to_dict("records")
        models.append(f"{json.dumps(model.revision)}: [\n" + ",\n".join(map(json.dumps, rows)) + "\n]")
    MEASURED.write_text("{\n" + ",\n".join(models) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
