"""State dicts from files, without running code that a file may hold, and models filled with them."""

import io
import pickle
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from submission.baseline.backbones.torchscript import read_archive, root_of
from submission.baseline.errors import BaselineError

State = dict[str, Tensor]
INNER = ("state_dict", "model_state_dict", "model")
# Not weights: sizes that OpenAI stores as tensors, masks and positions that a model makes itself.
NOISE = ("input_resolution", "context_length", "vocab_size", "attn_mask", "position_ids", "relative_position_index")
POINTER = b"version https://git-lfs"
SHOWN = 4
# What a pickle asks for that is not read, in torch's words and in those of the archive's reader.
FOREIGN = re.compile(r"(?:GLOBAL |archive asks for )([\w.]+)")
DAMAGED = (OSError, EOFError, RuntimeError, ValueError, KeyError, TypeError, AttributeError, IndexError)


def read_state(path: Path, member: str | None = None) -> State:
    """Tensors by name of a checkpoint: safetensors, a state dict saved by torch, or OpenAI's TorchScript archive.

    ``member``: the name of the checkpoint where ``path`` is a zip that may hold it. A dictionary around the state dict
    and a common prefix ``module.`` are removed. BaselineError where the file can't be read, or holds more than tensors.
    """
    try:
        found = _read(path, member)
    except MemoryError:
        raise BaselineError(f"{path}: too large for the memory of this machine") from None
    except pickle.UnpicklingError as error:
        asked = FOREIGN.search(str(error))
        if asked is None:
            raise BaselineError(f"{path} can't be read as weights: {_why(path, error)}") from None
        raise BaselineError(
            f"{path} holds more than tensors ({asked[1]}), which is not read, since it could run code: save its state "
            "dict alone, or as safetensors"
        ) from None
    except (*DAMAGED, SafetensorError, zipfile.BadZipFile) as error:
        raise BaselineError(f"{path} can't be read as weights: {_why(path, error)}") from None
    for key in INNER:
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
            break
    items = found.items() if isinstance(found, dict) else ()
    state = {str(name): value for name, value in items if isinstance(value, Tensor)}
    if not state:
        raise BaselineError(f"{path} holds no tensors by name: wanted the state dict of a model")
    if all(name.startswith("module.") for name in state):
        state = {name.removeprefix("module."): value for name, value in state.items()}
    return {name: value for name, value in state.items() if name.rpartition(".")[2] not in NOISE}


def _read(path: Path, member: str | None) -> Any:
    if path.suffix == ".safetensors":
        return load_file(path)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            inside = [name for name in archive.namelist() if member and Path(name).name == member]
            if inside and root_of(archive) is None:
                return torch.load(io.BytesIO(archive.read(inside[0])), map_location="cpu", weights_only=True)
        script = read_archive(path)
        if script is not None:
            return script
    return torch.load(path, map_location="cpu", weights_only=True)


def _why(path: Path, error: Exception) -> str:
    """What is wrong with a file that is no checkpoint."""
    try:
        with path.open("rb") as source:
            head = source.read(64)
        size = path.stat().st_size
    except OSError as inner:
        return f"{inner.strerror or inner}"
    if head.startswith(POINTER):
        return "it is a pointer of Git LFS: fetch the file itself (git lfs pull)"
    if head.lstrip().lower().startswith((b"<!doctype", b"<html")):
        return "it is a web page: download the file itself"
    words = " ".join(str(error).split())[:120]
    return f"{type(error).__name__}: {words} ({size:,} bytes: damaged or not whole?); download it anew"


def fill(model: nn.Module, state: State, name: str, path: Path, *, ignore: Iterable[str] = ()) -> None:
    """Copy ``state`` into ``model`` as float32, every tensor of it.

    ``ignore``: beginnings of names in ``state`` that the model has no use for. BaselineError that names a few of the
    tensors that are missing, left over, of another shape, or not finite.
    """
    own = model.state_dict()
    given = {key: value for key, value in state.items() if not key.startswith(tuple(ignore)) or key in own}
    missing = [key for key in own if key not in given and key.rpartition(".")[2] not in (*NOISE, "num_batches_tracked")]
    extra = [key for key in given if key not in own]
    shapes = [
        f"{key} {tuple(given[key].shape)}, wanted {tuple(value.shape)}"
        for key, value in own.items()
        if key in given and given[key].shape != value.shape and (given[key].numel(), value.numel()) != (1, 1)
    ]
    found = [("missing", missing), ("not of this model", extra), ("of another shape", shapes)]
    if any(keys for _, keys in found):
        seen = "; ".join(f"{words}: {_few(keys)}" for words, keys in found if keys)
        raise BaselineError(
            f"{path} does not fit {name}: {seen}. Take the released weights of {name}, or the right backbone"
        )
    broken = [key for key, value in given.items() if value.is_floating_point() and not bool(value.isfinite().all())]
    if broken:
        raise BaselineError(f"{path} holds values that are not finite: {_few(broken)}; download it anew")
    with torch.no_grad():
        for key, value in given.items():
            own[key].copy_(value.reshape(own[key].shape))


def _few(keys: list[str]) -> str:
    """The first few of ``keys``, and how many more there are."""
    more = len(keys) - SHOWN
    return ", ".join(keys[:SHOWN]) + (f" and {more} more" if more > 0 else "")
