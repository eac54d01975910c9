"""From tables as read to evidence: roles, units, labels by id, and prediction sets on a scale that was told first."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

import polars as pl

from protocol.tables import PERSONAL_NAMES, bare
from scorer.audit.shapes import (
    Assigned,
    AuditError,
    Evidence,
    Finding,
    Level,
    Loaded,
    Names,
    PredictionSet,
    Role,
    Scale,
)
from scorer.audit.understanding.attaching import Rows, attach, codes_of
from scorer.audit.understanding.building import Builder, Codings
from scorer.audit.understanding.joining import SEPARATOR
from scorer.audit.understanding.order import chance_level, order_test
from scorer.audit.understanding.roles import find_roles
from scorer.audit.understanding.settling import Table, doubled, settle, wide
from scorer.audit.understanding.wishes import Wishes, need
from splits.errors import SplitError

MOST_NOTES = 30


def understand(predictions: Sequence[Loaded], labels: Loaded | None, splits: Loaded | None, wishes: Wishes) -> Evidence:
    """What the released tables hold. Raises :class:`AuditError` for what can't be used, with the mend."""
    if not predictions:
        raise AuditError("no file of predictions was given; name one at least")
    try:
        return _understand(predictions, labels, splits, wishes)
    except SplitError as error:
        raise AuditError(str(error)) from None


def _understand(
    predictions: Sequence[Loaded], labels: Loaded | None, splits: Loaded | None, wishes: Wishes
) -> Evidence:
    given = [one for one in (*predictions, labels, splits) if one is not None]
    need(wishes, given)
    for read in given:
        if not read.frame.height:
            raise AuditError(f"{read.name} has no rows; give the file with the rows")
    tables = [_table(one, wishes) for one in predictions]
    truth = None if labels is None else settle(labels, find_roles(labels, wishes, scored=False))
    parts = None if splits is None else settle(splits, find_roles(splits, wishes, scored=False))
    rows = [attach(one, truth, parts, wishes) for one in tables]
    names, codings = _coded(rows)
    found = [finding for one in rows for finding in one.findings]
    sets: list[PredictionSet] = []
    for one, coding, label in zip(rows, codings, _labels(predictions), strict=True):
        builder = Builder(one, coding, wishes, label, found)
        sets += builder.sets()
        found += doubled(one.table)
    sets = _apart(sets)
    found += [finding for read in given for finding in _personal(read)]
    found += _scales(sets)
    found += _orders(sets, rows)
    mapping = {one.table.loaded.name: one.table.roles.assigned for one in rows}
    for other in (truth, parts):
        if other is not None:
            mapping.setdefault(other.loaded.name, _used(other))
    return Evidence(
        sets=tuple(sets),
        names=names,
        unit=wishes.unit or _one_word([one.table.word for one in rows]) or _otherwise(rows),
        cluster=wishes.cluster or _one_word([one.word for one in rows]),
        mapping=mapping,
        sources=tuple(given),
        findings=_merged(found),
        ordered=any(one.ordered for one in rows),
        has_splits=splits is not None or any(one.listed for one in rows),
    )


def _table(loaded: Loaded, wishes: Wishes) -> Table:
    """A table of predictions, one row a unit (and run, and task)."""
    roles = find_roles(loaded, wishes)
    found = None if wishes.columns.get(Role.SCORE) else wide(loaded, roles)
    if found is not None:
        loaded = found[0]
        scores = found[1][0].columns
        roles = find_roles(loaded, replace(wishes, columns={**wishes.columns, Role.SCORE: scores}))
        kept = tuple(found[1][0] if one.role is Role.SCORE else one for one in roles.assigned)
        roles = replace(roles, assigned=kept)
    return settle(loaded, roles, said=wishes.unit)


def _used(table: Table) -> tuple[Assigned, ...]:
    return table.roles.assigned


def _coded(rows: Sequence[Rows]) -> tuple[Names, list[Codings]]:
    """Codes of units and the like that are the same in all tables."""
    unit, units = codes_of([_readable(one) for one in rows])
    cluster, clusters = codes_of([one.cluster for one in rows])
    site, sites = codes_of([one.site for one in rows])
    split, splits = codes_of([one.split for one in rows])
    fold, folds = codes_of([one.fold for one in rows])
    names = Names(
        units.rename("unit"), clusters.rename("cluster"), *(tuple(n.to_list()) for n in (sites, splits, folds))
    )
    return names, [Codings(*codes) for codes in zip(unit, cluster, site, split, fold, strict=True)]


def _readable(rows: Rows) -> pl.Series | None:
    if rows.unit is None or len(rows.table.unit) < 2:
        return rows.unit
    return rows.unit.str.replace_all(SEPARATOR, " / ", literal=True)


def _labels(tables: Sequence[Loaded]) -> list[str]:
    """A short name of each file, '' for a single one: its stem, with folders where stems agree."""
    if len(tables) == 1:
        return [""]
    paths = [PurePath(one.name.replace("\\", "/").replace(": ", "/")) for one in tables]
    stems = [[*path.parts[:-1], path.name.split(".")[0] or path.name] for path in paths]
    depth = 1
    most = max(map(len, stems))
    while depth < most and len({tuple(one[-depth:]) for one in stems}) < len(stems):
        depth += 1
    short = ["/".join(one[-depth:]) for one in stems]
    counts = Counter(short)
    return [one.name if counts[name] > 1 else name for one, name in zip(tables, short, strict=True)]


def _apart(sets: Sequence[PredictionSet]) -> list[PredictionSet]:
    """Sets whose titles differ: a number is added where they do not."""
    seen: Counter[str] = Counter()
    out = []
    for one in sets:
        seen[one.title] += 1
        count = seen[one.title]
        out.append(one if count == 1 else replace(one, name=f"{one.name} #{count}"))
    return out


def _personal(loaded: Loaded) -> list[Finding]:
    names = [name for name in loaded.frame.columns if bare(name) in PERSONAL_NAMES - {"name"}]
    if not names:
        return []
    title = f"{loaded.name}: columns are named like personal data; their values are not shown here"
    return [Finding(Level.WARNING, "personal-data", title, len(names), tuple(names), "MVC704")]


def _scales(sets: Sequence[PredictionSet]) -> list[Finding]:
    """What has no calibration, and what was changed to get probabilities; one finding a scale."""
    found = []
    for scale in Scale:
        own = [one for one in sets if one.scale.scale is scale and not one.scale.usable]
        if own:
            title = f"{own[0].title}: {scale}: {own[0].scale.why}"
            if len(own) > 1:
                title = f"{len(own)} of {len(sets)} sets are {scale}: {own[0].title}: {own[0].scale.why}"
            samples = tuple(one.title for one in own)
            found.append(Finding(Level.WARNING, "scale-not-usable", title, len(own), samples, "MVC401"))
        own = [one for one in sets if one.scale.scale is scale and one.scale.usable and one.scale.changed]
        if own:
            title = f"{own[0].title}: {own[0].scale.changed}"
            if len(own) > 1:
                title = f"{title} (and {len(own) - 1} other sets alike)"
            rule = "MVC402" if scale is Scale.PROBABILITIES else ""
            found.append(Finding(Level.NOTE, "scores-changed", title, len(own), tuple(one.title for one in own), rule))
    return found


def _orders(sets: Sequence[PredictionSet], rows: Sequence[Rows]) -> list[Finding]:
    """The test of row order where it was trusted, and sets at chance level where it was not needed."""
    ordered = {one.table.loaded.name for one in rows if one.ordered}
    tests = [order_test(one) for one in sets if one.source in ordered]
    found = tests if len(tests) <= 3 else _by_level(tests)
    low = [(one, note) for one in sets if one.source not in ordered and (note := chance_level(one)) is not None]
    if len(low) == 1:
        found.append(low[0][1])
    elif low:
        samples = tuple(note.title for _, note in low)
        title = f"{len(low)} of {len(sets)} sets are at chance level"
        first = low[0][1]
        found.append(replace(first, title=title, count=len(low), samples=samples, chance=""))
    return found


def _by_level(tests: Sequence[Finding]) -> list[Finding]:
    """One finding a level for many sets, which names some."""
    out = []
    for level in dict.fromkeys(one.level for one in tests):
        own = [one for one in tests if one.level is level]
        said = "are at chance level or can't be tested: the order of rows is probably wrong"
        said = said if level is Level.WARNING else "are above chance in this order of rows; ids would settle it"
        title = f"{len(own)} of {len(tests)} sets {said}"
        samples = tuple(one.title for one in own)
        out.append(replace(own[0], title=title, count=len(own), samples=samples, chance=""))
    return out


def _merged(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings without repeats; those of one code beyond :data:`MOST_NOTES` are counted in the last."""
    out: list[Finding] = []
    counts: Counter[str] = Counter()
    for one in dict.fromkeys(found):
        counts[one.code] += 1
        if counts[one.code] <= MOST_NOTES:
            out.append(one)
    for code, count in counts.items():
        if count > MOST_NOTES:
            k = max(i for i, one in enumerate(out) if one.code == code)
            out[k] = replace(out[k], title=f"{out[k].title} (and {count - MOST_NOTES:,} more of this kind)")
    return tuple(out)


def _one_word(words: Sequence[str]) -> str:
    known = list(dict.fromkeys(word for word in words if word))
    return known[0] if len(known) == 1 else ""


def _otherwise(rows: Sequence[Rows]) -> str:
    return "" if any(one.unit is not None for one in rows) else "row"
