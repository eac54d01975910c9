"""Entries of ``calibrators.json`` that hold no map of the declared family: as good as missing (MVC310)."""

from collections.abc import Sequence

from protocol.calibrators import FittedCalibrator
from protocol.facts import Problem
from protocol.submission import Submission
from protocol.task import Task
from submission.recalibration.maps import UnusableMap, map_of


def unusable(task: Task, record: Submission, calibrators: Sequence[FittedCalibrator]) -> tuple[Problem, ...]:
    """A problem for each declared run whose entries can't be read as a map; runs without entries are not looked at."""
    families = {method.name: method.family for method in record.calibration.methods}
    runs: dict[tuple[str, int, str], list[FittedCalibrator]] = {}
    for entry in calibrators:
        runs.setdefault((entry.model, entry.seed, entry.calibrator), []).append(entry)
    found = []
    for run in record.runs:
        family, entries = families[run[2]], runs.get(run, [])
        if entries and family != "none" and (said := _wrong(task, family, entries)):
            where = f"model {run[0]}, seed {run[1]}, calibrator {run[2]}"
            found.append(Problem("parameters-missing", where, said, f"the parameters of a {family} map"))
    return tuple(found)


def _wrong(task: Task, family: str, entries: Sequence[FittedCalibrator]) -> str:
    """What is wrong with the entries of one run; '' where nothing is."""
    other = next((entry.family for entry in entries if entry.family != family), None)
    if other is not None:
        return f"family {other}"
    classes = [entry.class_index for entry in entries]
    twice = next((k for k in classes if classes.count(k) > 1), -1)
    if twice != -1:
        return f"two entries for class {'null' if twice is None else twice}"
    if family == "custom":
        return ""
    try:
        map_of(entries, task.kind, len(task.probability_columns))
    except UnusableMap as error:
        return str(error)
    return ""
