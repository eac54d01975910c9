"""What the split lists given beside the predictions show: leaks, and which splits there are."""

from dataclasses import dataclass
from pathlib import Path

from scorer.audit.shapes import Finding, Level
from splits.checking import Level as Weight
from splits.checking import Options, check_splits
from splits.checking.words import EXTERNAL, kind_of
from splits.errors import SplitError

Told = tuple[bool | None, str]
PATIENTS = ("patient-overlap", "group-overlap")
IMAGES = ("path-overlap", "name-overlap", "content-overlap")
LEVELS = {Weight.LEAK: Level.WARNING, Weight.COLLISION: Level.NOTE, Weight.WARNING: Level.WARNING}


@dataclass(frozen=True)
class Listed:
    """``kinds``: names of the splits listed, by kind (train, val, calib, test, external). ``told`` has the answers to
    rules that the lists give, whatever rows have predictions."""

    findings: tuple[Finding, ...] = ()
    kinds: dict[str, tuple[str, ...]] | None = None
    told: dict[str, Told] | None = None


def listed(path: Path, *, pattern: str = "", encoding: str = "utf-8") -> Listed:
    """Check the lists in ``path`` as ``mvc split check`` does; lists it can't use are a note."""
    try:
        report = check_splits([path], Options(pattern=pattern, encoding=encoding))
    except SplitError as error:
        said = f"{path}: not checked for leaks: {error}"
        return Listed((Finding(Level.NOTE, "splits-not-checked", said, explanation="see mvc split check"),))
    kinds: dict[str, tuple[str, ...]] = {}
    for name in report.splits:
        if kind := kind_of(name):
            kinds[kind] = (*kinds.get(kind, ()), name)
    findings = []
    for one in report.findings:
        if one.level is Weight.NOTE:
            continue
        rule = ""
        if one.level is Weight.LEAK:
            outside = any(kind_of(name) == EXTERNAL for name in one.splits)
            rule = "MVC602" if outside else "MVC101" if one.code in PATIENTS else "MVC102" if one.code in IMAGES else ""
        findings.append(
            Finding(
                LEVELS[one.level],
                f"splits-{one.code}",
                f"{path}: {one.title}",
                one.count,
                one.samples,
                rule=rule,
                explanation=one.mend,
            )
        )
    told: dict[str, Told] = {}
    if len(report.splits) > 1 and not report.of(Weight.LEAK) and not report.of(Weight.COLLISION):
        where = f"of the {len(report.splits)} splits listed ({', '.join(report.splits)})"
        told["MVC102"] = True, f"no image lies in two {where}"
        if not report.unknown and "patient" in report.compared:
            told["MVC101"] = True, f"no patient lies in two {where}"
            if EXTERNAL in kinds:
                told["MVC602"] = True, f"no patient lies in two {where}"
    return Listed(tuple(findings), kinds, told)
