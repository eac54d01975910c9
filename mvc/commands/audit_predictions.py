"""``mvc audit predictions``: released predictions against the protocol."""

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mvc.commands.bundle import JsonOption

if TYPE_CHECKING:
    from scorer.audit.judging.report import PredictionAudit

SUFFIXES = (".json", ".csv", ".parquet")


def predictions(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="CSV, TSV, Parquet, JSON, Excel, NPY, NPZ; also in zip or gzip."),
    ],
    labels: Annotated[Path | None, typer.Option(metavar="FILE", help="Labels and patients, joined by id.")] = None,
    splits: Annotated[Path | None, typer.Option(metavar="FILE", help="Split of each id.")] = None,
    mapped: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="ROLE=COL", help="What a column holds: --map patient=pid, --map score=a,b."),
    ] = None,
    claim: Annotated[
        list[str] | None, typer.Option(metavar="CLAIM", help="A printed value: 'ece=3.43%', 'auroc:Hernia=0.917'.")
    ] = None,
    claims: Annotated[Path | None, typer.Option(metavar="FILE", help="A table of printed values.")] = None,
    kind: Annotated[str, typer.Option(help="binary, multiclass or multilabel, where it isn't told.")] = "",
    classes: Annotated[
        str, typer.Option(metavar="A,B", help="Classes in the order of the scores; of two, the positive one last.")
    ] = "",
    scale: Annotated[str, typer.Option(help="What the scores are: probabilities, logits, percent ...")] = "",
    unit: Annotated[str, typer.Option(metavar="WORD", help="What a row is about: image, eye, breast, lesion ...")] = "",
    cluster: Annotated[str, typer.Option(metavar="WORD", help="What is resampled: patient, exam, site ...")] = "",
    pattern: Annotated[
        str, typer.Option(help="Patients from ids: eyepacs, nih, chexpert, tcga ..., or a regex with one group.")
    ] = "",
    resamples: Annotated[
        int, typer.Option(min=1, max=10_000, help="Resamples at most; fewer where there are many rows.")
    ] = 2000,
    encoding: Annotated[str, typer.Option(help="Encoding of text files.")] = "utf-8",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all: .json, or the metrics as .csv or .parquet.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing --out.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 where a step is not met or there is more than notes.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Audit predictions that a paper released, in whatever shape.

    Shown: what each column was taken for and why, which steps of the protocol are met, the metrics with intervals by
    patient, what stands out, and which definition of a metric gives a printed value.

    What the files can't tell is said to be so. Exit 0: the files could be audited.

    Example: mvc audit predictions preds.csv --labels labels.csv --claim "ece=3.43%"
    """
    from protocol.findings import plain
    from scorer.audit.shapes import AuditError

    try:
        if out is not None:
            _writable(out, force)
        found = _audited(
            files,
            labels=labels,
            splits=splits,
            claims=claim or [],
            claim_file=claims,
            mapped=mapped or [],
            wanted={
                "kind": kind, "classes": classes, "scale": scale, "unit": unit, "cluster": cluster, "pattern": pattern
            },
            resamples=resamples,
            encoding=encoding,
            quiet=as_json,
        )  # fmt: skip
        if out is not None:
            _write(found, out, force)
    except AuditError as error:
        if as_json:
            typer.echo(json.dumps({"verdict": "error", "exit_code": 2, "error": plain(error, 2000)}, indent=2))
        typer.echo(f"error: {plain(error, 2000)}", err=True)
        raise typer.Exit(2) from None
    code = found.strict_exit_code if strict else found.exit_code
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "exit_code": code}, indent=2, ensure_ascii=False))
    else:
        from mvc.commands.audit_show import show

        show(found, out)
    raise typer.Exit(code)


def _audited(
    files: list[Path],
    *,
    labels: Path | None,
    splits: Path | None,
    claims: list[str],
    claim_file: Path | None,
    mapped: list[str],
    wanted: dict[str, str],
    resamples: int,
    encoding: str,
    quiet: bool,
) -> "PredictionAudit":
    import contextlib
    import sys

    from rich.console import Console
    from rich.markup import escape

    from protocol.findings import plain
    from scorer.audit.predictions import audit_predictions, wishes_of

    wishes = wishes_of(mapped, **wanted)
    screen = Console(stderr=True)
    with contextlib.ExitStack() as stack:
        progress = None
        if not quiet and sys.stderr.isatty():
            status = stack.enter_context(screen.status("reading"))

            def progress(what: str) -> None:
                status.update(escape(plain(what, 100)))

        return audit_predictions(
            files,
            labels=labels,
            splits=splits,
            wishes=wishes,
            claims=claims,
            claim_file=claim_file,
            encoding=encoding,
            resamples=resamples,
            progress=progress,
        )


def _writable(out: Path, force: bool) -> None:
    from scorer.audit.shapes import AuditError

    if out.suffix.lower() not in SUFFIXES:
        raise AuditError(f"--out {out}: the name must end in {', '.join(SUFFIXES)}")
    if out.is_dir() or not out.parent.is_dir():
        raise AuditError(f"--out {out}: {'a folder' if out.is_dir() else 'its folder does not exist'}; name a file")
    if os.path.lexists(out) and not force:
        raise AuditError(f"--out {out} exists; name another file, or replace it with --force")


def _write(found: "PredictionAudit", out: Path, force: bool) -> None:
    """Write to a file beside it, then rename: nobody sees a part."""
    from scorer.audit.shapes import AuditError

    try:
        handle, name = tempfile.mkstemp(dir=out.parent, prefix=".mvc-audit-", suffix=out.suffix)
        os.close(handle)
        temporary = Path(name)
        try:
            if out.suffix.lower() == ".json":
                temporary.write_text(json.dumps(found.to_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            elif out.suffix.lower() == ".csv":
                found.to_frame().write_csv(temporary)
            else:
                found.to_frame().write_parquet(temporary)
            temporary.chmod(0o644)
            _writable(out, force)  # it may have come while the files were read
            temporary.replace(out)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise AuditError(f"--out {out} can't be written: {error.strerror or error}") from None
