"""The mvc kit: calibration of medical image classifiers, submitted, refereed and audited.

The public Python API is small: ``mvc.check(folder)``, ``mvc.submit(folder, ledger=...)``, for hosts
``mvc.score(truth, folder, output)``, and for reviewers ``mvc.audit(file, labels=...)``; ``mvc.metrics`` holds the
metric functions. Heavy parts are loaded when they are first used.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

__all__ = ["audit", "check", "metrics", "score", "submit"]

if TYPE_CHECKING:
    from mvc import metrics
    from mvc.api import audit, check, score, submit

_HOME = Path(__file__).resolve().parent.parent


def _guard() -> None:
    """Fail early and clearly when a local file hides one of our packages: a referee must run its own code."""
    for name in ("protocol", "splits", "submission", "scorer"):
        spec = find_spec(name)
        found = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if found is None or found.parent.parent != _HOME:
            raise ImportError(
                f"the package {name} of the mvc kit is hidden by {found or 'nothing of that name'}; "
                f"expected below {_HOME}. Run from another folder, or rename that file."
            )


_guard()


def __getattr__(name: str) -> Any:
    if name in ("audit", "check", "score", "submit"):
        return getattr(import_module("mvc.api"), name)
    if name == "metrics":
        return import_module("mvc.metrics")
    raise AttributeError(f"module mvc has no attribute {name}")
