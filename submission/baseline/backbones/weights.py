"""Where weights are: a local file or folder, or a model hub, which is asked only when no path is given."""

import hashlib
import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submission.baseline.errors import BaselineError
from submission.files import sha256_file

# In the order in which one of them is taken.
CHECKPOINTS = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
    "model.safetensors",
    "pytorch_model.bin",
)
SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".zip")
HUB_ID = re.compile(r"(?:hf-hub:|https://huggingface\.co/)?([\w.-]+/[\w.-]+?)(?:@([\w.-]+))?/?")
SECONDS = 5


@dataclass(frozen=True)
class Release:
    """A backbone as released: ``hub`` id or None, ``get`` what to download from where, ``extras`` files beside it."""

    name: str
    hub: str | None
    get: str
    trained_on: str
    extras: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """A checkpoint on this machine, the files beside it by name, and the words that say where it is from."""

    path: Path
    extras: dict[str, Path]
    source: str

    @property
    def sha256(self) -> str:
        """SHA-256 of the checkpoint; with files beside it, of the lines "digest  name" of all, in order of names."""
        digests = {path.name: sha256_file(path) for path in (self.path, *self.extras.values())}
        if len(digests) == 1:
            return digests[self.path.name]
        lines = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))
        return hashlib.sha256(lines.encode()).hexdigest()


def find(release: Release, weights: str | None) -> Found:
    """The weights of ``release``: ``weights`` is a path or a hub id, None the usual hub id.

    A path is never looked up elsewhere. BaselineError that says what to download from where and how to point at it.
    """
    if weights is None:
        if release.hub is None:
            raise BaselineError(f"{release.name}: its weights are on no model hub. {mend(release)}")
        return from_hub(release, release.hub, None)
    path = Path(weights).expanduser()
    try:
        if path.is_dir():
            return in_folder(release, path)
        if path.is_file():
            return Found(path, _beside(path.parent, release.extras), f"file {path.name}")
    except OSError as error:
        raise BaselineError(f"{release.name}: {path} can't be read ({error.strerror}). {mend(release)}") from None
    hub = HUB_ID.fullmatch(weights)
    if not hub or path.suffix in SUFFIXES:
        raise BaselineError(f"{release.name}: {weights!r} is no file or folder here. {mend(release)}")
    try:
        return from_hub(release, hub[1], hub[2])
    except BaselineError as error:
        raise BaselineError(str(error).replace(hub[1], f"{hub[1]} (no path here)", 1)) from None


def mend(release: Release) -> str:
    """What to download from where, and how to point at it."""
    return (
        f"Download {release.get} where there is a network, copy it to this machine, and give its file or folder: "
        "--weights PATH, or weights under backbone in the configuration"
    )


def in_folder(release: Release, folder: Path) -> Found:
    """The checkpoint in ``folder``: one of the usual names, or the only file that can be one."""
    named = [folder / name for name in CHECKPOINTS if (folder / name).is_file()]
    others = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    if not named and len(others) != 1:
        seen = ", ".join(path.name for path in others[:4]) or "none"
        raise BaselineError(
            f"{release.name}: which file in {folder} holds the weights? Seen: {seen}; wanted one of "
            f"{', '.join(CHECKPOINTS)}, or a single other. {mend(release)}"
        )
    path = named[0] if named else others[0]
    return Found(path, _beside(folder, release.extras), f"file {path.name} of folder {folder.absolute().name}")


def _beside(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    return {name: folder / name for name in names if (folder / name).is_file()}


def from_hub(release: Release, hub: str, revision: str | None) -> Found:
    """The files of a hub id, from the cache of huggingface_hub or downloaded into it."""
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    online = reachable()

    def fetched(name: str) -> Path | None:
        try:
            got: Any = huggingface_hub.hf_hub_download(hub, name, revision=revision, local_files_only=not online)
            return Path(got)
        except LocalEntryNotFoundError:
            if online:
                raise
            return None
        except EntryNotFoundError:
            return None

    try:
        path = next((path for path in map(fetched, CHECKPOINTS) if path), None)
        extras = {name: found for name in release.extras if path and (found := fetched(name))}
    except Exception as error:  # errors of the hub, of its client and of the network under it
        words = " ".join(str(error).split())[:200]
        raise BaselineError(f"{release.name}: {hub} can't be fetched ({words}). {mend(release)}") from None
    if path is None and online:
        raise BaselineError(f"{release.name}: {hub} holds none of {', '.join(CHECKPOINTS)}. {mend(release)}")
    if path is None:
        why = "HF_HUB_OFFLINE is set" if huggingface_hub.constants.HF_HUB_OFFLINE else "the hub can't be reached"
        raise BaselineError(f"{release.name}: {hub} is not in the cache of this machine, and {why}. {mend(release)}")
    commit = path.parent.name
    return Found(path, extras, f"{hub}@{commit[:12]}, {path.name}")


def reachable() -> bool:
    """Whether the hub answers within seconds; its client alone would try again for half a minute."""
    from huggingface_hub import constants, utils

    client: Any = utils
    if constants.HF_HUB_OFFLINE:
        return False
    log = logging.getLogger("huggingface_hub")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        client.get_session().head(constants.ENDPOINT, timeout=SECONDS)
    except Exception:  # whatever the client beneath raises: it is not there
        return False
    finally:
        log.setLevel(level)
    return True
