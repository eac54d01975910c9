"""Column names: which submitted column is which of ours. Joined by name, never by position."""

import difflib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from protocol.facts import Problem
from protocol.findings import MAX_SAMPLES
from protocol.tables import OUTCOME_NAMES, PERSONAL_NAMES, PREDICTIONS_TEXT, SPLITS_OPTIONAL, bare, split_columns
from protocol.task import Task

# Names that pandas gives to an index, in Parquet and when a CSV is read back.
MAX_NAME = 200
MAX_FURTHER = 200  # columns beside the protocol's own
INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|")


@dataclass(frozen=True)
class Columns:
    """``source`` maps our column names onto submitted ones; ``spread`` is a list column that holds them all."""

    source: Mapping[str, str]
    extras: tuple[str, ...] = ()
    spread: str | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)


def colliding(names: Sequence[str], file: str) -> tuple[Problem, ...]:
    """Names that are equal, or equal when case and Unicode form are ignored."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(unicodedata.normalize("NFKC", name).casefold(), []).append(name)
    return tuple(
        Problem("duplicate-or-colliding-columns", f"{file}: {same[0]}", " and ".join(same), "one column", len(same))
        for same in groups.values()
        if len(same) > 1
    )


def too_many(names: Sequence[str], task: Task, file: str) -> tuple[Problem, ...]:
    """More columns than a table of ``task`` can have, or names that are too long to be compared."""
    most = 2 * len(task.classes) + MAX_FURTHER
    if len(names) > most:
        return (Problem("wrong-columns", file, f"{len(names)} columns", f"at most {most}"),)
    long = [name for name in names if len(name) > MAX_NAME]
    return tuple(
        Problem("wrong-columns", f"{file}: {name[:40]}…", f"a name of {len(name)} characters", f"at most {MAX_NAME}")
        for name in long[:MAX_SAMPLES]
    )


def at(file: str, index: int) -> str:
    """Where a row (from 0) stands: the line of a CSV file, whose first is the header, else the row from 1."""
    return f"line {index + 2}" if is_csv(file) else f"row {index + 1}"


def is_csv(file: str) -> bool:
    """True where the name says CSV."""
    return file.lower().endswith(".csv")


def kind_wanted(name: str, kind: str) -> str:
    """What a column is to hold, in words."""
    return "the class index, from 0, in the order of task.yaml" if name.startswith("label") else kind


def splits_columns(names: Sequence[str], task: Task, file: str, patient_ids: bool) -> Columns:
    """Resolve the columns of the split file; what is not ours is taken for a subgroup."""
    wanted = [n for n in split_columns(task) if patient_ids or n != "patient_id" or n in names]
    ours = [*wanted, *(name for name in SPLITS_OPTIONAL if name in names)]
    extras = [name for name in names if name not in ours]
    missing = [name for name in wanted if name not in names]
    problems = [*_missing(missing, extras, file), *_index(names, extras, file)]
    for name in [extra for extra in extras if not _is_plain(extra) and not INDEX.fullmatch(extra)]:
        problems.append(Problem("wrong-columns", f"{file}: {name}", "a column", "letters, digits and _ in the name"))
    extras = [name for name in extras if _is_plain(name) and not _like(name, missing)]
    return Columns({name: name for name in ours if name in names}, tuple(extras), None, tuple(problems))


def predictions_columns(names: Sequence[str], task: Task, file: str) -> Columns:
    """Resolve the columns of the predictions, in any of the accepted shapes."""
    fixed = [*PREDICTIONS_TEXT, "seed"]
    source = {name: name for name in (*fixed, "fold") if name in names}
    rest = [name for name in names if name not in source]
    found, spread, notes = _probabilities(rest, task)
    source |= found
    used = {*source.values(), *([spread] if spread else [])}
    logits = [f"z_{column.removeprefix('p_')}" for column in task.probability_columns]
    if all(name in rest for name in logits):
        source |= {name: name for name in logits}
        used |= set(logits)
    rest = [name for name in rest if name not in used]
    missing = [name for name in fixed if name not in names]
    problems = [*_missing(missing, rest, file), *_index(names, rest, file)]
    rest = [name for name in rest if not _like(name, missing) and not INDEX.fullmatch(name)]
    lacking = [] if spread else [name for name in task.probability_columns if name not in found]
    stray = [name for name in rest if _looks_like_probability(name)]
    if lacking and any(_near(name, lacking) for name in rest):
        near = [name for name in rest if _near(name, lacking)]
        problems += [Problem("wrong-columns", f"{file}: {name}", name, "the same name in lower case") for name in near]
    elif lacking or stray:
        given = sum(name in task.probability_columns for name in found) + len(stray)
        saw = f"{given} probability columns" + (f" ({', '.join(stray[:3])} among them)" if stray else "")
        wanted = f"{len(task.probability_columns)}: {', '.join(task.probability_columns)}"
        problems.append(Problem("class-count-differs", file, saw, wanted))
    for name in rest:
        owned = bare(name) in OUTCOME_NAMES or bare(name) in PERSONAL_NAMES
        if not (owned or name in stray or _near(name, lacking)):
            problems.append(Problem("wrong-columns", f"{file}: {name}", "a column", "no such column"))
    return Columns(source, (), spread, tuple(problems), tuple(notes))


def _probabilities(names: Sequence[str], task: Task) -> tuple[dict[str, str], str | None, list[str]]:
    """Our probability columns by any accepted name: p_<k>, p_<class name>, list column probs, or one column p."""
    ours = task.probability_columns
    found = {name: name for name in ours if name in names}
    if found or not names:
        return found, None, []
    classes = task.classes[1:] if task.kind == "binary" else task.classes
    named = {column: f"p_{label}" for column, label in zip(ours, classes, strict=True)}
    found = {column: name for column, name in named.items() if name in names}
    if found:
        shown = ", ".join(f"{name} as {column}" for column, name in found.items())
        return found, None, [f"probability columns were joined by class name: {shown}"]
    if "probs" in names:
        return {}, "probs", [f"the list column probs was read as {', '.join(ours)}"]
    if task.kind == "binary" and "p" in names:
        return {"p_1": "p"}, None, ["the column p was read as p_1"]
    return {}, None, []


def _missing(missing: Sequence[str], rest: Sequence[str], file: str) -> list[Problem]:
    problems = []
    for name in missing:
        near = [other for other in rest if _near(other, [name])] or [other for other in rest if _like(other, [name])]
        saw = f"no such column, but {near[0]}" if near else "no such column"
        problems.append(Problem("wrong-columns", f"{file}: {name}", saw, f"the column {name}"))
    return problems


def _index(names: Sequence[str], rest: Sequence[str], file: str) -> list[Problem]:
    """An index that pandas wrote as if it were a column."""
    return [
        Problem(
            "wrong-columns",
            f"{file}: {name or f'column {names.index(name) + 1}'}",
            "an index column" if name else "a column without a name",
            "no such column: write with index=False",
        )
        for name in rest
        if INDEX.fullmatch(name)
    ]


def _like(name: str, wanted: Sequence[str]) -> bool:
    """True where ``name`` may be meant for one of ``wanted``: image for image_id, models for model."""
    return any(_alike(bare(name), bare(other)) for other in wanted)


def _alike(name: str, other: str) -> bool:
    if re.findall(r"\d+", name) != re.findall(r"\d+", other):
        return False  # p_1 is not meant for p_10
    starts = min(len(name), len(other)) >= 4 and (name.startswith(other) or other.startswith(name))
    return starts or difflib.SequenceMatcher(None, name, other).ratio() >= 0.8


def _near(name: str, wanted: Sequence[str]) -> bool:
    return any(bare(name) == bare(other) for other in wanted)


def _looks_like_probability(name: str) -> bool:
    return name.casefold().startswith("p_") or name.casefold() in ("p", "probs", "prob", "probability")


def _is_plain(name: str) -> bool:
    return name.isascii() and name[:1].isalpha() and name.replace("_", "").isalnum() and len(name) <= 64
