"""The host's own ``task.yaml``, and the error for host files that don't fit each other."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from protocol.task import Task
from scorer.signing import MAX_KEY, KeyFileError, load_key
from submission.yaml_io import MAX_BYTES, parse_record

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


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
    task, problems = parse_record(TypeAdapter(Task), data, path.name)
    if task is None:
        raise HostError(*(f"{p.where}: {p.saw}, wanted {p.wanted}" for p in problems))
    return task


def host_key_of(task: Task) -> str:
    """The public key under which the task's host signs; HostError where the task names none."""
    if task.host_key is None:
        raise HostError(f"the task {task.name} names no host key: nothing can be signed or verified for it")
    return task.host_key


def load_host_key(path: Path, *, any_mode: bool = False) -> "Ed25519PrivateKey":
    """The private key of a host at ``path``; KeyFileError, which says so where it is the public one."""
    try:
        # looked at before its mode: others may well read a public key
        if os.path.isfile(path):
            with path.open("rb") as source:
                if b"BEGIN PUBLIC KEY" in source.read(MAX_KEY):
                    raise KeyFileError(f"{path}: this is the public key; give the private one, host.key")
    except OSError:
        pass  # what can't be read is named below
    return load_key(path, any_mode=any_mode)
