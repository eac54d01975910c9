"""The public scores in the shapes that platforms read: nested objects for paths, flat numbers for columns.

A JSON path can't pass through a list and breaks at a dot, so there are objects alone, and no key has a dot. No NaN is
ever written: a number that is undefined or withheld is null, and absent where only numbers are taken.
"""

import json
from typing import Any

from protocol.catalogue import primary_metric
from protocol.hosting import PublicScore
from protocol.task import Task
from scorer.hosted import SIGNED_FILE, HostedScore

TEST = ("test", "all")


def key(name: str) -> str:
    """``name`` as a part of a path: per cent and dots written as in a URL, so that no two names become one."""
    return name.replace("%", "%25").replace(".", "%2E")


def nested(task: Task, done: HostedScore) -> dict[str, Any]:
    """All that participants may know of an accepted submission, every number reachable through objects alone.

    ``aggregates`` has those of the entry (:func:`scorer.public.entry_of`) on the test split, ``runs`` all.
    """
    document = verdict_of(task, done)
    entry = _entry(done)
    numbers = {score.metric: _numbers(score) for score in entry}
    runs: dict[str, Any] = {}
    for score in done.scores:
        place = runs
        for part in (score.model, score.calibrator, score.slice_kind, score.slice):
            place = place.setdefault(key(part), {})
        place.setdefault("n_images", score.n_images)
        place.setdefault("n_patients", score.n_patients)
        place.setdefault("metrics", {})[score.metric] = _numbers(score)
    counts = {"images": entry[0].n_images, "patients": entry[0].n_patients}
    return {"aggregates": numbers, "n": counts, "runs": runs, **document}


def verdict_of(task: Task, done: HostedScore) -> dict[str, Any]:
    """What was decided, without a number: ``mvc``, with the signed record, and the ``findings`` of a rejection."""
    verdict, record = done.verdict, done.record
    said: dict[str, Any] = {"status": verdict.status.value, "edition": verdict.edition, "last_line": verdict.last_line}
    if record is not None:
        said |= {
            "scorer": record.scorer,
            "task": record.task,
            "task_sha256": record.task_sha256,
            "submission": record.submission,
            "title": record.title,
            "team": record.team,
            "declared": record.declared,
            "waivers": dict(record.waivers),
            "unverified": dict(record.unverified),
            "primary_metric": primary_metric(task.kind, task.primary_metric),
        }
    if done.entry is not None:
        said["entry"] = {**done.entry.model_dump(), "seed": _entry(done)[0].seed}
    if SIGNED_FILE in done.documents:
        said["record"] = json.loads(done.documents[SIGNED_FILE])
    findings = {
        result.rule: {
            "slug": result.slug,
            "mend": result.mend,
            "seen": {
                str(number): {"where": f.where, "saw": f.saw, "wanted": f.wanted, "count": f.count}
                for number, f in enumerate(result.findings, 1)
            },
        }
        for result in verdict.rejecting
    }
    return {"findings": findings, "mvc": said} if findings else {"mvc": said}


def flat(done: HostedScore) -> dict[str, float | int]:
    """The entry's numbers on the test split by column, ``_lo`` and ``_hi`` for the interval; the undefined left out."""
    columns: dict[str, float | int] = {}
    for score in _entry(done):
        numbers = {"": score.value, "_lo": score.lo, "_hi": score.hi}
        columns |= {f"{score.metric}{end}": number for end, number in numbers.items() if number is not None}
    first = _entry(done)[0]
    return {**columns, "n_images": first.n_images, "n_patients": first.n_patients}


def _numbers(score: PublicScore) -> dict[str, float | None]:
    return {"value": score.value, "lo": score.lo, "hi": score.hi}


def _entry(done: HostedScore) -> list[PublicScore]:
    assert done.entry is not None
    wanted = (done.entry.model, done.entry.calibrator, *TEST)
    return [s for s in done.scores if (s.model, s.calibrator, s.slice_kind, s.slice) == wanted]


def as_json(document: Any) -> bytes:
    """``document`` as JSON bytes: the same for the same document; ValueError for NaN."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
