"""Load what scoring needs while the process waits for something else."""

import contextlib
import threading
from collections.abc import Iterator

import numpy as np


@contextlib.contextmanager
def warming() -> Iterator[threading.Thread]:
    """Within this context the kernels are loaded (compiled, the first time after an installation) in a thread."""
    thread = threading.Thread(target=warm)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


def warm() -> None:
    """Evaluate every family of metrics once, on four images."""
    import scorer.outputs  # noqa: F401 - with all that scoring takes
    from scorer.bootstrap import draws_for, replicates
    from scorer.metrics.sets import plan_for

    patient = np.array([0, 1, 2, 2])
    plan = plan_for("binary", ("no", "yes"), np.array([[0.2], [0.6], [0.4], [0.7]]), np.array([0, 1, 1, 0]), patient, 3)
    replicates([plan], draws_for("", "", "", patients=3, resamples=1))
