"""A host for tests: a fixed key, a task that names it, and what the host signs."""

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from protocol import EDITION
from protocol.declaration import Declaration, declare
from protocol.hosting import Receipt, ScoreRecord
from protocol.task import Task
from scorer.signing import public_hex
from submission.writing import record_from, task_from
from tests.builders import DECLARED_AT, good_submission

KEY = Ed25519PrivateKey.from_private_bytes(b"the key of a host in tests only!")
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(b"the key of somebody else, tests!")
SPLITS, TRUTH = "a" * 64, "b" * 64


def hosted_task(**fields: Any) -> Task:
    """The task of the good submission, as a host publishes it."""
    document = {**good_submission().task, "splits_sha256": SPLITS, "truth_sha256": TRUTH, "host_key": public_hex(KEY)}
    return task_from({**document, "caps": {"max_runs": 60, "quota": 2}, **fields})


def lock_of(task: Task, team: str = "first team", **record: Any) -> Declaration:
    """The declaration of a team for ``task``."""
    document = {**good_submission().record, "team": team, **record}
    return declare(task, record_from(document), task.splits_sha256 or SPLITS, DECLARED_AT)


def receipt_of(task: Task, lock: Declaration, /, **fields: Any) -> Receipt:
    """A receipt of ``lock``, with ``fields`` changed."""
    document = {
        "edition": EDITION,
        "task": task.name,
        "task_sha256": task.digest,
        "submission_id": lock.submission_id,
        "team": lock.team,
        "lock_sha256": lock.digest,
        "declared_at": lock.declared_at,
        "received_at": "2026-02-01T00:00:00Z",
        "filing": 2,
        "event": 7,
        "event_digest": "c" * 64,
    }
    return Receipt(**{**document, **fields})


def score_record(task: Task, /, **fields: Any) -> ScoreRecord:
    """The record of an accepted submission of the first team, with ``fields`` changed."""
    score = {
        "model": "densenet121",
        "seed": "mean",
        "calibrator": "none",
        "slice_kind": "test",
        "slice": "all",
        "metric": "brier_binary",
        "value": 0.1234,
        "lo": 0.1,
        "hi": 0.15,
        "n_images": 160,
        "n_patients": 80,
    }
    document: dict[str, Any] = {
        "edition": EDITION,
        "scorer": "0.0",
        "task": task.name,
        "task_sha256": task.digest,
        "splits_sha256": SPLITS,
        "truth_sha256": TRUTH,
        "submission": "example-1",
        "title": "a title",
        "team": "first team",
        "status": "accepted",
        "outcomes": {"MVC101": "passed", "MVC601": "waived"},
        "waivers": {"MVC601": "one hospital"},
        "unverified": {},
        "findings": (),
        "digests": {"task.yaml": "d" * 64},
        "content_sha256": "e" * 64,
        "lock_sha256": "f" * 64,
        "declared": "self-declared",
        "filings": 1,
        "scored_at": "2026-03-01T00:00:00Z",
        "scores": (score, {**score, "metric": "nll", "value": None, "lo": None, "hi": None}),
    }
    return ScoreRecord.model_validate({**document, **fields}, strict=False)


def write_key(path: Path, key: Ed25519PrivateKey = KEY, mode: int = 0o600) -> Path:
    """``key`` as a PEM file."""
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(mode)
    return path
