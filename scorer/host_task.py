"""The host's own ``task.yaml``, and the error for host files that don't fit each other."""

from pathlib import Path

from pydantic import TypeAdapter

from protocol.task import Task
from submission.yaml_io import MAX_BYTES, parse_record


class HostError(Exception):
    """The host's files are not in order; ``problems`` are for the host, each a sentence."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def read_task(path: Path) -> Task:
    """The host's ``task.yaml``; HostError with every problem in it, OSError as the file system does."""
    with path.open("rb") as source:
        data = source.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise HostError(f"{path.name}: more than {MAX_BYTES} bytes")
    task, problems = parse_record(TypeAdapter(Task), data, "task.yaml")
    if task is None:
        raise HostError(*(f"{p.where}: {p.saw}, wanted {p.wanted}" for p in problems))
    return task


def host_key_of(task: Task) -> str:
    """The public key under which the task's host signs; HostError where the task names none."""
    if task.host_key is None:
        raise HostError(f"the task {task.name} names no host key: nothing can be signed or verified for it")
    return task.host_key
