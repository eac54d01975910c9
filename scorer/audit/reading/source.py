"""A file or a member of an archive on its way to a table, and the bounds on what is read."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, NoReturn

from protocol.findings import plain
from scorer.audit.shapes import AuditError
from splits.errors import SplitError
from splits.files import no_pipe

MAX_BYTES = 4 << 30  # of a file, as it is or unpacked
MAX_CELLS = 250_000_000
MAX_COLUMNS = 20_000
FREE_BYTES, MAX_RATIO = 64 << 20, 200  # what is unpacked beyond the first may be that many times its packed size
CHUNK = 1 << 20


@dataclass(frozen=True)
class Source:
    """Bytes to read. ``content`` holds them (a temporary copy, where they came out of an archive); ``name`` is what
    people know them by, ``file`` the bare file name that tells a form and facts, ``origin`` the file that was named.
    ``sha256`` is of the bytes as stored: of the file named, or of the unpacked member of an archive.
    """

    content: Path
    name: str
    file: str
    origin: Path
    encoding: str
    sha256: str
    notes: tuple[str, ...] = ()

    @property
    def suffix(self) -> str:
        """The last suffix of the file name, in lower case."""
        return Path(self.file).suffix.lower()

    def noted(self, *notes: str) -> "Source":
        """The same with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def head(self, count: int = 1 << 16) -> bytes:
        """The first bytes."""
        try:
            with self.content.open("rb") as file:
                return file.read(count)
        except OSError as error:
            self.refuse(f"can't be read ({error.strerror})")

    def size(self) -> int:
        """Bytes to read."""
        return self.content.stat().st_size

    def refuse(self, said: str) -> NoReturn:
        """AuditError about this file; ``said`` follows its name."""
        raise AuditError(f"{plain(self.name, 300)}: {plain(said, 900)}")

    @contextmanager
    def named(self, more: str = "") -> Iterator[None]:
        """SplitError from reading ``content`` becomes AuditError under the name that people know."""
        try:
            yield
        except SplitError as error:
            said = str(error).replace(str(self.content), self.name)
            raise AuditError(plain(said + more, 900)) from None


def opened(path: Path, encoding: str) -> Source:
    """The file ``path``; AuditError where there is none, or one that can't be read or is too large."""
    name = str(path)
    shown = plain(name, 300)
    try:
        no_pipe(path)
        if path.is_dir():
            raise AuditError(f"{shown} is a folder; name the files in it")
        if path.stat().st_size > MAX_BYTES:
            raise AuditError(f"{shown} has more than {MAX_BYTES >> 30} GiB; split it, or save it as Parquet")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except SplitError as error:
        raise AuditError(plain(error, 600)) from None
    except FileNotFoundError:
        raise AuditError(f"{shown}: no such file") from None
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise AuditError(f"{shown} can't be read ({plain(said)})") from None
    return Source(path, name, path.name, path, encoding, digest)


def copied(packed: IO[bytes] | gzip.GzipFile, target: Path, size: int, source: Source) -> str:
    """What ``packed`` gives, written to ``target``; the digest. AuditError beyond the bounds; ``size`` is packed."""
    done, digest = 0, hashlib.sha256()
    with target.open("wb") as file:
        while part := packed.read(CHUNK):
            done += len(part)
            if done > MAX_BYTES or (done > FREE_BYTES and done > MAX_RATIO * max(1, size)):
                source.refuse(
                    f"unpacks to far more than a table of its size would (over {done >> 20} MiB from {size} bytes); "
                    "if that is meant, unpack it yourself"
                )
            digest.update(part)
            file.write(part)
    return digest.hexdigest()


def gunzipped(source: Source, folder: Path) -> Source:
    """The content of a gzip file, in ``folder``."""
    target = folder / "unpacked"
    try:
        with gzip.open(source.content, "rb") as packed:
            copied(packed, target, source.size(), source)
    except (OSError, EOFError, zlib.error) as error:
        source.refuse(f"a damaged gzip file, or no room to unpack it ({error})")
    file = source.file[:-3] if source.suffix == ".gz" else source.file
    return replace(source, content=target, file=file)
