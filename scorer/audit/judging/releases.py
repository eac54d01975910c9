"""What released predictions show of single rules. Each check answers True (met), False (not met) or None (can't be
told), with the evidence in words."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np

from protocol.findings import counted
from protocol.submission import NON_PARAMETRIC
from scorer.audit.judging.listed import Listed
from scorer.audit.judging.measure import Measures
from scorer.audit.judging.scores import first
from scorer.audit.shapes import Codes, Evidence, Finding, PredictionSet, Scale
from splits.checking.words import CALIBRATION, EXTERNAL, TEST, TRAIN, VALIDATION, kind_of

Told = tuple[bool | None, str]
NO_SPLIT = "the files name no splits; give them with --splits"
HEX = r"^[0-9a-f]{64}$"
NON_PARAMETRIC_WORDS = (*NON_PARAMETRIC, "histogram_binning", "bbq", "beta", "spline")
NATIVE = (Scale.PROBABILITY, Scale.PROBABILITIES, Scale.ONE_VS_REST)
SUMS = (Scale.PROBABILITIES, Scale.PERCENT, Scale.LOGITS, Scale.LOG_PROBABILITIES)


@dataclass(frozen=True)
class Facts:
    """What the checks look at. ``claims``: counts (reproduced, not reproduced, not to be checked)."""

    evidence: Evidence
    measures: Measures
    findings: tuple[Finding, ...]
    claims: tuple[int, int, int] = (0, 0, 0)
    listed: Listed = field(default_factory=Listed)

    @cached_property
    def sets(self) -> tuple[PredictionSet, ...]:
        return self.evidence.sets

    @cached_property
    def kinds(self) -> dict[str, list[int]]:
        """Codes of the splits by kind (train, val, calib, test, external; '' for others), of those that have rows."""
        seen: set[int] = set()
        for one in self.sets:
            if one.split is not None:
                seen |= {code for code in np.unique(one.split).tolist() if code >= 0}
        out: dict[str, list[int]] = {}
        for code in sorted(seen):
            out.setdefault(kind_of(self.evidence.names.split[code]), []).append(code)
        return out

    def names_of(self, kind: str) -> tuple[str, ...]:
        """The splits of a kind, of the rows with predictions and of the lists given."""
        rows = tuple(self.evidence.names.split[code] for code in self.kinds.get(kind, ()))
        return rows or (self.listed.kinds or {}).get(kind, ())

    def split_names(self) -> str:
        """The splits that have rows, in words."""
        return ", ".join(self.evidence.names.split[code] for codes in self.kinds.values() for code in codes)


def _overlap(facts: Facts, what: str, first_kinds: tuple[str, ...], second: tuple[str, ...]) -> tuple[int, str] | None:
    """How many codes of ``what`` (cluster, unit) lie in two splits of the kinds given, and where; None without two."""
    names = facts.evidence.names.split
    members: dict[int, list[Codes]] = {}
    for one in facts.sets:
        codes: Codes | None = getattr(one, what)
        if codes is None or one.split is None:
            continue
        for code in np.unique(one.split[one.split >= 0]).tolist():
            members.setdefault(code, []).append(np.unique(codes[(one.split == code) & (codes >= 0)]))
    whole = {code: np.unique(np.concatenate(parts)) for code, parts in members.items()}
    shared: list[str] = []
    every: list[Codes] = []
    pairs = 0
    for a, b in combinations(sorted(whole), 2):
        kinds = kind_of(names[a]), kind_of(names[b])
        if kinds[0] == kinds[1] or not (
            (kinds[0] in first_kinds and kinds[1] in second) or (kinds[1] in first_kinds and kinds[0] in second)
        ):
            continue
        pairs += 1
        both = np.intersect1d(whole[a], whole[b], assume_unique=True)
        if len(both):
            shared.append(f"{len(both):,} in {names[a]} and {names[b]}")
            every.append(both)
    if not pairs:
        return None
    return (len(np.unique(np.concatenate(every))) if every else 0), first(shared)


DEVELOPMENT = (TRAIN, VALIDATION, CALIBRATION, TEST)


def _apart(facts: Facts, what: str, word: str, one: tuple[str, ...], other: tuple[str, ...]) -> Told:
    if not facts.kinds:
        return None, NO_SPLIT
    found = _overlap(facts, what, one, other)
    if found is None:
        return None, f"{word}s and two splits to compare are not both known; splits with rows: {facts.split_names()}"
    n, where = found
    if n:
        return False, f"{n:,} {word}s lie in two splits: {where}"
    return True, f"no {word} lies in two splits, among the rows with predictions"


def _with_lists(facts: Facts, rule: str, rows: Told) -> Told:
    """What the rows say of a leak; where they show none, what the lists say."""
    return rows if rows[0] is False else (facts.listed.told or {}).get(rule, rows)


def patients_apart(facts: Facts) -> Told:
    """MVC101"""
    rows = _apart(facts, "cluster", facts.evidence.cluster or "cluster", DEVELOPMENT, DEVELOPMENT)
    return _with_lists(facts, "MVC101", rows)


def units_apart(facts: Facts) -> Told:
    """MVC102"""
    rows = _apart(facts, "unit", facts.evidence.unit or "unit", DEVELOPMENT, DEVELOPMENT)
    return _with_lists(facts, "MVC102", rows)


def external_apart(facts: Facts) -> Told:
    """MVC602"""
    rows = _apart(facts, "cluster", facts.evidence.cluster or "cluster", (EXTERNAL,), DEVELOPMENT)
    return _with_lists(facts, "MVC602", rows)


def hashed(facts: Facts) -> Told:
    """MVC103"""
    names = facts.evidence.names
    known = [(word, series) for word, series in (("unit", names.unit), ("cluster", names.cluster)) if len(series)]
    if not known:
        return None, "the files hold no identifiers"
    bare = [(word, series) for word, series in known if not bool(series.str.contains(HEX).all())]
    if bare:
        shown = "; ".join(f"{getattr(facts.evidence, word) or word} {series[0]!r}" for word, series in bare)
        return None, f"identifiers stand there as they are, such as {shown}: a fault unless they are public already"
    return True, "identifiers are 64 hexadecimal digits"


def calibration_split(facts: Facts) -> Told:
    """MVC105"""
    return _has(facts, CALIBRATION)


def test_split(facts: Facts) -> Told:
    """MVC106"""
    return _has(facts, TEST)


test_split.__test__ = False  # type: ignore[attr-defined]


def _has(facts: Facts, kind: str) -> Told:
    if named := facts.names_of(kind):
        return True, f"split {first(named)}"
    if not facts.kinds:
        return None, NO_SPLIT
    return None, f"no row with predictions is in such a split; splits with rows: {facts.split_names()}"


def development_rows(facts: Facts) -> Told:
    """MVC113"""
    missing = [kind for kind in (TRAIN, VALIDATION) if not facts.names_of(kind)]
    if not missing:
        return True, "rows of train and val are listed"
    if not facts.kinds:
        return None, NO_SPLIT
    return None, f"no row with predictions, and no list given, is of {' or '.join(missing)}"


def _labelled(facts: Facts) -> Iterator[PredictionSet]:
    return (one for one in facts.sets if one.y is not None and bool((one.y >= 0).any()))


def classes_present(facts: Facts) -> Told:
    """MVC107"""
    known = list(_labelled(facts))
    if not known:
        return None, "there are no labels"
    missing = []
    for one in known:
        if one.y is None:
            continue
        if one.y.ndim == 2:
            absent = [name for k, name in enumerate(one.classes) if len(np.unique(one.y[one.y[:, k] >= 0, k])) < 2]
        else:
            absent = [name for k, name in enumerate(one.classes) if not (one.y == k).any()]
        if absent:
            missing.append(f"{one.title}: {first(absent)}")
    if missing:
        return False, f"without a case of a class: {first(missing)}"
    return True, f"every class has cases, in {counted(len(known), 'set')}"


def labels_in_classes(facts: Facts) -> Told:
    """MVC108"""
    return (True, "every label used is one of the classes") if list(_labelled(facts)) else (None, "there are no labels")


def patients_known(facts: Facts) -> Told:
    """MVC109"""
    word = facts.evidence.cluster
    known = [one for one in facts.sets if one.cluster is not None and (one.cluster >= 0).any()]
    if not known:
        return None, "no column and no pattern of the identifiers names patients: intervals are by unit"
    if word != "patient":
        return None, f"rows are grouped by {word or 'a column'}; whether that is the patient is not known"
    return True, f"{len(facts.evidence.names.cluster):,} patients"


def patients_plausible(facts: Facts) -> Told:
    """MVC110"""
    known = [one for one in facts.sets if one.cluster is not None]
    if not known:
        return None, "no patients are named"
    largest = max(known, key=lambda one: len(one.scores))
    codes = largest.cluster[largest.cluster >= 0] if largest.cluster is not None else np.empty(0, dtype=np.int64)
    word, n = facts.evidence.cluster or "cluster", len(np.unique(codes))
    if facts.evidence.unit == word:
        return True, f"a row is about a {word}"
    if n == len(codes):
        return None, f"every row of {largest.title} has a {word} of its own: one row a {word}, or an id of the row"
    return True, f"{n:,} {word}s for {len(codes):,} rows of {largest.title}"


def _seeds(facts: Facts) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {}
    for one in facts.sets:
        out.setdefault(one.model, set()).add(one.seed)
    return out


def seeds_named(facts: Facts) -> Told:
    """MVC202"""
    named = {seed for seeds in _seeds(facts).values() for seed in seeds if seed}
    if not named:
        return None, "the files name no seeds"
    return None, f"seeds {first(sorted(named), 5)}; which were declared is not known"


def several_seeds(facts: Facts) -> Told:
    """MVC203"""
    seeds = _seeds(facts)
    if not any(seed for own in seeds.values() for seed in own):
        return None, "the files name no seeds"
    single = sorted(model for model, own in seeds.items() if len(own) == 1)
    if single:
        return False, f"one seed only: {first(single)}"
    return True, f"{min(len(own) for own in seeds.values())} seeds a model or more"


def seeds_differ(facts: Facts) -> Told:
    """MVC205"""
    if not any(len(own) > 1 for own in _seeds(facts).values()):
        return None, "no model has two seeds here"
    return True, "no two seeds have equal scores"


def reference_calibrators(facts: Facts) -> Told:
    """MVC301"""
    names = {one.calibrator.casefold() for one in facts.sets if one.calibrator}
    if not names:
        return None, "the files name no calibrators"
    missing = [] if names & {"none", "uncalibrated", "identity", "base", "raw"} else ["none"]
    if not any(name.startswith(("temp", "ts")) for name in names):
        missing.append("temperature")
    if not any(word.split("-")[0][:5] in name for name in names for word in NON_PARAMETRIC_WORDS):
        missing.append("a non-parametric one")
    if missing:
        return False, f"calibrators {first(sorted(names), 6)}; missing by name: {', '.join(missing)}"
    return True, f"calibrators {first(sorted(names), 6)}"


def calibration_rows(facts: Facts) -> Told:
    """MVC308"""
    if not facts.kinds:
        return None, NO_SPLIT
    told = CALIBRATION in facts.kinds
    return (True, "predictions on calibration rows are there") if told else (None, "no prediction on a calibration row")


def probabilities(facts: Facts) -> Told:
    """MVC401"""
    bad = []
    for one in facts.sets:
        if not one.scale.usable:
            bad.append(f"{one.title}: {one.scale.scale.value}")
        elif one.scale.changed and one.scale.scale not in NATIVE:
            bad.append(f"{one.title}: {one.scale.changed}")
        elif (missing := int(np.isnan(one.scores).any(axis=1).sum())) and one.kind != "multilabel":
            bad.append(f"{one.title}: {missing:,} rows without a score")
    if not facts.sets:
        return None, "no scores were found"
    if bad:
        return False, f"no finite probabilities as they stand: {first(bad)}"
    return True, f"finite and in [0, 1], in {counted(len(facts.sets), 'set')}"


def sum_to_one(facts: Facts) -> Told:
    """MVC402"""
    several = [one for one in facts.sets if one.kind == "multiclass"]
    if not several:
        alone = any(one.scale.usable for one in facts.sets)
        return (True, "one probability a row, or one a finding") if alone else (None, "no probabilities were found")
    off = [one.title for one in several if one.scale.scale not in SUMS or not one.scale.usable]
    if off:
        return False, f"the scores of a row are not shares of one: {first(off)}"
    return True, "rows sum to one within their stored precision, or were brought there as said"


def predictions_complete(facts: Facts) -> Told:
    """MVC403"""
    if not list(_labelled(facts)):
        return None, "no list of the test images to compare with"
    return None, "takes the list of all test images; what labels and predictions share is said under findings"


def units_known(facts: Facts) -> Told:
    """MVC404"""
    return None, "takes the list of all test images; what labels and predictions share is said under findings"


def once_each(facts: Facts) -> Told:
    """MVC405"""
    if not any(one.unit is not None for one in facts.sets):
        return None, "the files hold no identifiers"
    twice = []
    for one in facts.sets:
        if one.unit is not None:
            own = np.sort(one.unit[one.unit >= 0])
            if n := int((own[1:] == own[:-1]).sum()):
                twice.append(f"{one.title}: {n:,}")
    if twice:
        return False, f"rows beyond the first of a {facts.evidence.unit or 'unit'}: {first(twice)}"
    return True, f"no {facts.evidence.unit or 'unit'} occurs twice in a set"


def class_counts(facts: Facts) -> Told:
    """MVC406"""
    several = [one for one in facts.sets if one.kind is not None]
    if not several:
        return None, "the number of classes is not known"
    bad = [one.title for one in several if one.scores.shape[1] != (1 if one.kind == "binary" else len(one.classes))]
    if bad:
        return False, f"columns and classes differ in number: {first(bad)}"
    return True, f"{first(sorted({f'{len(one.classes)} classes' for one in several}))}, a column each (binary: one)"


def claims_follow(facts: Facts) -> Told:
    """MVC407"""
    same, different, open_ = facts.claims
    if not same + different:
        why = (
            f"{counted(open_, 'claim')} can't be checked" if open_ else "no claims were given; use --claim or --claims"
        )
        return None, why
    if different:
        return False, f"{different} of {counted(same + different, 'claim')} reproduced by no definition tried"
    rest = f"; {counted(open_, 'more claim')} can't be checked" if open_ else ""
    return True, f"{counted(same, 'claim')} reproduced by one of the definitions tried{rest}"


def external_site(facts: Facts) -> Told:
    """MVC601"""
    if named := facts.names_of(EXTERNAL):
        return True, f"split {first(named)}"
    sites = facts.evidence.names.site
    if len(sites) > 1:
        return None, f"{len(sites)} sites; which took no part in development is not known"
    return None, "no site is named"


def subgroups(facts: Facts) -> Told:
    """MVC603"""
    return None, "takes the declared subgroups"


def sites_apart(facts: Facts) -> Told:
    """MVC605"""
    if EXTERNAL not in facts.kinds or len(facts.evidence.names.site) < 2:
        return None, "takes an external split and the sites of all rows"
    found = _overlap(facts, "site", (EXTERNAL,), DEVELOPMENT)
    if found is None:
        return None, "no row of development has a predicted score"
    return (not found[0]), found[1] or "no external site is a site of development"


def rectangular(facts: Facts) -> Told:
    """MVC703"""
    by_task: dict[str, list[PredictionSet]] = {}
    for one in facts.sets:
        by_task.setdefault(one.task, []).append(one)
    groups = [sets for sets in by_task.values() if len(sets) > 1]
    if not groups:
        return None, "one set a task: nothing to compare"
    ragged = []
    for sets in groups:
        if any(one.unit is None for one in sets):
            sizes = {len(one.scores) for one in sets}
            if len(sizes) == 1:
                return None, "sets have as many rows each, but no identifiers"
            ragged.append(f"{min(sizes):,} to {max(sizes):,} rows")
            continue
        known = [np.unique(one.unit) for one in sets if one.unit is not None]
        if any(len(own) != len(known[0]) or bool((own != known[0]).any()) for own in known[1:]):
            ragged.append(f"{sets[0].task or 'all sets'}: {min(map(len, known)):,} to {max(map(len, known)):,} units")
    if ragged:
        return False, f"sets are over different rows: {first(ragged)}"
    return True, f"{counted(len(facts.sets), 'set')} over the same units, task by task"


def no_personal_data(facts: Facts) -> Told:
    """MVC704"""
    if not any(finding.rule == "MVC704" for finding in facts.findings):
        return True, "nothing that looks like personal data was found in the tables"
    return None, "looked at in the findings"
