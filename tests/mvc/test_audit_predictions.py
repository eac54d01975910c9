"""``mvc audit predictions`` and ``mvc.audit``: real files in, the same outcome on screen, as JSON and as a table."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

import mvc
from mvc.cli import app
from scorer.audit.shapes import AuditError
from scorer.metrics import auroc, ece_width
from tests.splits.datasets.real import released

RUN = {"COLUMNS": "120"}


def audit(*arguments: str | Path) -> Result:
    shown = CliRunner().invoke(app, ["audit", "predictions", *map(str, arguments)], env=RUN)
    assert shown.exception is None or isinstance(shown.exception, SystemExit), shown.exception
    return shown


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, pl.DataFrame]:
    """Predictions of 240 images of 120 patients at two sites, and their labels in another order."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 2, 240).round(4)
    ids = [f"case_{i:04d}.png" for i in range(240)]
    whole = pl.DataFrame({"image_id": ids, "prob": p, "label": (rng.random(240) < p).astype(int)})
    truth = whole.select("image_id", "label").with_columns(
        patient_id=pl.Series([f"P{i // 2:03d}" for i in range(240)]), site=pl.Series(["north", "south"] * 120)
    )
    whole.select("image_id", "prob").write_csv(tmp_path / "preds.csv")
    truth.sample(fraction=1.0, shuffle=True, seed=1).write_csv(tmp_path / "truth.csv")
    return tmp_path / "preds.csv", tmp_path / "truth.csv", whole


def test_screen_json_and_table_agree(files: tuple[Path, Path, pl.DataFrame], tmp_path: Path) -> None:
    preds, truth, whole = files
    p, y = whole["prob"].to_numpy(), whole["label"].to_numpy()
    value = ece_width(p, y, bins=15, precision="decimals:4").value
    claim = f"ece={value:.4f}"
    shown = audit(preds, "--labels", truth, "--claim", claim, "--out", tmp_path / "m.csv", "--resamples", "100")
    assert shown.exit_code == 0
    last = shown.stdout.splitlines()[-1]
    assert last.startswith("MVC AUDIT 1 prediction set; steps: ")
    assert "1 claim: 1 reproduced" in last
    for words in ("resamples by patient", "metrics by site", "120", f"{value:.4f}", "MVC407"):
        assert words in shown.stdout
    as_json = audit(preds, "--labels", truth, "--claim", claim, "--json", "--resamples", "100")
    document = json.loads(as_json.stdout)
    assert document["last_line"] == last
    (row,) = [r for r in document["metrics"] if (r["metric"], r["slice_kind"]) == ("ece_width15", "pooled")]
    assert (row["value"], row["n_units"], row["n_clusters"]) == (pytest.approx(value, abs=1e-12), 240, 120)
    table = pl.read_csv(tmp_path / "m.csv")
    assert table.height == len(document["metrics"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.csv", "preds.csv", "truth.csv"]


def test_python_gives_the_same(files: tuple[Path, Path, pl.DataFrame]) -> None:
    preds, truth, whole = files
    found = mvc.audit(preds, labels=truth, claims=["auroc=0.01"], resamples=50)
    frame = found.to_frame().filter(pl.col("metric") == "auroc", pl.col("slice_kind") == "pooled")
    assert frame["value"].item() == pytest.approx(auroc(whole["prob"].to_numpy(), whole["label"].to_numpy()).value)
    assert "1 not reproduced" in found.last_line
    assert {item.rule: item.answer.value for step in found.steps for item in step.items}["MVC407"] == "not met"


def test_split_lists_tell_leaks_of_rows_without_predictions(
    files: tuple[Path, Path, pl.DataFrame], tmp_path: Path
) -> None:
    preds, truth, whole = files
    test = [f"P{i // 2:03d}" for i in range(240)]
    rows = {"image_id": [*whole["image_id"], "old_1.png", "old_2.png"], "patient_id": [*test, "P900", "P901"]}
    table = pl.DataFrame(rows).with_columns(split=pl.Series(["test"] * 240 + ["train", "calib"]))
    table.write_csv(tmp_path / "splits.csv")
    found = mvc.audit(preds, labels=truth, splits=tmp_path / "splits.csv", resamples=50)
    answers = {item.rule: item for step in found.steps for item in step.items}
    for rule in ("MVC101", "MVC102", "MVC105", "MVC106"):
        assert answers[rule].answer.value == "met", answers[rule]
    table = table.with_columns(
        pl.when(pl.col("split") == "train").then(pl.lit("P005")).otherwise("patient_id").alias("patient_id")
    )
    table.write_csv(tmp_path / "splits.csv")
    found = mvc.audit(preds, labels=truth, splits=tmp_path / "splits.csv", resamples=50)
    answers = {item.rule: item for step in found.steps for item in step.items}
    assert answers["MVC101"].answer.value == "not met"
    assert "splits-patient-overlap" in {finding.code for finding in found.findings}


def test_strict(files: tuple[Path, Path, pl.DataFrame]) -> None:
    options = ("--labels", files[1], "--strict", "--resamples", "50")
    assert audit(files[0], *options).exit_code == 0
    assert audit(files[0], *options, "--claim", "auroc=0.01").exit_code == 1


def test_without_labels_nothing_is_measured(files: tuple[Path, Path, pl.DataFrame]) -> None:
    found = mvc.audit(files[0])
    assert found.measures.rows == ()
    assert "not measured" in audit(files[0]).stdout


def test_missing_labels_are_no_class(files: tuple[Path, Path, pl.DataFrame]) -> None:
    preds, truth, whole = files
    table = pl.read_csv(truth).with_columns(
        pl.when(pl.col("image_id") < "case_0100").then(None).otherwise(pl.col("label")).alias("label")
    )
    table.write_csv(truth)
    rows = mvc.audit(preds, labels=truth, resamples=50).measures.rows
    (row,) = [one for one in rows if (one.metric, one.slice_kind) == ("auroc", "pooled")]
    assert row.n_units == 140
    assert row.value == pytest.approx(auroc(whole["prob"].to_numpy()[100:], whole["label"].to_numpy()[100:]).value)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94.", "preds.pkl"),
        (b"", "empty.csv"),
        (b"\x00\x01\x02" * 50, "noise.csv"),
        (b"PK\x03\x04" + b"\xff" * 40, "broken.zip"),
        (b"%PDF-1.7 text", "paper.pdf"),
        (b"\x93NUMPY\x01\x00\xff\xff", "short.npy"),
        (b'{"a": [1, 2', "cut.json"),
    ],
)
def test_bad_files_are_an_error_in_words(tmp_path: Path, content: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(content)
    shown = audit(tmp_path / name)
    assert shown.exit_code == 2
    assert "error: " in shown.stderr
    assert "Traceback" not in shown.output
    document = json.loads(audit(tmp_path / name, "--json").stdout)
    assert (document["verdict"], document["exit_code"]) == ("error", 2)


@pytest.mark.parametrize(
    "options",
    [
        ("--claim", "nonsense"),
        ("--map", "patient"),
        ("--map", "patient=nowhere"),
        ("--labels", "absent.csv"),
        ("--scale", "furlongs"),
        ("--kind", "ternary"),
        ("--out", "m.xlsx"),
        ("--out", "absent/m.csv"),
        ("--encoding", "klingon"),
        ("--pattern", "((("),
    ],
)
def test_bad_options_are_an_error_in_words(files: tuple[Path, Path, pl.DataFrame], options: tuple[str, str]) -> None:
    preds, truth, _ = files
    labels = () if options[0] == "--labels" else ("--labels", truth)
    shown = audit(preds, *labels, *options)
    assert shown.exit_code == 2, shown.output
    assert "Traceback" not in shown.output


def test_text_of_the_files_is_escaped(tmp_path: Path) -> None:
    bad = "[red]\x1b[31mx\u202e"
    rows = "\n".join(f"{i},{i % 7 / 8},{i % 2}" for i in range(40))
    (tmp_path / "p.csv").write_text(f"image_id,{bad}prob,label\n{rows}\n", encoding="utf-8")
    shown = audit(tmp_path / "p.csv", "--resamples", "50")
    assert "\x1b" not in shown.output
    assert "\u202e" not in shown.output


def test_errors_are_raised_in_python(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"absent\.csv"):
        mvc.audit(tmp_path / "absent.csv")


def test_several_classes_show_the_mean_over_classes(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(3), 300).round(6)
    y = np.array([rng.choice(3, p=row / row.sum()) for row in p])
    table = {"image_id": [f"i{i:03d}.png" for i in range(300)], **{f"prob_{k}": p[:, k] for k in range(3)}, "label": y}
    pl.DataFrame(table).write_csv(tmp_path / "p.csv")
    found = mvc.audit(tmp_path / "p.csv", resamples=50)
    values = {(row.metric, row.class_): row.value for row in found.measures.rows}
    shown = audit(tmp_path / "p.csv", "--resamples", "50").stdout
    assert f"{values['auroc_macro', '']:.4f}" in shown
    assert not any(f"{values['auroc', str(k)]:.4f}" in shown for k in range(3))
    assert f"{values['brier', '']:.4f}" in shown


def test_released_tasks_of_rare_cancers() -> None:
    found = mvc.audit(released("hayden-farquhar+PanRareWSI", "results/oof_predictions.csv"), resamples=50)
    assert len(found.evidence.sets) == 33
    assert {"folds-missing", "folds-pooled", "few-events"} <= {finding.code for finding in found.findings}
    assert found.evidence.cluster == "patient"
