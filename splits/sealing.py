"""``splits.parquet``: a made split under hashed identifiers, in parts that fit into memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from splits.hashing import digests, hash_column, hex_column
from splits.making import APART, Split
from splits.plan import Plan

PART = 500_000  # rows of a part


@dataclass(frozen=True)
class Sealed:
    """The rows of a split in order of ``image_id``, which tells nothing of the order of names."""

    split: Split
    frame: pl.DataFrame  # that of the split with numbers for repeated texts, which are quicker to reorder
    order: NDArray[np.int64]
    images: NDArray[np.uint8]
    patients: pl.Series | None  # the hashed identifier of each patient; None where they are unavailable

    def parts(self) -> Iterator[pl.DataFrame]:
        """The table, at most 500,000 rows at once: image_id, patient_id, split, site, labels, subgroups."""
        split = self.split
        for start in range(0, len(self.order), PART):
            rows = self.order[start : start + PART]
            if self.patients is None:
                patient = pl.repeat(None, len(rows), dtype=pl.String, eager=True)
            else:
                patient = self.patients.gather(split.patients.codes[rows])
            yield self.frame[rows].select(
                hex_column(self.images[rows]).alias("image_id"),
                patient.alias("patient_id"),
                pl.col("split", "site").cast(pl.String),
                *split.label_columns,
                *(pl.col(name).cast(pl.String) for name in split.subgroups),
                *(["fold"] if "fold" in self.frame.columns else []),
            )


def seal(split: Split, plan: Plan, salt: bytes) -> Sealed:
    """``split`` with every image and patient hashed under ``salt`` and the namespace of ``plan``."""
    images = digests(salt, f"{plan.namespace}/image", split.frame["image"])
    repeated = pl.col("split", "site", *split.subgroups).cast(pl.Categorical)
    return Sealed(split, split.frame.with_columns(repeated), _order(images), images, _patients(split, plan, salt))


def _order(images: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The rows of ``images`` in order of their bytes."""
    first = np.ascontiguousarray(images[:, :8]).view(">u8").ravel().astype(np.uint64)
    order = np.argsort(first)
    ordered = first[order]
    if np.any(ordered[1:] == ordered[:-1]):  # once in many lifetimes
        words = images.view(">u8").astype(np.uint64)
        order = np.lexsort(words.T[::-1])
    return order


def _patients(split: Split, plan: Plan, salt: bytes) -> pl.Series | None:
    names, space = split.patients.names, f"{plan.namespace}/patient"
    if plan.unavailable:
        return None
    if not plan.patients_per_site:
        return hex_column(digests(salt, space, names))
    parted = names.str.splitn(APART, 2).struct.rename_fields(["site", "patient"]).struct.unnest()
    return per_site_ids(parted["site"], parted["patient"], space, salt)


def per_site_ids(site: pl.Series, patient: pl.Series, namespace: str, salt: bytes) -> pl.Series:
    """Hashed patients where each site numbers its own: the site is part of the namespace."""
    rows = pl.DataFrame({"site": site, "patient": patient}).with_row_index("row")
    parts = [
        part.select("row", hash_column(salt, f"{namespace}/{name}", part["patient"]).alias("id"))
        for (name,), part in rows.partition_by("site", as_dict=True).items()
    ]
    return pl.concat(parts).sort("row")["id"]
