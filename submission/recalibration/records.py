"""``calibrators.json``: the fitted parameters on disk."""

import json
from collections.abc import Iterable
from pathlib import Path

from protocol.calibrators import FittedCalibrator
from submission.files import write_atomic


def write_calibrators(path: Path, fitted: Iterable[FittedCalibrator]) -> None:
    """Write ``calibrators.json``: a JSON list, one record a line, sorted by model, seed, calibrator and class.

    The same records give the same bytes in any order; numbers keep every bit. The file appears whole or not at all
    (a temporary file beside it takes its name). Raises ``ValueError`` when two records share a key.
    """
    write_atomic(path, as_json(fitted))


def as_json(fitted: Iterable[FittedCalibrator]) -> bytes:
    """The bytes of ``calibrators.json``."""
    records: dict[tuple[str, int, str, int], str] = {}
    for record in fitted:
        key = (record.model, record.seed, record.calibrator, -1 if record.class_index is None else record.class_index)
        if key in records:
            raise ValueError(
                f"two records for model {record.model}, seed {record.seed}, calibrator {record.calibrator}, "
                f"class {record.class_index}"
            )
        document = record.model_dump(mode="json", by_alias=True)
        records[key] = json.dumps(document, sort_keys=True, allow_nan=False, ensure_ascii=False)
    return ("[\n" + ",\n".join(records[key] for key in sorted(records)) + "\n]\n").encode()
