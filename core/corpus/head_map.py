"""The map of the heads of a run, and its table in the files of the run."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa

from .about import NOT_JSON, has_type
from .columns import MAP, MAP_METADATA, Unfit, schema_of

ALIKE = 10  # nearest heads that are kept for each head, and neighbours that the trustworthiness is computed with


@dataclass(frozen=True, eq=False)
class HeadMap:
    """All heads of a run on a plane, near each other where they behave alike.

    heads            a row a head, by layer and head: layer, head, x, y, cluster (a place in `clusters`), alike (the rows of
                     the heads with the nearest profiles, nearest first, at most ALIKE)
    clusters         words for each, the largest first; no two are the same
    trustworthiness  whether neighbours on the map are neighbours by profile, in [0, 1] (Venna and Kaski 2001); None for
                     fewer than three heads, and for heads that are all the same
    silhouette       how clearly the heads fall into these clusters, in [-1, 1] (Rousseeuw 1987); None for a single cluster

    x and y are in units of the distance between profiles, rounded to 4 digits; how the map is turned means nothing.
    """

    heads: pd.DataFrame
    clusters: tuple[str, ...]
    trustworthiness: float | None
    silhouette: float | None

    def table(self) -> pa.Table:
        """The heads as a table; everything else is JSON in the metadata of its schema, under "map"."""
        about = {
            "clusters": self.clusters,
            "trustworthiness": self.trustworthiness,
            "silhouette": self.silhouette,
            "neighbours": ALIKE,
        }
        schema = schema_of(MAP).with_metadata({MAP_METADATA: json.dumps(about)})
        return pa.table({name: self.heads[name].tolist() for name in schema.names}, schema=schema)

    @classmethod
    def read(cls, table: pa.Table, metadata: dict[bytes, bytes]) -> HeadMap:
        """The map in a table with a row for each head. Raises Unfit for what the table or its metadata cannot be."""
        heads = table.to_pandas().sort_values(["layer", "head"], ignore_index=True)
        heads["alike"] = [row.tolist() for row in heads["alike"]]
        if heads["alike"].map(len).nunique() > 1 or any(row in others for row, others in heads["alike"].items()):
            raise Unfit(f"{MAP}.parquet does not list as many similar heads for every head")
        try:
            written = json.loads(metadata.get(MAP_METADATA, b""))
            clusters, numbers = written["clusters"], (written["trustworthiness"], written.get("silhouette"))
            fits = has_type(clusters, tuple[str, ...]) and heads["cluster"].max() < len(clusters)
            fits = fits and all(has_type(number, float | None) and (number or 0) <= 1 for number in numbers)
        except NOT_JSON:
            fits, clusters, numbers = False, [], (None, None)
        if not fits:
            raise Unfit(f"{MAP}.parquet does not say what its clusters are called")
        return cls(heads, tuple(clusters), *numbers)
