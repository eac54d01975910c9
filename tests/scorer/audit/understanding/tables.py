"""Tables as a reader hands them on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from scorer.audit.shapes import Evidence, Loaded, Role
from scorer.audit.understanding import Wishes, understand


def loaded(columns: Mapping[str, object], name: str = "preds.csv", **other: object) -> Loaded:
    """``columns`` as read from a file: whole numbers are text, as a CSV gives them."""
    series = []
    for column, values in columns.items():
        kept = np.asarray(values)
        if kept.dtype.kind in "iu":
            series.append(pl.Series(column, [str(value) for value in kept.tolist()], dtype=pl.String))
        elif kept.dtype.kind == "f":
            series.append(pl.Series(column, kept, dtype=pl.Float64).fill_nan(None))
        else:
            texts = [None if value in (None, "") else str(value) for value in kept.tolist()]
            series.append(pl.Series(column, texts, dtype=pl.String))
    frame = pl.DataFrame(series)
    precision = {one.name: "float64" for one in series if one.dtype == pl.Float64}
    fields: dict[str, object] = {"form": "csv", "path": Path(name), "sha256": "0" * 64, "precision": precision}
    return Loaded(name, frame, **(fields | other))  # type: ignore[arg-type]


def understood(
    *predictions: Loaded, labels: Loaded | None = None, splits: Loaded | None = None, wishes: Wishes | None = None
) -> Evidence:
    """The evidence of ``predictions``, where the order of arguments doesn't matter."""
    return understand(predictions, labels, splits, wishes or Wishes())


def roles(evidence: Evidence, name: str = "preds.csv") -> dict[Role, tuple[str, ...]]:
    """Columns by role of one file."""
    out: dict[Role, tuple[str, ...]] = {}
    for one in evidence.mapping[name]:
        out[one.role] = (*out.get(one.role, ()), *one.columns)
    return out


def finding_codes(evidence: Evidence) -> list[str]:
    """The codes of all findings."""
    return [one.code for one in evidence.findings]


def ids(n: int, form: str = "im{:04d}") -> list[str]:
    """``n`` ids."""
    return [form.format(i) for i in range(n)]


def softmax(
    z: Sequence[object] | np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Rows that sum to one."""
    powers = np.exp(np.asarray(z, dtype=np.float64))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
