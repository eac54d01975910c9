"""Where fuzzing starts: small valid inputs, made from good bundles; ``python -m tests.fuzz.seeds`` writes them."""

import io
import json
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from submission.carrier import ROW, carry
from submission.writing import to_yaml
from tests.builders import Draft, good_submission, write
from tests.fuzz.run import CORPUS
from tests.fuzz.targets import KINDS, RECORDS, TABLES

ROWS = 12


def seeds(scratch: Path) -> Iterator[tuple[str, str, bytes]]:
    """Target, name and bytes of every seed; ``scratch`` is an empty folder."""
    drafts = {kind: good_submission(kind) for kind in KINDS}
    files = [file for file, _ in RECORDS]
    for kind, draft in drafts.items():
        folder = write(draft, scratch / kind)
        for choice, file in enumerate(files):
            data = (folder / file).read_bytes()
            if file == "calibrators.json":
                data = json.dumps(json.loads(data)[:2]).encode()
            yield "records", f"{kind}-{file}", bytes([choice]) + data
        tables = {"splits": draft.splits, "predictions": draft.predictions}
        for target, table in tables.items():
            for ending in ("parquet", "csv"):
                choice = TABLES.index((kind, ending))
                yield target, f"{kind}-{ending}", bytes([choice]) + _table(table, ending)
    for method, name in ((zipfile.ZIP_STORED, "stored"), (zipfile.ZIP_DEFLATED, "deflated")):
        yield "archive", f"{name}-zip", _zip(drafts["binary"], method)
    for name, size in (("one-line", 100), ("whole-lines", 2 * ROW), ("lines", 2 * ROW + 1)):
        yield "carrier", name, _carrier(scratch, bytes(k % 251 for k in range(size)))
    header, *lines = _carrier(scratch, bytes(3 * ROW)).splitlines()
    yield "carrier", "backwards", b"\r\n".join([header, *reversed(lines)])


def _table(table: pl.DataFrame, ending: str) -> bytes:
    sink = io.BytesIO()
    few = table.gather_every(len(table) // ROWS).head(ROWS)
    if ending == "csv":
        few.write_csv(sink)
    else:
        few.write_parquet(sink, compression="uncompressed")
    return sink.getvalue()


def _zip(draft: Draft, method: int) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        archive.writestr(zipfile.ZipInfo("bundle/"), b"")
        for name, data in (("task.yaml", to_yaml(draft.task)), ("configs/train.yaml", b"a: 1\n"), (".DS_Store", b"x")):
            member = zipfile.ZipInfo(f"bundle/{name}")
            member.compress_type = method
            archive.writestr(member, data)
    return sink.getvalue()


def _carrier(scratch: Path, data: bytes) -> bytes:
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        (Path(folder) / "bundle.zip").write_bytes(data)
        carry(Path(folder) / "bundle.zip", Path(folder) / "bundle.csv")
        return (Path(folder) / "bundle.csv").read_bytes()


def main() -> None:
    """Write the seeds below ``corpus``, beside what fuzzing has found."""
    with tempfile.TemporaryDirectory() as scratch:
        for target, name, data in seeds(Path(scratch)):
            (CORPUS / target).mkdir(parents=True, exist_ok=True)
            (CORPUS / target / name).write_bytes(data)


if __name__ == "__main__":
    main()
