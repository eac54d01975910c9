"""The public Python API: paths as text or Path, heavy parts loaded on first use."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.findings import Verdict
    from scorer.audit.judging.report import PredictionAudit
    from scorer.hosted import HostedScore
    from scorer.submit import Outcomes

AnyPath = str | PathLike[str]


def check(bundle: AnyPath, *, record: AnyPath | None = None) -> "Verdict":
    """The verdict on a bundle (folder, zip, or predictions file); nothing is written.

    ``print(verdict)`` shows its last line; ``verdict.rejecting`` has the rules that reject, ``verdict.to_dict()`` all.
    Raises submission.bundle.NoBundleError (a ValueError) when there is no bundle.
    """
    from scorer.check import check as check_bundle

    return check_bundle(Path(bundle), record=_path(record))


def submit(
    bundle: AnyPath, *, ledger: AnyPath, record: AnyPath | None = None, out: AnyPath | None = None
) -> "Outcomes":
    """Check, score, seal and record a bundle: verdict, scores, sealed folder and the ledger's event.

    Raises NoBundleError, scorer.ledger.LedgerError and scorer.submit.SubmitError.
    """
    from scorer.submit import submit as submit_bundle

    return submit_bundle(Path(bundle), ledger=Path(ledger), record=_path(record), out=_path(out))


def score(
    truth: AnyPath,
    bundle: AnyPath,
    output: AnyPath,
    *,
    task: AnyPath | None = None,
    host: AnyPath | None = None,
    key: AnyPath | None = None,
    now: str | None = None,
) -> "HostedScore":
    """Judge a submission to a hosted task without labels and score it with the hidden ones of ``truth``.

    ``output`` gets what participants may see, ``host`` the rest; ``.verdict``, ``.scores`` and ``.to_frame()`` hold the
    former. Raises scorer.host_task.HostError where the host's files can't be used.
    """
    from scorer.hosted import score_hosted

    return score_hosted(
        Path(truth), Path(bundle), Path(output), task=_path(task), host=_path(host), key=_path(key), now=now
    )


def audit(
    *files: AnyPath,
    labels: AnyPath | None = None,
    splits: AnyPath | None = None,
    mapped: Sequence[str] = (),
    claims: Sequence[str] = (),
    claim_file: AnyPath | None = None,
    resamples: int = 2000,
    encoding: str = "utf-8",
    **wishes: str,
) -> "PredictionAudit":
    """Audit released predictions in whatever shape: steps of the protocol, metrics, findings, claimed values.

    ``mapped`` are texts such as ``"patient=pid"``, ``claims`` such as ``"ece=3.43%"``; ``wishes`` are ``kind``,
    ``classes`` ("a,b"), ``scale``, ``unit``, ``cluster`` and ``pattern`` as of ``mvc audit predictions``. ``.steps``,
    ``.findings``, ``.claims``, ``.to_frame()`` and ``.to_dict()`` have the outcome. Raises
    scorer.audit.shapes.AuditError (a ValueError) for what can't be used.
    """
    from scorer.audit.predictions import audit_predictions, wishes_of

    return audit_predictions(
        [Path(file) for file in files],
        labels=_path(labels),
        splits=_path(splits),
        wishes=wishes_of(mapped, **wishes),
        claims=claims,
        claim_file=_path(claim_file),
        resamples=resamples,
        encoding=encoding,
    )


def _path(path: AnyPath | None) -> Path | None:
    return None if path is None else Path(path)
