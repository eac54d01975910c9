"""What labels, splits and names add to the rows of predictions: labels, patients, sites, splits, folds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from scorer.audit.shapes import AuditError, Finding, Level, Role
from scorer.audit.understanding import joining
from scorer.audit.understanding.joining import Joined
from scorer.audit.understanding.labels import Truth, missing_labels, truth_of
from scorer.audit.understanding.looks import spread
from scorer.audit.understanding.settling import WORDS, Table
from scorer.audit.understanding.wishes import Wishes
from splits.checking import words
from splits.checking.columns import real_patients
from splits.checking.ids import patients_from, pattern_that_fits
from splits.errors import SplitError

TCGA = r"^TCGA-([A-Z0-9]{2})-"
TRIED = 3_000


@dataclass(frozen=True)
class Rows:
    """The rows of one table of predictions with what is known of each, as texts (N,), null where unknown."""

    table: Table
    unit: pl.Series | None
    cluster: pl.Series | None
    site: pl.Series | None
    split: pl.Series | None
    fold: pl.Series | None
    truths: tuple[Truth, ...]
    word: str  # of the cluster
    ordered: bool
    findings: tuple[Finding, ...]
    listed: bool = False  # splits stand in a column, not only in the name of the file


@dataclass(frozen=True)
class Other:
    """Another table (labels, splits) and where each row of the predictions is in it."""

    table: Table
    joined: Joined

    def column(self, role: Role) -> pl.Series | None:
        """The first column with ``role``, at the rows of the predictions."""
        names = self.table.roles.of(role)
        return self.at(names[0]) if names else None

    def at(self, name: str) -> pl.Series:
        """Column ``name`` at the rows of the predictions, null where there is none."""
        column = self.table.frame[name]
        at = pl.Series(self.joined.at).replace(-1, None) if (self.joined.at < 0).any() else pl.Series(self.joined.at)
        return column.gather(at)


def attach(table: Table, labels: Table | None, splits: Table | None, wishes: Wishes) -> Rows:
    """The rows of ``table`` with what ``labels`` and ``splits`` add."""
    found: list[Finding] = list(table.findings)
    unit = joining.key_of(table.frame, table.unit) if table.unit else None
    others: list[Other] = []
    truths: tuple[Truth, ...] = ()
    ordered = False
    if labels is not None:
        other, problems = _other(table, labels, "labels")
        found += problems
        if other is not None:
            others.append(other)
            ordered = other.joined.ordered
            truths = tuple(_truth(other.at(name), other.table, other) for name in other.table.roles.of(Role.LABEL))
            if not truths:
                raise AuditError(f"{labels.loaded.name}: no column is a label; say which with --map label=COLUMN")
    elif table.roles.of(Role.LABEL):
        truths = tuple(_truth(table.frame[name], table, None) for name in table.roles.of(Role.LABEL))
    found += missing_labels(truths, table.loaded.name if labels is None else labels.loaded.name)
    if splits is not None:
        other, problems = _other(table, splits, "splits")
        found += [*problems, *_no_parts(splits)]
        if other is not None:
            others.append(other)
    frame = table.frame

    def texts(role: Role) -> pl.Series | None:
        own = table.roles.of(role)
        if own:
            return joining.key_of(frame, own)
        for other in others:
            column = other.column(role)
            if column is not None:
                return joining.key_of(column.to_frame(), [column.name])
        return None

    cluster, word, problems = _clusters(table, texts, unit, truths, wishes)
    found += problems
    found += _contradicting(table, unit, truths)
    split = texts(Role.SPLIT)
    listed = split is not None
    if split is None and "split" in table.loaded.facts:
        split = pl.Series("split", [table.loaded.facts["split"]], dtype=pl.String).new_from_index(0, frame.height)
    site = texts(Role.SITE)
    if site is None:
        site, problems = _tcga_sites(table, cluster, unit)
        found += problems
    return Rows(table, unit, cluster, site, split, texts(Role.FOLD), truths, word, ordered, tuple(found), listed)


def _contradicting(table: Table, unit: pl.Series | None, truths: Sequence[Truth]) -> list[Finding]:
    """A finding where rows of one unit (in one task) have different labels."""
    if unit is None or not truths or unit.n_unique() == len(unit):
        return []
    key = joining.key_of(table.frame, (*table.unit, *table.tasks))
    frame = pl.DataFrame([key, *(pl.Series(str(k), one.codes).replace(-1, None) for k, one in enumerate(truths))])
    names = [str(k) for k in range(len(truths))]
    kinds = frame.drop_nulls("key").group_by("key").agg(pl.col(names).drop_nulls().n_unique())
    odd = kinds.filter(pl.max_horizontal(names) > 1)["key"].sort()
    if not len(odd):
        return []
    title = f"{table.loaded.name}: {len(odd):,} ids have rows with different labels; rows keep their own"
    samples = tuple(joining.shown(one) for one in odd.head(10).to_list())
    return [Finding(Level.WARNING, "labels-differ", title, len(odd), samples)]


def _truth(column: pl.Series, table: Table, other: Other | None) -> Truth:
    flag = None
    if table.roles.flag:
        flag = other.at(table.roles.flag) if other is not None else table.frame[table.roles.flag]
    return truth_of(column, flag)


def _other(table: Table, other: Table, what: str) -> tuple[Other | None, list[Finding]]:
    """``other`` joined to the rows of ``table`` by the columns that fit best."""
    where = other.loaded.name
    values = other.frame.select(other.roles.of(Role.LABEL) if what == "labels" else _said(other))
    best = _best(table, other)
    if best is not None:
        left, right = best
        by = " and ".join(left) + ("" if left == right else f" = {' and '.join(right)}")
        found = joining.join(
            joining.key_of(table.frame, left), joining.key_of(other.frame, right), values, f"column {by}", where
        )
        if found is not None:
            told = found.findings
            if what == "splits":
                told = tuple(_of_splits(one) for one in told)
            return Other(other, found), list(told)
    if what == "labels" and not (table.unit and other.unit):
        by_order = joining.by_order(table.frame.height, other.frame.height, where)
        if by_order is not None:
            return Other(other, by_order), list(by_order.findings)
    why = "no id of the predictions occurs in it" if table.unit else "the predictions have no ids"
    counts = f"{table.frame.height:,} rows of predictions, {other.frame.height:,} of {what}"
    title = f"{where}: {why} ({counts}); {what} are not joined. Give ids, or name them with --map unit=COLUMN"
    return None, [Finding(Level.WARNING, f"{what}-not-joined", title, table.frame.height)]


def _no_parts(splits: Table) -> list[Finding]:
    if _said(splits) or "split" in splits.loaded.facts:
        return []
    title = f"{splits.loaded.name}: no column names splits or folds; say which with --map split=COLUMN or fold=COLUMN"
    return [Finding(Level.WARNING, "splits-not-understood", title)]


def _of_splits(one: Finding) -> Finding:
    code = one.code.replace("labels", "splits")
    return replace(one, code=code, title=one.title.replace("different labels", "different splits"))


def _said(table: Table) -> list[str]:
    return [name for role in (Role.SPLIT, Role.FOLD) for name in table.roles.of(role)]


def _best(table: Table, other: Table) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Columns of both tables whose values agree most, the units' own before others; None where nothing agrees."""
    tasks = tuple(name for name in table.tasks if name in other.frame.columns)
    lefts = [(*table.unit, *tasks), table.unit, table.unit[:1], table.roles.of(Role.PATIENT)[:1]]
    lefts = [one for one in dict.fromkeys(lefts) if one]
    rights = [other.unit, other.roles.of(Role.UNIT), other.roles.of(Role.PATIENT)[:1]]
    skip = {*other.roles.of(Role.LABEL), *other.roles.of(Role.TEXT), *other.roles.of(Role.SCORE), *_said(other)}
    wide = [(name,) for name, one in other.roles.looks.items() if name not in skip and not one.fractions]
    best: tuple[float, tuple[str, ...], tuple[str, ...]] | None = None
    for left in lefts:
        some = spread(joining.key_of(table.frame, left), TRIED).drop_nulls().unique()
        if not len(some):
            continue
        for right in dict.fromkeys([left, *rights, *wide]):
            if len(right) != len(left) or not set(right) <= set(other.frame.columns):
                continue
            keys = joining.key_of(other.frame, right)
            hits = max(joining.matches(some, keys, level) for level in range(len(joining.LEVELS))) / len(some)
            # a short number occurs in many columns; what is to be an id must tell rows apart
            if hits > 0 and (best is None or hits > best[0] + 1e-9) and _tells(keys, right, other, hits):
                best = (hits, left, right)
        if best is not None and best[0] > 0.5:
            break
    return best[1:] if best is not None else None


def _tells(keys: pl.Series, right: tuple[str, ...], other: Table, hits: float) -> bool:
    named = {*other.unit, *other.roles.of(Role.UNIT), *other.roles.of(Role.PATIENT)}
    if set(right) & named:
        return True
    some = spread(keys).drop_nulls()
    return hits >= 0.5 and len(some) > 0 and some.n_unique() > 0.5 * len(some)


def _clusters(
    table: Table, texts: object, unit: pl.Series | None, truths: Sequence[Truth], wishes: Wishes
) -> tuple[pl.Series | None, str, list[Finding]]:
    """Texts of what is resampled, its word, and what is odd about it."""
    assert callable(texts)
    found: list[Finding] = []
    cluster = texts(Role.CLUSTER) if wishes.columns.get(Role.CLUSTER) else None
    if cluster is not None:
        return cluster, wishes.cluster or _word(wishes.columns[Role.CLUSTER][0], "cluster"), found
    patient = texts(Role.PATIENT)
    if wishes.pattern and unit is not None:
        named = table.frame[table.unit[0]].cast(pl.String)
        patient = _from_names(named, wishes.pattern)
        if patient.null_count() == len(patient):
            raise AuditError(
                f"--pattern {wishes.pattern!r} finds a patient in no id, such as {str(named.drop_nulls().first())!r}"
            )
        lost = patient.null_count()
        title = f"{table.loaded.name}: patients are read from ids by the pattern {wishes.pattern!r}; {lost:,} have none"
        found.append(Finding(Level.NOTE, "patients-by-pattern", title, len(patient) - lost))
        return patient, wishes.cluster or "patient", found
    if patient is not None:
        name = str(patient.name) if not table.roles.of(Role.PATIENT) else table.roles.of(Role.PATIENT)[0]
        word = wishes.cluster or _word(name, "patient")
        own = table.unit == table.roles.of(Role.PATIENT)
        checked, problems = _checked(patient, unit, name, table.loaded.name, own=own)
        return checked, word if checked is not None else "", [*found, *problems]
    if unit is not None and table.frame[table.unit[0]].dtype == pl.String:
        named = table.frame[table.unit[0]]
        pattern = _fitting(named)
        if pattern:
            patient = patients_from(named, pattern)
            title = f"{table.loaded.name}: no column names patients; they are read from ids by the pattern {pattern!r}"
            sample = (f"{named.drop_nulls().first()!s} is {patient.drop_nulls().first()!s}",)
            found.append(Finding(Level.NOTE, "patients-by-pattern", title, patient.n_unique(), sample))
            return patient, wishes.cluster or "patient", found
    group = texts(Role.CLUSTER)
    if group is not None:
        names = table.roles.of(Role.CLUSTER)
        return group, wishes.cluster or _word(names[0] if names else "group", "group"), found
    title = f"{table.loaded.name}: nothing tells patients: rows are taken as independent"
    mend = "--map patient=COLUMN or --pattern; intervals are too narrow where a patient has several rows"
    found.append(Finding(Level.WARNING, "patients-unknown", title, table.frame.height, rule="MVC501", explanation=mend))
    return None, "", found


def _from_names(names: pl.Series, pattern: str) -> pl.Series:
    try:
        return patients_from(names, pattern)
    except SplitError as error:
        raise AuditError(str(error)) from None


def _fitting(names: pl.Series) -> str:
    return pattern_that_fits(names)


def _word(column: str, otherwise: str) -> str:
    return WORDS.get(words.key(column), otherwise)


def _checked(
    patient: pl.Series, unit: pl.Series | None, name: str, where: str, *, own: bool
) -> tuple[pl.Series | None, list[Finding]]:
    """Patients without words that are none; None where the column groups nothing."""
    frame = {"patient": patient.cast(pl.String)} | ({} if unit is None or own else {"image": unit})
    seen = real_patients(pl.DataFrame(frame), repr(name))
    found = [
        Finding(Level.WARNING, one.code, f"{where}: {one.title}", one.count, one.samples)
        for one in seen.findings
        if not (own and one.code in ("patient-unique", "patient-equals-image"))
    ]
    usable = seen.usable or (own and any(one.code == "patient-equals-image" for one in seen.findings))
    return (seen.column if usable else None), found


def _tcga_sites(
    table: Table, cluster: pl.Series | None, unit: pl.Series | None
) -> tuple[pl.Series | None, list[Finding]]:
    """Tissue-source sites from TCGA barcodes, where all are such."""
    for names in (cluster, unit):
        if names is None:
            continue
        known = names.drop_nulls()
        if len(known) and bool(spread(known, TRIED).str.contains(TCGA).all()) and bool(known.str.contains(TCGA).all()):
            sites = names.str.extract(TCGA, 1)
            title = f"{table.loaded.name}: sites are the tissue-source sites of TCGA barcodes (characters 6 and 7)"
            return sites, [Finding(Level.NOTE, "sites-from-tcga", title, sites.n_unique())]
    return None, []


def codes_of(
    series: Sequence[pl.Series | None],
) -> tuple[list[np.ndarray[tuple[int], np.dtype[np.int64]] | None], pl.Series]:
    """Codes of several columns of texts into one list of names, in order of code points."""
    from splits.units import coded

    given = [one.cast(pl.String).rename("name") for one in series if one is not None]
    if not given:
        return [None] * len(series), pl.Series("name", [], dtype=pl.String)
    whole = coded(pl.concat(given) if len(given) > 1 else given[0])
    out: list[np.ndarray[tuple[int], np.dtype[np.int64]] | None] = []
    start = 0
    for one in series:
        if one is None:
            out.append(None)
            continue
        out.append(whole.codes[start : start + len(one)])
        start += len(one)
    return out, whole.names
