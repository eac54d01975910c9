"""Whatever is changed in a good bundle, there is a verdict: accepted or rejected, never undetermined, never a crash.

``make fuzz`` runs it for FUZZ_SECONDS; ``make test`` tries a few bundles.
"""

import json
import os
import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from protocol.findings import Status
from protocol.types import Kind
from submission.bundle import NoBundleError
from tests.fuzz.bundles import CHANGES, Change, changed
from tests.fuzz.targets import KINDS, SECONDS
from tests.referee import quick_check

FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
usual = settings(
    max_examples=200 if FUZZ_SECONDS else 12, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


@usual
@given(st.sampled_from(KINDS), st.lists(CHANGES, min_size=1, max_size=3).map(tuple), st.booleans())
def judged(kind: Kind, changes: tuple[Change, ...], declared: bool) -> None:
    """The promise, for one bundle."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = changed(kind, changes, declared, Path(scratch, "bundle"))
        begun = time.process_time()
        try:
            verdict = quick_check(folder)
        except NoBundleError:
            return
        assert time.process_time() - begun <= SECONDS
    assert verdict.status is not Status.UNDETERMINED, [r for r in verdict.results if "crash" in str(r.reason)]
    assert verdict.exit_code in (0, 1)
    assert bool(verdict.rejecting) == (verdict.exit_code == 1)
    assert all(f.where and f.saw and f.wanted for result in verdict.rejecting for f in result.findings)
    assert "\n" not in verdict.last_line
    json.dumps(verdict.to_dict(), ensure_ascii=False, allow_nan=False).encode()


def test_any_change_gets_a_verdict() -> None:
    begun, count = time.monotonic(), 0
    while count == 0 or time.monotonic() - begun < FUZZ_SECONDS:
        seed(int(time.time_ns()) if FUZZ_SECONDS else 0)(judged)()
        count += 1
