"""One claimed number: how it is written, which metric it names, and which values it could be a printing of."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from protocol.findings import plain
from scorer.audit.shapes import AuditError

GRAMMAR = (
    "METRIC[:CLASS][@SET][[KEY=VALUE,...]]=VALUE[%], for example ece=3.43%, auroc:Hernia=0.917, ece@model-a=0.021 or"
    " ece[cohort=ACC,biomarker=TP53]=0.1586; names with other signs than letters, digits, blanks and . _ - + / ( ) go"
    " in double quotes"
)

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "ece": ("ece", "expected calibration error", "ece width", "ece top", "calibration error"),
    "sce": ("sce", "cece", "cwece", "classwise ece", "class wise ece", "static calibration error"),
    "mce": ("mce", "maximum calibration error", "max calibration error"),
    "ace": ("ace", "adaece", "adaptive ece", "adaptive calibration error", "average calibration error"),
    "brier": ("brier", "brier score", "bs", "rmsce brier"),
    "nll": ("nll", "log loss", "logloss", "negative log likelihood", "cross entropy", "bce", "ce"),
    "auroc": ("auroc", "auc", "roc auc", "auc roc", "rocauc", "aucroc", "area under the roc curve", "c statistic"),
    "auprc": ("auprc", "ap", "average precision", "pr auc", "auc pr", "prauc", "aupr", "map"),
    "accuracy": ("accuracy", "acc", "top 1", "top1", "top 1 accuracy"),
    "balanced_accuracy": ("balanced accuracy", "bacc", "bal acc", "uar", "balanced acc", "bma"),
    "f1": ("f1", "f1 score", "f score", "macro f1", "f1 macro", "dice"),
    "kappa": ("kappa", "cohen kappa", "cohens kappa", "qwk", "quadratic kappa", "quadratic weighted kappa"),
    "sensitivity": ("sensitivity", "sens", "recall", "tpr", "se"),
    "specificity": ("specificity", "spec", "tnr", "sp"),
    "precision": ("precision", "ppv"),
}
UNBOUNDED = frozenset({"nll"})
NOISE_DIGITS = 7  # of single precision

_NAME = r'(?:"[^"]*"|[\w .+/()\-]+)'
_CLAIM = re.compile(
    rf"\s*(?P<metric>[A-Za-z][\w .\-]{{0,60}}?)\s{{0,9}}(?::(?P<class>{_NAME}))?(?:@(?P<set>{_NAME}))?"
    rf"(?:\[(?P<target>[^\]]*)\])?\s*=\s*(?P<value>.+?)\s*"
)
_PAIR = re.compile(rf"\s*(?P<key>[\w .\-]+?)\s*=\s*(?P<value>{_NAME})\s*(?:,|$)")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,9}(?:\.([0-9]{0,25}))?|\.([0-9]{1,25}))(?:[eE]([+-]?[0-9]{1,3}))?")


@dataclass(frozen=True)
class Claim:
    """A number as a paper prints it.

    ``metric`` is a key of SYNONYMS, ``value`` the number as printed (3.43 of '3.43%'), ``decimals`` how many decimals
    are printed (negative where the last printed digit stands for tens), ``percent`` whether a percent sign is.
    ``target`` says what the number is of: ``class``, ``set``, or names of columns with their value. ``source`` is the
    table that it was read from, '' where a person typed it: keys of a table that fit no prediction are left out,
    typed ones must fit. ``column`` is the column of that table.
    """

    metric: str
    value: float
    decimals: int
    percent: bool
    text: str
    target: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    column: str = ""

    @property
    def unit(self) -> float:
        """One unit of the last printed digit."""
        return 10.0**-self.decimals

    @property
    def where(self) -> str:
        """What the number is of, in words, escaped; '' for everything."""
        return plain(", ".join(f"{key} {value}" for key, value in self.target.items()), 300)


def metric_named(text: str) -> str | None:
    """The metric that ``text`` names, or None."""
    return _METRICS.get(_squeezed(text))


def _squeezed(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.casefold())


_METRICS = {_squeezed(name): metric for metric, names in SYNONYMS.items() for name in (metric, *names)}


def parse_claim(text: str) -> Claim:
    """The claim that a person typed; AuditError with the grammar where it can't be read."""
    shown = plain(text, 120)
    found = _CLAIM.fullmatch(text) if len(text) <= 1000 else None
    if found is None:
        raise AuditError(f"claim {shown!r} can't be read; write {GRAMMAR}")
    metric = metric_named(found["metric"])
    if metric is None:
        near = get_close_matches(_squeezed(found["metric"]), list(_METRICS), 1)
        hint = f" (did you mean {_METRICS[near[0]]}?)" if near else ""
        raise AuditError(
            f"claim {shown!r}: no metric is called {plain(found['metric'], 60)!r}{hint}; known are "
            + ", ".join(SYNONYMS)
        )
    target = {key: _unquoted(found[key]) for key in ("class", "set") if found[key] is not None}
    if found["target"] is not None:
        target |= _pairs(found["target"], shown)
    if not all(target.values()):
        raise AuditError(f"claim {shown!r} names nothing after ':', '@' or '='; write {GRAMMAR}")
    number = number_of(found["value"])
    if number is None:
        raise AuditError(
            f"claim {shown!r}: {plain(found['value'], 60)!r} is no number; write digits with a decimal point, and a"
            " percent sign where the paper prints one, such as 0.0343 or 3.43%"
        )
    return _checked(Claim(metric, *number, text.strip(), target), shown)


def number_of(text: str) -> tuple[float, int, bool] | None:
    """(value, decimals, percent sign) of a printed number, or None."""
    bare = text.strip()
    percent = bare.endswith("%")
    bare = bare.removesuffix("%").strip().replace("−", "-")
    found = _NUMBER.fullmatch(bare)
    if found is None:
        return None
    digits = found[1] if found[1] is not None else (found[2] or "")
    value = float(bare)
    decimals = len(digits) - int(found[3] or 0)
    return (value, decimals, percent) if math.isfinite(value) and -12 <= decimals <= 60 else None


def _checked(claim: Claim, shown: str) -> Claim:
    top = 100.0 if claim.percent else math.inf if claim.metric in UNBOUNDED else 100.0
    low = -top if claim.metric == "kappa" else 0.0
    if claim.metric == "brier":
        top = 2 * top
    if not low <= claim.value <= top:
        raise AuditError(
            f"claim {shown!r}: {claim.metric} can't be {claim.value:g}{'%' if claim.percent else ''}; it lies between"
            f" {low / 100:g} and {top / 100:g}, or {low:g} and {top:g} in percent"
            if math.isfinite(top)
            else f"claim {shown!r}: {claim.metric} can't be negative"
        )
    return claim


def checked(claim: Claim) -> Claim:
    """``claim``; AuditError where its metric can't have the value."""
    return _checked(claim, plain(claim.text, 120))


def _pairs(text: str, shown: str) -> dict[str, str]:
    out: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _PAIR.match(text, at)
        if found is None or found.end() == at:
            raise AuditError(f"claim {shown!r}: {plain(text[at:], 60)!r} is no KEY=VALUE; write {GRAMMAR}")
        out[found["key"]] = _unquoted(found["value"])
        at = found.end()
    if not out:
        raise AuditError(f"claim {shown!r}: nothing between the brackets; write {GRAMMAR}")
    return out


def _unquoted(text: str) -> str:
    return text.strip().strip('"').strip()
