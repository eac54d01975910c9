"""What the scorer left, as what EvalAI is told: its documents alone, checked, and nothing that it printed."""

import hashlib
import json
import math
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocol.findings import plain
from scorer.evalai.api import Phase, Report, SetupError

RESULT_FILE, VERDICT_FILE, RECORD_FILE = "result.json", "verdict.json", "record.json"
LOG_FILE = "scorer.log"  # what the scorer printed on standard error
FILES = (RECORD_FILE, VERDICT_FILE, RESULT_FILE)
MAX_DOCUMENT = 64 << 20  # bytes: scorer.signing.MAX_ENVELOPE, which is heavy to import
MAX_TEXT = 100_000  # characters that participants are shown
# The words of scorer.hosted.FAULT, which is heavy to import. What went wrong may depend on labels.
FAULT = "MVC UNDETERMINED the host's scorer failed; the host has the log; this is not the submission's fault"
NO_ROW = "there is no number to rank by, so it has no row on the leaderboard"


@dataclass(frozen=True)
class Left:
    """The bytes of those of FILES that the scorer left, and what is wrong with one that can't be taken, else ''."""

    files: dict[str, bytes]
    unusable: str = ""


def report_of(code: int | None, left: Left, phase: Phase, log: Path) -> Report:
    """The report for exit code ``code`` of the scorer (None: out of time) and what it ``left``; ``log`` says why.

    Raises SetupError where the host's own files are not in order, or the leaderboard lacks a label of the result: the
    host has to mend that, nobody else can, and every other submission would fail of it too.
    """
    if code is None:
        return fault("out of time")
    if code == 4:
        raise SetupError(f"the scorer says that the host has to mend something (exit 4); the reason is in {log}")
    if code not in (0, 1):
        return fault(f"exit {code}, see {log}")
    if left.unusable:
        return fault(f"exit {code}, and {left.unusable}")
    files = left.files
    metadata = _metadata(files)
    try:
        verdict = _verdict(files)
        text = _text(verdict)
        if code == 1:
            if verdict["status"] != "rejected":
                return fault(f"exit 1, and {VERDICT_FILE} says {plain(verdict['status'], 40)}")
            return Report(False, stderr=text, metadata=metadata, why="rejected")
        if verdict["exit_code"] != 0:
            return fault(f"exit 0, and {VERDICT_FILE} says {plain(verdict['status'], 40)}")
        row = _row(files)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        return fault(f"exit {code}, and what it left can't be used: {plain(error, 200)}")
    missing = [label for label in row["accuracies"] if label not in phase.labels]
    if missing:
        named = ", ".join(plain(label, 60) for label in missing)
        raise SetupError(f"the leaderboard of phase {phase.pk} has no label for {named}; add them to its schema")
    if phase.ranked not in row["accuracies"]:  # EvalAI would rank it as if the number were 0
        return Report(True, f"{text}{NO_ROW}\n", metadata=metadata, why=f"accepted, without {plain(phase.ranked, 60)}")
    return Report(True, text, result=({**row, "split": phase.split},), metadata=metadata, why="accepted")


def fault(why: str) -> Report:
    """The report where the scorer failed; ``why`` is for the host."""
    return Report(False, stderr=f"{FAULT}\n", why=f"not scored: {why}")


def left_in(output: Path) -> Left:
    """What the scorer left in ``output``: plain files of at most MAX_DOCUMENT bytes, no links."""
    found: dict[str, bytes] = {}
    unusable = ""
    for name in FILES:
        try:
            handle = os.open(output / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            unusable = f"{name} can't be read ({error.strerror})"
            continue
        with open(handle, "rb") as source:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                unusable = f"{name} is no plain file"
            elif (size := os.fstat(handle).st_size) > MAX_DOCUMENT:
                unusable = f"{name} has {size} bytes; it may have {MAX_DOCUMENT}"
            else:
                found[name] = source.read(MAX_DOCUMENT)
    return Left(found, unusable)


def _verdict(files: dict[str, bytes]) -> dict[str, Any]:
    document: dict[str, Any] = _json(files, VERDICT_FILE)
    if not isinstance(document["last_line"], str):
        raise ValueError(f"{VERDICT_FILE} has no last line")
    return document


def _row(files: dict[str, bytes]) -> dict[str, Any]:
    """The one split of the result: flags and finite numbers, no other key."""
    (row,) = _json(files, RESULT_FILE)
    numbers = row["accuracies"]
    if not isinstance(row["show_to_participant"], bool) or not numbers:
        raise ValueError(f"{RESULT_FILE} has no flag or no number")
    for label, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{RESULT_FILE}: {plain(label, 60)} is no number")
    return {"split": row["split"], "show_to_participant": row["show_to_participant"], "accuracies": numbers}


def _json(files: dict[str, bytes], name: str) -> Any:
    if name not in files:
        raise ValueError(f"no {name}")
    return json.loads(files[name])


def _metadata(files: dict[str, bytes]) -> str:
    """What the host sees beside the submission: which record, kept by the worker, belongs to it."""
    if RECORD_FILE not in files:
        return ""
    return json.dumps({"record_sha256": hashlib.sha256(files[RECORD_FILE]).hexdigest()})


def _text(verdict: dict[str, Any]) -> str:
    """The verdict's one line, and every finding with its mend; all of it may be shown to participants."""
    lines = [plain(verdict["last_line"], 1000)]
    for rule in verdict["rules"]:
        if rule["outcome"] != "failed" or rule["visibility"] != "participant":
            continue
        lines.append(f"{plain(rule['rule'])} {plain(rule['slug'])} ({plain(rule['level'])}): {plain(rule['title'])}")
        for finding in rule["findings"]:
            where, saw, wanted = (plain(finding[name], 400) for name in ("where", "saw", "wanted"))
            lines.append(f"  {where}: {saw}; wanted {wanted}")
            if finding["samples"]:
                shown = ", ".join(plain(sample) for sample in finding["samples"])
                lines.append(f"    {shown} ({plain(finding['count'])} in all)")
        lines.append(f"  mend: {plain(rule['mend'], 400)} ({plain(rule['docs'])})")
    text = "\n".join(lines)
    return f"{text[:MAX_TEXT]}\n"
