"""Hostile and careless bundles before the decoding process itself: a clear finding, exit code 1, no exception.

Each offence alone, with its message, is among the mutations; here stand those that might break a process.
"""

import io
import os
import random
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import logit

from protocol.findings import Status, Verdict
from scorer.check import check
from scorer.intake import jail
from submission.bundle import NoBundleError, open_bundle
from tests.builders import copy_of, good_submission, write
from tests.mutations.tables import halved
from tests.referee import quick_check, rejecting, result_of

INTAKE = {f"MVC{number:03}" for number in range(1, 18)}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good bundle, not to be changed."""
    return write(good_submission(), tmp_path_factory.mktemp("written") / "bundle")


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A good bundle to be changed."""
    return copy_of(written, tmp_path / "bundle")


def refused(verdict: Verdict, *rules: str) -> None:
    """Rejected by ``rules`` (any rule of intake if none is given), each finding saying what, where and what else."""
    assert verdict.status is Status.REJECTED
    assert verdict.exit_code == 1
    found = rejecting(verdict)
    assert found == list(rules) if rules else set(found) <= INTAKE, verdict.last_line
    assert all(f.where and f.saw and f.wanted for result in verdict.rejecting for f in result.findings)
    assert "\n" not in verdict.last_line


def rewrite(folder: Path, change: Callable[[pa.Table], pa.Table], file: str = "predictions", **options: Any) -> None:
    """Change a table of the bundle and write it by PyArrow."""
    path = folder / f"{file}.parquet"
    pq.write_table(change(pq.read_table(path)), path, **options)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "MVC001"),
        (b"\x80", "MVC007"),
        (b"PAR1", "MVC001"),
        (b"PAR1" + bytes(1000) + b"PAR1", "MVC001"),
        (b"PAR1\xff\xff\xff\x7fPAR1", "MVC001"),
        (b"PARE" + bytes(100), "MVC001"),
        (b"\x89HDF\r\n\x1a\n", "MVC001"),
        (b"PK\x03\x04", "MVC001"),
    ],
)
def test_what_is_no_table_is_refused(folder: Path, data: bytes, rule: str) -> None:
    (folder / "predictions.parquet").write_bytes(data)
    refused(quick_check(folder), rule)


def test_a_truncated_table_is_refused_by_the_process(folder: Path) -> None:
    data = (folder / "predictions.parquet").read_bytes()
    (folder / "predictions.parquet").write_bytes(data[:-5])
    refused(check(folder), "MVC001")


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bits_never_break_the_process(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray((folder / "predictions.parquet").read_bytes())
    for _ in range(6):
        data[rng.randrange(4, len(data))] ^= 1 << rng.randrange(8)
    (folder / "predictions.parquet").write_bytes(data)
    verdict = check(folder)
    assert verdict.status in (Status.ACCEPTED, Status.REJECTED)


def test_a_killed_process_is_a_finding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail, "SECONDS", 0)  # no processor time at all
    refused(check(folder), "MVC015")


def test_a_slow_process_is_a_finding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail, "SECONDS", -60)
    refused(check(folder), "MVC015")


def test_a_bomb_of_long_words_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail, "MEMORY", 3 << 29)

    def bomb(table: pa.Table) -> pa.Table:
        word = pa.DictionaryArray.from_arrays(pa.array([0] * table.num_rows, pa.int32()), pa.array(["x" * (1 << 20)]))
        return table.set_column(table.column_names.index("model"), "model", word)

    rewrite(folder, bomb, dictionary_pagesize_limit=1 << 30)
    assert (folder / "predictions.parquet").stat().st_size < 1 << 20
    refused(check(folder))


def test_a_bomb_of_rows_is_refused_unread(folder: Path) -> None:
    def bomb(table: pa.Table) -> pa.Table:
        return table.slice(0, 1).take(pa.array([0] * 3_000_000, pa.int32()))

    rewrite(folder, bomb)
    refused(check(folder), "MVC005")


def test_a_result_that_is_too_large_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail, "MAX_RESULT", 10)
    refused(quick_check(folder), "MVC015")


@pytest.mark.parametrize("file", ["splits.parquet", "predictions.parquet"])
def test_a_pipe_is_not_waited_for(folder: Path, file: str) -> None:
    (folder / file).unlink()
    os.mkfifo(folder / file)
    refused(quick_check(folder), "MVC001")


@pytest.mark.parametrize("file", ["task.yaml", "submission.yaml", "calibrators.json", "declaration.lock"])
@pytest.mark.parametrize(
    "data", [b"\x00" * 100, b"\xff" * 100, b"[" * 5000, b"{" * 5000, b"x: &a [*a]", b"- 1\n- 2", b"0x" + b"f" * 5000]
)
def test_a_record_of_any_bytes_is_refused(folder: Path, file: str, data: bytes) -> None:
    (folder / file).write_bytes(data)
    verdict = quick_check(folder)
    refused(verdict)
    assert "MVC009" in rejecting(verdict)


@pytest.mark.parametrize("column", ["image_id", "patient_id", "split", "site", "label", "sex"])
def test_a_split_file_without_a_column_is_refused(folder: Path, column: str) -> None:
    rewrite(folder, lambda table: table.drop_columns([column]), "splits")
    refused(quick_check(folder), *(["MVC603", "MVC604"] if column == "sex" else ["MVC002"]))


@pytest.mark.parametrize(
    "text", ["x'); DROP TABLE runs; --", "\"; COPY runs TO '/tmp/x'; --", "${jndi:ldap://x}", "p\u0000"]
)
def test_text_is_only_ever_a_value(folder: Path, text: str) -> None:
    def put(table: pa.Table) -> pa.Table:
        return table.set_column(table.column_names.index("model"), "model", pa.array([text] * table.num_rows))

    rewrite(folder, put)
    refused(quick_check(folder), "MVC014" if "\u0000" in text else "MVC202")


def test_one_class_only_in_test_is_waivable(folder: Path) -> None:
    def one(table: pa.Table) -> pa.Table:
        label = [
            1 if s == "test" else y for s, y in zip(table["split"].to_pylist(), table["label"].to_pylist(), strict=True)
        ]
        return table.set_column(table.column_names.index("label"), "label", pa.array(label, pa.int64()))

    rewrite(folder, one, "splits")
    refused(quick_check(folder), "MVC107", "MVC604")


def test_a_zip_that_is_cut_is_refused(folder: Path) -> None:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    path = folder.with_name("bundle.zip")
    path.write_bytes(sink.getvalue()[:-30])
    refused(quick_check(path), "MVC001")


def test_an_empty_zip_is_refused_and_an_empty_folder_is_no_bundle(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w"):
        pass
    refused(quick_check(tmp_path / "a.zip"), "MVC001")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoBundleError):
        quick_check(tmp_path / "empty")


@pytest.mark.parametrize("table", ["splits", "predictions"])
def test_a_table_that_changes_while_it_is_read_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    run = jail._run
    path = folder / f"{table}.parquet"

    def rewriting(job: Mapping[str, Any], fds: Sequence[int]) -> str:
        stopped = run(job, fds)
        pq.write_table(pq.read_table(path).slice(0, 10), path)  # in place: the same file, other bytes
        return stopped

    with monkeypatch.context() as patch:
        patch.setattr(jail, "_run", rewriting)
        verdict = check(folder)
    refused(verdict, "MVC001")
    found = result_of(verdict, "MVC001").findings
    assert [(f.where, f.saw) for f in found] == [(f"{table}.parquet", "the file changed while it was read")]


def test_a_table_that_goes_before_it_is_read_is_refused(folder: Path, tmp_path: Path) -> None:
    bundle = open_bundle(folder, tmp_path)
    (folder / "predictions.parquet").unlink()
    (tmp_path / "arrays").mkdir()
    intake = jail.decode(bundle, tmp_path / "arrays")
    assert [(p.offence, p.where) for p in intake.problems] == [("unreadable-file", "predictions.parquet")]
    assert intake.splits is not None
    assert "predictions" in intake.missing


def test_splits_may_be_a_csv_that_pandas_wrote(folder: Path) -> None:
    splits = pq.read_table(folder / "splits.parquet").to_pylist()
    lines = [",".join(splits[0]), *(",".join("" if v is None else str(v) for v in row.values()) for row in splits)]
    (folder / "splits.csv").write_text("\n".join(lines) + "\n")
    (folder / "submission.yaml").write_text(
        (folder / "submission.yaml").read_text().replace("splits.parquet", "splits.csv")
    )
    assert "MVC001" not in rejecting(quick_check(folder))
    assert "MVC003" not in rejecting(quick_check(folder))


def log_odds(p: Any) -> Any:
    return logit(p.clip(1e-9, 1 - 1e-9))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("multiclass", halved),
        ("binary", lambda table: table.rename_columns([{"p_1": "p"}.get(n, n) for n in table.column_names])),
        ("binary", lambda table: table.rename_columns([{"p_1": "p_malignant"}.get(n, n) for n in table.column_names])),
        ("multilabel", lambda table: _listed(table)),
        ("binary", lambda table: table.append_column("z_1", pa.array(log_odds(table["p_1"].to_numpy())))),
        ("binary", lambda table: table.set_column(2, "seed", table["seed"].cast(pa.int8()))),
    ],
)
def test_other_common_shapes_are_accepted(kind: Any, change: Callable[[pa.Table], pa.Table], tmp_path: Path) -> None:
    folder = write(good_submission(kind), tmp_path / "bundle")
    rewrite(folder, change)
    verdict = quick_check(folder)
    assert verdict.status is Status.ACCEPTED, verdict.last_line


def _listed(table: pa.Table) -> pa.Table:
    names = [name for name in table.column_names if name.startswith("p_")]
    rows = [list(row) for row in zip(*(table[name].to_pylist() for name in names), strict=True)]
    return table.drop_columns(names).append_column("probs", pa.array(rows))
