"""``mvc submit``: check, score, seal, record; a rejection is recorded and leaves nothing else behind.

A bundle that answers a hosted task is sealed and packed for upload instead: its host scores it.
"""

import contextlib
import importlib.metadata
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from protocol import EDITION
from protocol.findings import Outcome, Verdict
from protocol.types import CANONICAL_FILE, MANIFEST_FILE
from scorer.ahead import for_scores
from scorer.check import Examination, examine
from scorer.ledger import Event, EventKind, Ledger, prepared, utc_now
from scorer.packing import PLAIN, Form, pack, sealed_before
from submission.bundle import RECORD_FILE, Bundle, NoBundleError
from submission.crate import build_manifest, write_manifest
from submission.files import made_aside, sha256_file
from submission.writing import write_canonical_record

if TYPE_CHECKING:
    from scorer.rows import Scores

Progress = Callable[[str], None]


class SubmitError(Exception):
    """The submission was not at fault, but it could not be sealed or recorded; the message says why."""


class NothingToUploadError(SubmitError):
    """A form of upload was asked for, but the bundle answers an open task."""


@dataclass(frozen=True)
class Outcomes:
    """What a submission came to: the verdict, and, if accepted, scores, the sealed folder and the ledger's event.

    Of a hosted task there are no scores, but ``upload``, the file for its host, maybe in place of one (``replaced``).
    """

    verdict: Verdict
    scores: "Scores | None" = None
    folder: Path | None = None
    event: Event | None = None
    upload: Path | None = None
    replaced: bool = False

    def __str__(self) -> str:
        return self.verdict.last_line


def submit(
    path: Path,
    *,
    ledger: Path,
    record: Path | None = None,
    out: Path | None = None,
    form: Form | None = None,
    progress: Progress = lambda step: None,
) -> Outcomes:
    """Check the bundle at ``path``, score it (but for a hosted task), seal it and append it to ``ledger``.

    A folder is sealed in place; a zip, or a record from elsewhere, into a new folder of its own (``out``, else beside
    the bundle). A hosted task's bundle is packed in the ``form`` that was asked for, else as a plain zip. A rejected
    bundle is only recorded. Everything is made aside, then recorded, then moved into place: until the event stands in
    the ledger nothing in the bundle changes. Raises submission.bundle.NoBundleError, scorer.ledger.LedgerError and
    SubmitError.
    """
    if not path.exists():
        raise NoBundleError(f"{path}: no such file or folder")
    with examine(path, record=record, progress=progress, ahead=for_scores) as examination:
        verdict, task = examination.verdict, examination.bundle.task
        if form is not None and task is not None and not task.hosted:
            said = f"the task {task.name} is open: it is scored here, and there is nothing to upload"
            raise NothingToUploadError(f"{said}; leave --as out")
        if not verdict.accepted:
            return Outcomes(verdict, event=_record_rejection(verdict, ledger) if verdict.rejecting else None)
        place, new = _place(examination, path, record, out)
        if examination.records[0].hosted:
            return _packed(examination, place, new, record, ledger, form or PLAIN, progress)
        progress("preparing the metrics (longer the first time after an installation)")
        from scorer.outputs import METRICS_FILE, RESULTS, write_results  # not needed for a rejection

        with _aside(place.parent if new else place) as stage:
            with Ledger.open(ledger):
                pass  # a ledger that can't be used is said before the work, not after it
            scores = write_results(examination, stage, progress)
            progress("sealing")
            if new:
                _copy_bundle(examination, record, stage)
            written = _seal(examination, stage, RESULTS)
            progress("recording")
            payload = {**_payload(verdict), "outputs": {name: sha256_file(stage / name) for name in written}}
            metrics = prepared(pq.ParquetFile(stage / METRICS_FILE).read())  # others may wait for the ledger
            with Ledger.open(ledger) as opened:
                event = opened.append(
                    EventKind.ACCEPTED,
                    submission=verdict.submission,
                    task=verdict.task,
                    payload=payload,
                    metrics=metrics,
                )
            _move(stage, place, written, new)
        return Outcomes(verdict, scores, place, event)


def _packed(
    examination: Examination,
    place: Path,
    new: bool,
    record: Path | None,
    ledger: Path,
    form: Form,
    progress: Progress,
) -> Outcomes:
    """Seal a bundle without scores, and pack it beside its folder for the host."""
    verdict, name = examination.verdict, examination.records[1].submission_id
    upload = place.resolve().parent / f"{name}{form.ending}"
    if examination.bundle.archive is not None and upload.exists() and upload.samefile(examination.bundle.archive):
        upload = upload.with_name(f"{name}-sealed{form.ending}")  # what was given is left alone
    if upload.is_dir():
        raise SubmitError(f"nothing was recorded: {upload} is a folder; give --out FOLDER, a new one elsewhere")
    if os.path.lexists(upload) and not sealed_before(upload, form):  # a file of somebody's own
        said = "is there and was not written by mvc submit"
        raise SubmitError(f"nothing was recorded: {upload} {said}; give --out FOLDER, a new one elsewhere")
    replaced = os.path.lexists(upload)
    with _aside(upload.parent) as stage:
        with Ledger.open(ledger):
            pass
        progress("sealing")
        inside, again, packed = stage / "bundle", stage / "again", stage / upload.name
        for folder in (inside, again):
            folder.mkdir()
        _copy_bundle(examination, record, inside)
        written = _seal(examination, inside, ())
        problems = pack(inside, (*examination.bundle.files, *written), packed, again, form)
        if problems:
            said = "; ".join(f"{p.where}: {p.saw}, wanted {p.wanted}" for p in problems)
            raise SubmitError(f"nothing was recorded: this bundle would not arrive ({said})")
        progress("recording")
        made = {"sha256": sha256_file(packed), "bytes": packed.stat().st_size}
        with Ledger.open(ledger) as opened:
            event = opened.append(
                EventKind.SEALED,
                submission=verdict.submission,
                task=verdict.task,
                payload={**_payload(verdict), "upload": made},
            )
        _move(inside, place, written, new)
        _move(stage, upload.parent, (upload.name,), False)
    return Outcomes(verdict, folder=place, event=event, upload=upload, replaced=replaced)


def _record_rejection(verdict: Verdict, ledger: Path) -> Event:
    with Ledger.open(ledger) as opened:
        return opened.append(
            EventKind.REJECTED, submission=verdict.submission, task=verdict.task, payload=_payload(verdict)
        )


def _payload(verdict: Verdict) -> dict[str, Any]:
    """What the ledger keeps of a verdict: outcome of every rule, findings of those that failed, digests."""
    return {
        "edition": verdict.edition,
        "scorer": importlib.metadata.version("mvc-kit"),
        "status": verdict.status.value,
        "outcomes": {r.rule: r.outcome.value for r in verdict.results},
        "waivers": {r.rule: r.reason for r in verdict.of(Outcome.WAIVED)},
        "findings": [
            {"rule": r.rule, "where": f.where, "saw": f.saw, "wanted": f.wanted, "count": f.count}
            for r in verdict.rejecting
            for f in r.findings
        ],
        "digests": dict(sorted(verdict.digests.items())),
    }


def _place(examination: Examination, path: Path, record: Path | None, out: Path | None) -> tuple[Path, bool]:
    """The folder to seal, and whether it is a new one with copies of the bundle's files."""
    bundle = examination.bundle
    elsewhere = record is not None and record.resolve() != (bundle.root / RECORD_FILE).resolve()
    if out is None and bundle.archive is None and not elsewhere:
        return bundle.root, False
    home = bundle.root if bundle.archive is None else path
    folder = out or home.resolve().parent / f"{examination.records[1].submission_id}-sealed"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SubmitError(f"{folder} exists and is not empty; give --out FOLDER, a new one")
    return folder, True


@contextlib.contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """A temporary folder in ``folder``, so that what is made there can be moved into place at once."""
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stage = stack.enter_context(made_aside(folder))
        except OSError as error:
            raise SubmitError(f"{folder} can't be written ({error.strerror}); give --out FOLDER") from None
        try:
            yield stage
        except OSError as error:
            said = os.strerror(error.errno) if error.errno else str(error)
            raise SubmitError(f"nothing was recorded: {folder} can't be written ({said}); give --out FOLDER") from None


def _copy_bundle(examination: Examination, record: Path | None, stage: Path) -> None:
    for name in examination.bundle.files:
        source = record if record is not None and name == RECORD_FILE else examination.bundle.root / name
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, stage / name)


def _seal(examination: Examination, stage: Path, results: tuple[str, ...]) -> tuple[str, ...]:
    """Write canonical record and release manifest below ``stage``, beside the ``results``; all names."""
    bundle, record = examination.bundle, examination.records[1]
    write_canonical_record(stage, record)
    files = {name: (_unchanged(bundle, name, stage), _size(bundle, name, stage)) for name in bundle.files}
    made = (CANONICAL_FILE, *results)
    files |= {name: (sha256_file(stage / name), (stage / name).stat().st_size) for name in made}
    document = build_manifest(
        files=files,
        name=record.title,
        description=f"Calibration submission {record.submission_id} to the task {record.task.name}",
        license_id=record.release.licence or "",
        authors=[record.team],
        contact=record.contact,
        date_published=utc_now() if bundle.lock is None else bundle.lock.declared_at,
        edition=EDITION,
        instrument={"name": "mvc-kit", "version": importlib.metadata.version("mvc-kit")},
        results=list(results),
        predictions=bundle.predictions,
    )
    write_manifest(stage, document)
    return (*made, MANIFEST_FILE)


def _source(bundle: Bundle, name: str, stage: Path) -> Path:
    return stage / name if (stage / name).exists() else bundle.root / name


def _size(bundle: Bundle, name: str, stage: Path) -> int:
    return _source(bundle, name, stage).stat().st_size


def _unchanged(bundle: Bundle, name: str, stage: Path) -> str:
    """The digest under which ``name`` was checked; SubmitError when the file is another by now."""
    try:
        now = sha256_file(_source(bundle, name, stage))
    except OSError:
        now = "gone"
    if now != bundle.files[name]:
        raise SubmitError(f"{name} changed while it was being submitted; nothing was recorded, submit again")
    return now


def _move(stage: Path, place: Path, written: tuple[str, ...], new: bool) -> None:
    """Take what was made aside to its place; other files in a results folder are left alone."""
    try:
        names = [path.relative_to(stage).as_posix() for path in stage.rglob("*") if path.is_file()] if new else written
        for name in names:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(stage / name, place / name)
    except OSError as error:
        raise SubmitError(f"recorded, but {place} can't be written ({error.strerror}); submit again") from None
