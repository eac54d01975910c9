"""The referee for tests: the same verdict, with the decoding done in this process so that it takes no second each.

Tests of the decoding process itself, and those of hostile bytes that might break it, call ``scorer.check.check``.
"""

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from protocol.findings import RuleResult, Verdict
from scorer.check import check
from scorer.intake import child, jail


def quick_check(path: Path) -> Verdict:
    """The verdict on the bundle at ``path``, decoded in this process."""
    with decoding_here():
        return check(path)


@contextmanager
def decoding_here() -> Iterator[None]:
    """Let the decoder run in this process, without its limits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jail, "_run", _run)
        yield


def _run(job: Mapping[str, Any], fds: Sequence[int]) -> str:
    own = {table: None if job[table] is None else {**job[table], "fd": os.dup(job[table]["fd"])} for table in _TABLES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("resource.setrlimit", lambda *_: None)
        patch.setattr("sys.stdin", io.StringIO(json.dumps({**job, **own})))
        patch.setattr("sys.path", list(sys.path))
        assert child.main() == 0
    return ""


_TABLES = ("splits", "predictions")


def result_of(verdict: Verdict, rule: str) -> RuleResult:
    """What ``verdict`` says of ``rule``."""
    return next(result for result in verdict.results if result.rule == rule)


def rejecting(verdict: Verdict) -> list[str]:
    """Ids of the rules that reject."""
    return [result.rule for result in verdict.rejecting]
