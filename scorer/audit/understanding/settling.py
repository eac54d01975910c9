"""What a row of a table is about: the unit, and the columns that tell several tasks in one file apart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from scorer.audit.shapes import Assigned, Finding, Level, Loaded, Role
from scorer.audit.understanding.joining import key_of, shown
from scorer.audit.understanding.roles import SIDE, Roles
from splits.checking import words

RUNS = (Role.MODEL, Role.SEED, Role.CALIBRATOR)
WITH_TASK = frozenset({"cohort", "dataset", "project", "cancer", "cancertype", "tumortype", "datasetname"})
MOST_TASKS = 200
CLASS_NAMES = frozenset(
    {"class", "classname", "classid", "label", "labelname", "category", "finding", "pathology", "disease", "classidx"}
)
WORDS = {
    "case": "case", "caseid": "case", "exam": "exam", "examid": "exam", "study": "study", "studyid": "study",
    "lesion": "lesion", "lesionid": "lesion", "slide": "slide", "slideid": "slide", "wsi": "slide", "eyeid": "eye",
    "breastid": "breast", "subject": "patient", "subjectid": "patient", "scan": "scan", "patch": "patch",
    "patchid": "patch", "tile": "tile", "tileid": "tile", "specimen": "specimen", "biopsy": "biopsy",
    "woundid": "wound",
}  # fmt: skip
SIDES = frozenset({"l", "r", "left", "right", "od", "os", "ou"})


@dataclass(frozen=True)
class Table:
    """A table with its roles: ``unit`` are the columns that name what a row is about (none: rows have no id),
    ``tasks`` those that tell tasks apart, ``word`` the unit in one word, or ''."""

    loaded: Loaded
    roles: Roles
    unit: tuple[str, ...]
    tasks: tuple[str, ...]
    word: str
    findings: tuple[Finding, ...] = ()

    @property
    def frame(self) -> pl.DataFrame:
        """The rows as read."""
        return self.loaded.frame


def settle(loaded: Loaded, roles: Roles, *, said: str = "") -> Table:
    """``loaded`` with its unit and tasks; ``said`` is the user's word for the unit."""
    frame = loaded.frame
    given = roles.of(Role.UNIT)
    base = given or roles.of(Role.PATIENT)[:1]
    told = any(one.role is Role.UNIT and one.by == "user" for one in roles.assigned)
    runs = tuple(name for role in RUNS for name in roles.of(role))
    tasks = roles.of(Role.TASK)
    if not base:
        return Table(loaded, roles, (), tasks, "")
    unit = base
    if not told and not _unique(frame, (*base, *runs, *tasks)):
        unit, roles = _with_sides(frame, roles, base, (*runs, *tasks))
    user_task = any(one.role is Role.TASK and one.by == "user" for one in roles.assigned)
    if not user_task:
        roles = _tasks(frame, roles, (*unit, *runs))
        tasks = roles.of(Role.TASK)
    if not given:
        why = "a row is about a patient" + (" and a side" if len(unit) > 1 else ", no column names images")
        extra = tuple(name for name in unit if name not in base)
        if extra:
            roles = roles.moved(extra, Role.UNIT, f"with {', '.join(base)} it names what a row is about: {why}")
    return Table(loaded, roles, unit, tasks, said or _word(loaded, roles, unit, given))


def _unique(frame: pl.DataFrame, columns: Sequence[str]) -> bool:
    """Whether no two rows have all of ``columns`` in common; rows without an id are not looked at."""
    key = key_of(frame, tuple(dict.fromkeys(columns))).drop_nulls()
    return key.n_unique() == len(key)


def _distinct(frame: pl.DataFrame, columns: Sequence[str]) -> int:
    return key_of(frame, columns).n_unique()


def _with_sides(
    frame: pl.DataFrame, roles: Roles, base: tuple[str, ...], others: tuple[str, ...]
) -> tuple[tuple[str, ...], Roles]:
    """``base`` with the columns of side or view that tell its repeats apart."""
    sides = [
        name
        for name in roles.of(Role.OTHER)
        if roles.looks[name].key in SIDE and 0 < roles.looks[name].filled == frame.height
    ]
    before = _distinct(frame, (*base, *others))
    unit = base
    for name in sides:
        after = _distinct(frame, (*unit, name, *others))
        if after > before:
            unit, before = (*unit, name), after
    extra = tuple(name for name in unit if name not in base)
    return unit, roles.moved(extra, Role.UNIT, f"tells rows of one {base[0]} apart") if extra else roles


def _tasks(frame: pl.DataFrame, roles: Roles, key: tuple[str, ...]) -> Roles:
    """Roles with the task columns that content asks for: those that tell rows of one unit apart."""
    named = roles.of(Role.TASK)
    if _unique(frame, key):
        return roles.moved(named, Role.OTHER, "ids do not repeat, so it tells no tasks apart") if named else roles
    chosen = list(named)
    if not named:
        free = [*roles.of(Role.OTHER), *roles.of(Role.SITE)]
        looks = [roles.looks[name] for name in free]
        few = [one for one in looks if not one.numeric and 1 < one.distinct <= MOST_TASKS and one.filled == one.rows]
        before = _distinct(frame, key)
        ranked = sorted(((_distinct(frame, (*key, one.name)), one.name) for one in few), reverse=True)
        if not ranked or ranked[0][0] == before or not _unique(frame, (*key, ranked[0][1])):
            return roles
        chosen = [ranked[0][1]]
    chosen += [
        name
        for name in (*roles.of(Role.SITE), *roles.of(Role.OTHER))
        if name not in chosen and roles.looks[name].key in WITH_TASK and 1 < roles.looks[name].distinct <= MOST_TASKS
    ]
    chosen.sort(key=frame.columns.index)
    return roles.moved(chosen, Role.TASK, "ids repeat, and this tells their rows apart: several tasks in one file")


def _word(loaded: Loaded, roles: Roles, unit: tuple[str, ...], given: tuple[str, ...]) -> str:
    """What a row is about in one word."""
    keys = [roles.looks[name].key for name in unit if name in roles.looks]
    sides = [name for name in unit if roles.looks[name].key in SIDE]
    if sides:
        return _side_word(loaded, sides)
    names = loaded.frame[unit[0]].drop_nulls().head(1_000)
    if names.dtype == pl.String and bool(names.str.contains(r"(?i)^\w+_(left|right)(?:\.\w+)?$").all()) and len(names):
        return "eye"
    if not given:
        return WORDS.get(keys[0], "patient")
    for key in keys:
        if key in WORDS:
            return WORDS[key]
    if any(key in words.IMAGE or roles.looks[unit[0]].files for key in keys):
        return "image"
    return ""


def _side_word(loaded: Loaded, sides: Sequence[str]) -> str:
    key = words.key(sides[0])
    if key in ("eye", "breast"):
        return key
    values = {str(value).casefold() for value in loaded.frame[sides[0]].drop_nulls().unique().head(20).to_list()}
    if not values <= SIDES:
        return "image"
    text = f"{loaded.name} {' '.join(loaded.frame.columns)}".casefold()
    if any(word in text for word in ("mammo", "breast", "gmic", "ddsm", "inbreast", "cbis")):
        return "breast"
    return "eye" if any(word in text for word in ("retin", "fundus", "eye", "dr_grade", "oct")) else "side"


def doubled(table: Table) -> list[Finding]:
    """A finding where a unit has several rows in one run of one task (rule MVC405)."""
    if not table.unit:
        return []
    runs = tuple(name for role in RUNS for name in table.roles.of(role))
    key = key_of(table.frame, (*table.unit, *runs, *table.tasks))
    known = key.drop_nulls()
    rows = len(known) - known.n_unique()
    if not rows:
        return []
    counts = known.filter(known.is_duplicated())
    names = counts.unique().sort()
    title = f"{table.loaded.name}: {len(names):,} ids have {len(counts):,} rows in one run; each id is to have one"
    samples = tuple(shown(one) for one in names.head(10).to_list())
    mend = "several fold models, views, or a file put together twice; --map model, seed, task or unit tells them apart"
    return [Finding(Level.WARNING, "ids-repeated", title, len(counts), samples, "MVC405", explanation=mend)]


def wide(loaded: Loaded, roles: Roles) -> tuple[Loaded, tuple[Assigned, ...]] | None:
    """A table with one row a unit and class, turned into one with a column a class; None where it is no such table.

    It is one where each unit has all K classes once, and the scores of each unit sum to one.
    """
    scores, unit = roles.of(Role.SCORE), roles.of(Role.UNIT) or roles.of(Role.PATIENT)
    if len(scores) != 1 or not unit:
        return None
    frame = loaded.frame
    runs = tuple(name for role in RUNS for name in roles.of(role))
    named = [name for name, one in roles.looks.items() if one.key in CLASS_NAMES and 2 <= one.distinct <= MOST_TASKS]
    for column in named:
        if column in (*unit, *runs) or frame[column].null_count():
            continue
        kinds = frame[column].unique().sort()
        k, key = len(kinds), (*unit, *runs)
        if frame.height % k or frame.height != _distinct(frame, key) * k or not _unique(frame, (*key, column)):
            continue
        sums = frame.group_by(key).agg(pl.col(scores[0]).cast(pl.Float64, strict=False).sum().alias("sum"))["sum"]
        if float(np.abs(sums.to_numpy() - 1).max()) > 0.05:
            continue
        rest = [name for name in frame.columns if name not in (column, scores[0])]
        inside = [name for name in rest if name in key or _constant_inside(frame, key, name)]
        table = frame.pivot(column, index=inside, values=scores[0], aggregate_function=None)
        new = tuple(f"{scores[0]}_{kind}" for kind in kinds.to_list())
        table = table.rename(dict(zip(map(str, kinds.to_list()), new, strict=True)))
        precision = loaded.precision.get(scores[0], "float64")
        note = f"one row a class in column {column!r}: turned into {k} columns"
        kept = {name: how for name, how in loaded.precision.items() if name in inside}
        return (
            replace(loaded, frame=table, precision=kept | dict.fromkeys(new, precision), notes=(*loaded.notes, note)),
            (Assigned(Role.SCORE, new, "content", note),),
        )
    return None


def _constant_inside(frame: pl.DataFrame, key: Sequence[str], name: str) -> bool:
    return _distinct(frame.fill_null(""), (*key, name)) == _distinct(frame, key)
