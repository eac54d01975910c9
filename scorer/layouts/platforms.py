"""The layouts: where each platform mounts what, and which files it reads back.

Paths are those of the platforms' own sources: grand-challenge.org (evaluation containers), Codabench
(compute_worker), MedPerf (container_config of a metrics container); EvalAI's remote worker starts this container
itself, so its folders are ours.
"""

from collections.abc import Callable
from dataclasses import dataclass

from protocol.task import Task
from scorer.hosted import SCORES_FILE, SIGNED_FILE, VERDICT_FILE, HostedScore
from scorer.layouts.documents import as_json, flat, nested, verdict_of
from scorer.layouts.page import page


@dataclass(frozen=True)
class Layout:
    """A platform: folders below the root, and the files that it reads.

    ``labels`` holds truth.parquet, task.yaml and maybe host.key, and its presence is what tells platforms apart.
    ``files`` are all names that may be written to ``output``, and ``made`` makes those of one outcome.
    ``sidecars`` are put beside a submission by the platform itself. ``stderr_is_private``: participants see its last
    line at most, so that the log of the host may go there. ``brings_files``: an empty submission is none of theirs.
    """

    name: str
    labels: str
    submission: str
    output: str
    files: tuple[str, ...]
    made: Callable[[Task, HostedScore], dict[str, bytes]]
    sidecars: frozenset[str] = frozenset()
    stderr_is_private: bool = False
    brings_files: bool = True


def _plain(task: Task, done: HostedScore) -> dict[str, bytes]:
    return dict(done.documents)


def _grand_challenge(task: Task, done: HostedScore) -> dict[str, bytes]:
    return {"metrics.json": as_json(nested(task, done))} if done.scores else {}


def _codabench(task: Task, done: HostedScore) -> dict[str, bytes]:
    files = {"detailed_results.html": page(task, done)}
    if SIGNED_FILE in done.documents:
        files[SIGNED_FILE] = done.documents[SIGNED_FILE]
    return {**files, SCORES_FILE: as_json(flat(done))} if done.scores else files


def _evalai(task: Task, done: HostedScore) -> dict[str, bytes]:
    files = {name: data for name, data in done.documents.items() if name != SCORES_FILE}
    result = [{"split": "test", "show_to_participant": True, "accuracies": flat(done)}] if done.scores else []
    return {"result.json": as_json(result), **files} if result else files


def _medperf(task: Task, done: HostedScore) -> dict[str, bytes]:
    import yaml

    document = nested(task, done) if done.scores else verdict_of(task, done)
    text = yaml.safe_dump(document, sort_keys=False, width=120)  # ASCII: some separators are read back as blanks
    return {"results.yaml": text.encode()}


LAYOUTS = (
    Layout("plain", "truth", "input", "output", (SCORES_FILE, SIGNED_FILE, VERDICT_FILE), _plain),
    Layout(
        "grand-challenge",
        "opt/ml/input/data/ground_truth",
        "input",
        "output",
        ("metrics.json",),
        _grand_challenge,
        sidecars=frozenset({"inputs.json"}),
        stderr_is_private=True,
    ),
    Layout(
        "codabench",
        "app/input/ref",
        "app/input/res",
        "app/output",
        ("detailed_results.html", SIGNED_FILE, SCORES_FILE),
        _codabench,
        sidecars=frozenset({"metadata"}),
    ),
    Layout(
        "evalai",
        "evalai/annotation",
        "evalai/submission",
        "evalai/output",
        ("result.json", SIGNED_FILE, VERDICT_FILE),
        _evalai,
    ),
    Layout(
        "medperf",
        "mlcommons/volumes/labels",
        "mlcommons/volumes/predictions",
        "mlcommons/volumes/results",
        ("results.yaml",),
        _medperf,
        stderr_is_private=True,
        brings_files=False,  # what a model container left there
    ),
)
