"""Labels as released, and the class indices that they are: a missing label stays missing, nothing is shifted unsaid."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from scorer.audit.shapes import AuditError, Codes, Finding, Level
from scorer.audit.understanding.looks import NO_LABEL
from splits.checking import words
from splits.units import coded

POSITIVE = frozenset(
    {"1", "true", "yes", "y", "positive", "pos", "malignant", "disease", "diseased", "abnormal", "cancer", "tumor",
     "tumour", "present", "case", "mutated", "mut", "mutant", "referable", "sick", "event", "dead", "t"}
)  # fmt: skip
NEGATIVE = frozenset(
    {"0", "false", "no", "n", "negative", "neg", "benign", "healthy", "normal", "control", "absent", "nofinding",
     "wildtype", "wt", "nonreferable", "nondiseased", "noncancer", "alive", "f"}
)  # fmt: skip
SEPARATORS = ("|", ";")
ASK = "say with --classes NEGATIVE,POSITIVE which label the score is the probability of"


@dataclass(frozen=True)
class Truth:
    """One column of labels: ``codes`` (N,) into the texts ``names``, -1 where there is no label.

    ``missing`` counts empty cells and words for none, ``uncertain`` the cells of -1 that are no class.
    """

    column: str
    names: tuple[str, ...]
    codes: Codes
    missing: int
    uncertain: int


def truth_of(column: pl.Series, flag: pl.Series | None = None) -> Truth:
    """The labels in ``column``; ``flag`` says for each row whether it has one."""
    if column.dtype.is_float():
        column = column.fill_nan(None)
        fractions = column.drop_nulls()
        if len(fractions) and not bool((fractions == fractions.round()).all()):
            raise AuditError(f"column {column.name!r} is to hold labels and holds fractions; map it to score instead")
        text = column.cast(pl.Int64, strict=False).cast(pl.String)
    elif column.dtype == pl.Boolean:
        text = column.cast(pl.Int8).cast(pl.String)
    else:
        text = column.cast(pl.String)
    found = coded(text)
    names = [_canonical(str(name)) for name in found.names.to_list()]
    none = {name for name in names if name.casefold() in NO_LABEL}
    kept = sorted(set(names) - none)
    empty = bool(none) or bool((found.codes == -1).any())
    uncertain = "-1" in kept and (set(kept) != {"-1", "1"} or empty)
    if uncertain:
        kept.remove("-1")
    place = {name: k for k, name in enumerate(kept)}
    table = np.array([*(place.get(name, -1) for name in names), -1], dtype=np.int64)
    codes = table[found.codes]
    unsure = np.array([*(uncertain and name == "-1" for name in names), False])[found.codes]
    if flag is not None:
        off = flag.cast(pl.String).str.to_lowercase().is_in(["false", "0", "no", "f", "0.0"]).fill_null(False)
        codes = np.where(off.to_numpy(), -1, codes)
        unsure &= ~off.to_numpy()
    unknown = int(unsure.sum())
    return Truth(column.name, tuple(kept), codes, int((codes == -1).sum()) - unknown, unknown)


def _canonical(text: str) -> str:
    return re.sub(r"^(-?\d+)\.0+$", r"\1", text.strip())


def missing_labels(truths: Sequence[Truth], where: str) -> list[Finding]:
    """What is no label and was left out, by column."""
    found = []
    lost = [one for one in truths if one.missing]
    if lost:
        rows, of = max((one.missing for one in lost), default=0), len(lost[0].codes)
        named = f"column {lost[0].column!r}" if len(truths) == 1 else f"{len(lost)} of {len(truths)} label columns"
        title = f"{where}: {rows:,} of {of:,} rows have no label ({named}); they are left out, never taken as class 0"
        found.append(Finding(Level.NOTE, "labels-missing", title, rows, tuple(one.column for one in lost)))
    unsure = [one for one in truths if one.uncertain]
    if unsure:
        count = sum(one.uncertain for one in unsure)
        title = f"{where}: {count:,} labels of -1 are 'uncertain' or 'none' and no class; they are left out"
        found.append(Finding(Level.NOTE, "labels-uncertain", title, count, tuple(one.column for one in unsure)))
    return found


@dataclass(frozen=True)
class Indexed:
    """Class indices (N,), or (N, K) of findings; None where they can't be told, which ``findings`` explain."""

    y: Codes | None
    classes: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    note: str = ""


def binary(truth: Truth, column: str, chosen: Sequence[str] = (), stem: str = "") -> Indexed:
    """0, 1 from labels of two values; ``column`` names the score, ``chosen`` are the classes that the user gave.

    ``stem`` is the name without 'prob' and the like: where it is that of the negative label, the score is the
    probability of this one; '0' alone can mean the first output as well.
    """
    names = truth.names
    if chosen:
        if len(chosen) != 2 or not set(names) <= set(chosen):
            said = ", ".join(map(repr, names[:8]))
            finding = f"labels of column {truth.column!r} are {said}, which --classes {','.join(chosen)} does not name"
            return _refused(finding, chosen, "give the negative and the positive label, as the file spells them")
        return Indexed(_recoded(truth, {name: chosen.index(name) for name in names}), tuple(chosen), (), "--classes")
    if len(names) > 2:
        said = ", ".join(map(repr, names[:8]))
        return _refused(f"one score {column!r}, but labels of {len(names)} values ({said})", ("0", "1"), ASK)
    said = _form(stem)
    if said == "0" and {"0"} <= set(names) <= {"0", "1"}:
        title = f"score {column!r} is named after label '0': the probability of 0, or the first output?"
        return _refused(title, ("0", "1"), ASK)
    own = [name for name in names if _form(name) == said]
    if said in NEGATIVE and len(names) == 2 and (own or set(names) == {"0", "1"}):
        event = own[0] if own else "0"
        other = next(name for name in names if name != event)
        note = f"the score is named {stem!r}: it is taken as the probability of label {event!r}"
        return Indexed(_recoded(truth, {other: 0, event: 1}), (other, event), (), note)
    if set(names) <= {"0", "1"}:
        return Indexed(_recoded(truth, {"0": 0, "1": 1}), ("0", "1"))
    positive = _positive(names, column)
    if positive is None:
        said = " and ".join(map(repr, names))
        return _refused(f"labels of column {truth.column!r} are {said}: which is positive is not plain", names, ASK)
    others = [name for name in names if name != positive] or ["other"]
    classes = (others[0], positive)
    note = f"label {positive!r} is taken as positive"
    return Indexed(_recoded(truth, {name: classes.index(name) for name in names}), classes, (), note)


def _positive(names: Sequence[str], column: str) -> str | None:
    """The one label that is positive by its word, by the other's word, or since the score bears its name."""
    keys = {name: words.key(name) if name not in ("-1", "1") else name for name in names}
    yes = [name for name in names if keys[name] in POSITIVE]
    no = [name for name in names if keys[name] in NEGATIVE or keys[name] == "-1"]
    plain = len(yes) == 1 and (len(names) == 1 or len(no) == len(names) - 1 or (not no and not yes[0].isdigit()))
    if plain:
        return yes[0]
    if len(names) == 2 and len(no) == 1 and not yes:
        return next(name for name in names if name not in no)
    named = [name for name in names if len(keys[name]) > 2 and words.key(column).endswith(keys[name])]
    return named[0] if len(named) == 1 and not yes and not no and len(names) == 2 else None


def multiclass(truth: Truth, classes: Sequence[str], chosen: Sequence[str] = (), *, named: bool = True) -> Indexed:
    """Class indices of labels, for scores in the order of ``classes`` (names from the columns where ``named``)."""
    k = len(classes)
    order = tuple(chosen) or tuple(classes)
    if chosen and len(chosen) != k:
        return _refused(f"--classes names {len(chosen)} classes, and there are {k} score columns", classes, "name all")
    keys = {_form(name): i for i, name in enumerate(order)}
    if (chosen or named) and len(keys) == k and all(_form(name) in keys for name in truth.names):
        mapping = {name: keys[_form(name)] for name in truth.names}
        note = "labels are the names of the score columns" if not chosen else "labels are named by --classes"
        return Indexed(_recoded(truth, mapping), order, (), note)
    numbers = [int(name) if re.fullmatch(r"\d{1,6}", name) else -1 for name in truth.names]
    if not numbers or min(numbers) < 0 or max(numbers) > k:
        said = ", ".join(map(repr, truth.names[:8])) or "none"
        listed = ", ".join(map(repr, classes[:8]))
        title = f"labels of column {truth.column!r} ({said}) are not the classes of the {k} scores ({listed})"
        return _refused(title, classes, "name the classes in the order of the score columns with --classes")
    mapping = dict(zip(truth.names, numbers, strict=True))
    if max(numbers) == k:
        if min(numbers) == 0:
            title = f"labels of column {truth.column!r} run from 0 to {k}: {k + 1} classes, and {k} scores"
            return _refused(title, classes, "score all classes, or name those of the columns with --classes")
        title = (
            f"labels of column {truth.column!r} run from {min(numbers)} to {k}, so they count from 1: label 1 is the "
        )
        finding = Finding(Level.NOTE, "labels-from-one", title + f"first score column, {classes[0]!r}")
        return Indexed(_recoded(truth, {name: at - 1 for name, at in mapping.items()}), order, (finding,))
    found: tuple[Finding, ...] = ()
    if min(numbers) > 0 and max(numbers) == k - 1 and k > 2:
        title = (
            f"no label of column {truth.column!r} is 0: they are taken to run from 0 to {k - 1}; if they count from 1 "
            "all are one off: name the classes with --classes"
        )
        found = (Finding(Level.WARNING, "labels-base", title),)
    return Indexed(_recoded(truth, mapping), order, found, "labels are the numbers of the score columns, from 0")


def _form(name: str) -> str:
    return words.key(name) or name.casefold()


def findings_of(text: pl.Series) -> tuple[str, ...]:
    """The findings that a column of lists in text names ('Mass|Nodule'), in order; () where it is none."""
    values = text.drop_nulls().unique().sort().to_list()
    for mark in SEPARATORS:
        if any(mark in value for value in values):
            return tuple(sorted({part.strip() for value in values for part in value.split(mark) if part.strip()}))
    return ()


def listed(truth: Truth, finding: str) -> Codes | None:
    """0, 1 for whether ``finding`` is among those that each label lists, -1 without label; None where it never is."""
    mark = next((one for one in SEPARATORS if any(one in name for name in truth.names)), SEPARATORS[0])
    wanted = _form(finding)
    there = [wanted in {_form(part) for part in name.split(mark)} for name in truth.names]
    if not any(there):
        return None
    return np.array([*map(int, there), -1], dtype=np.int64)[truth.codes]


def multilabel(truths: Sequence[Truth], findings: Sequence[str], given: Mapping[str, str]) -> Indexed:
    """(N, K) of 0, 1, -1: from one column a finding, matched by name, or from one column that lists findings.

    A finding without labels is -1 throughout.
    """
    n = len(truths[0].codes)
    y = np.full((n, len(findings)), -1, dtype=np.int64)
    by_name = {_form(bare(one.column)): one for one in truths} | {_form(one.column): one for one in truths}
    lost, odd = [], []
    for k, finding in enumerate(findings):
        own = next((one for one in truths if one.column == given.get(finding)), None) or by_name.get(_form(finding))
        if own is not None and set(own.names) <= {"0", "1"}:
            y[:, k] = _recoded(own, {"0": 0, "1": 1})
            continue
        if own is not None:
            odd.append(finding)
            continue
        whole = listed(truths[0], finding) if len(truths) == 1 else None
        if whole is None:
            lost.append(finding)
        else:
            y[:, k] = whole
    found = []
    if lost or odd:
        title = f"{len(lost) + len(odd)} of {len(findings)} findings have no labels of 0 and 1; they are not scored"
        found.append(Finding(Level.WARNING, "findings-without-labels", title, len(lost) + len(odd), (*lost, *odd)))
    if len(lost) + len(odd) == len(findings):
        return Indexed(None, tuple(findings), tuple(found))
    return Indexed(y, tuple(findings), tuple(found), "labels are matched to scores by the names of findings")


MARKS = re.compile(r"(?i)^(?:y|gt|true|label|target|truth|y_true|is)[_ .:-]+|[_ .:-]+(?:gt|true|label|target|truth|y)$")


def bare(column: str) -> str:
    """A label column's name without what says that it is one: 'gt_Mass' is Mass."""
    return MARKS.sub("", column)


def _recoded(truth: Truth, mapping: Mapping[str, int]) -> Codes:
    return np.array([*(mapping[name] for name in truth.names), -1], dtype=np.int64)[truth.codes]


def refused(title: str, classes: Sequence[str]) -> Indexed:
    """No labels, and why."""
    return Indexed(None, tuple(classes), (Finding(Level.WARNING, "labels-not-understood", title),))


def _refused(title: str, classes: Sequence[str], mend: str) -> Indexed:
    return refused(f"{title}; {mend}", classes)
