"""The tensors of a TorchScript archive, read without running or compiling what else is in it.

OpenAI's CLIP files are such archives: a zip with ``data.pkl``, which pickles the modules, and a raw file a storage
under ``data/``. The unpickler here knows tensors, storages and plain containers alone; anything else is refused.
"""

import collections
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

DTYPES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}


class Held:
    """A module of the archive: its attributes, whatever its class was."""

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)


class Unpickler(pickle.Unpickler):
    """Reads ``data.pkl`` of ``archive``; pickle.UnpicklingError for every name that is no tensor, storage or module."""

    def __init__(self, archive: zipfile.ZipFile, root: str) -> None:
        super().__init__(archive.open(f"{root}/data.pkl"))
        self.archive, self.root = archive, root
        self.storages: dict[str, Tensor] = {}

    def find_class(self, module: str, name: str) -> Any:
        """The few names that such archives need."""
        if module.startswith("__torch__"):
            return Held
        if module == "torch" and name in DTYPES:
            return name
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return rebuilt
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch.jit._pickle":
            return first
        raise pickle.UnpicklingError(f"the archive asks for {module}.{name}")

    def persistent_load(self, pid: Any) -> Tensor:
        """A storage as a flat tensor."""
        kind, key = pid[1], str(pid[2])
        if pid[0] != "storage" or kind not in DTYPES:
            raise pickle.UnpicklingError("a storage of a kind that is not known")
        if key not in self.storages:
            raw = bytearray(self.archive.read(f"{self.root}/data/{key}"))
            self.storages[key] = torch.frombuffer(raw, dtype=DTYPES[kind]) if raw else torch.empty(0)
        return self.storages[key]


def rebuilt(storage: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object) -> Tensor:
    """A tensor on its storage."""
    return storage.as_strided(size, stride, offset).clone()


def first(value: Any, *_: object) -> Any:
    """The value that a typed list or dictionary of the archive wraps."""
    return value


def root_of(archive: zipfile.ZipFile) -> str | None:
    """The folder in ``archive`` that holds TorchScript's files, None where it is another kind of archive."""
    names = set(archive.namelist())
    for name in names:
        root, _, rest = name.partition("/")
        if rest == "constants.pkl" and f"{root}/data.pkl" in names:
            return root
    return None


def read_archive(path: Path) -> dict[str, Tensor] | None:
    """Tensors by dotted name; None where ``path`` is no TorchScript archive.

    Raises pickle.UnpicklingError, zipfile.BadZipFile, KeyError, RuntimeError or OSError for a damaged or foreign one.
    """
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        root = root_of(archive)
        if root is None:
            return None
        tensors: dict[str, Tensor] = {}
        pending: list[tuple[str, Any]] = [("", Unpickler(archive, root).load())]
        while pending:
            name, value = pending.pop()
            if isinstance(value, Tensor):
                tensors[name] = value
            elif isinstance(value, Held):
                pending += [(f"{name}.{key}" if name else key, inner) for key, inner in vars(value).items()]
        return tensors
