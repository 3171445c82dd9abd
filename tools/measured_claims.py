"""Test the known claims on the included models and keep what comes out (core/claims/measured.json), for the page Heads.

python -m tools.measured_claims      takes minutes
"""

from __future__ import annotations

import json

from core import known_heads, load_model
from core.claims.known import MEASURED
from core.models.catalogue import CATALOGUE


def main() -> None:
    found = {}
    for entry in CATALOGUE[:2]:  # the third one is not made of sentences
        model = load_model(entry.name)
        table = known_heads(model).astype(object)
        found[model.revision] = table.where(table.notna(), None).to_dict("records")
    MEASURED.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
