"""The image files themselves: digests of their bytes, and near duplicates by perceptual hashes."""

import hashlib
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from splits.checking.ids import SUFFIX
from splits.errors import SplitError

DISTANCE = 4  # bits of 64 by which the perceptual hashes of near duplicates differ at most
LARGEST_DISTANCE = 16
SECOND = 4  # more bits that the second hash may differ by
BITS = 64
FLAT = 2  # grey levels of 256 between the darkest and the brightest pixel of a blank image
FEW = 64  # files that are hashed without other processes
BATCH = 32
MOST_PAIRS = 20_000_000
READ, BLANK, NO_IMAGE, NO_FILE = range(4)

Item = TypeVar("Item")
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Located:
    """Where the listed images lie: the path of each name or '', and the names without a file or with several."""

    paths: tuple[str, ...]
    missing: tuple[str, ...]
    ambiguous: tuple[str, ...]


@dataclass(frozen=True)
class Hashes:
    """By image: SHA-256 in hex or '', the two perceptual hashes (uint64), and READ, BLANK, NO_IMAGE or NO_FILE."""

    sha256: tuple[str, ...]
    phash: NDArray[np.uint64]
    dhash: NDArray[np.uint64]
    state: NDArray[np.int8]


def locate(names: Sequence[str], folder: Path) -> Located:
    """The file of each name below ``folder``: by its path as written, by a path that ends so, by its base name or stem.

    Nothing outside ``folder`` is looked at. Raises SplitError where ``folder`` is none or holds no files.
    """
    if not folder.is_dir():
        raise SplitError(f"--images {folder} is no folder")
    by_path: dict[str, str] = {}
    by_name: dict[str, list[str]] = {}
    by_stem: dict[str, list[str]] = {}
    for root, folders, files in os.walk(folder):
        folders.sort()
        for file in sorted(files):
            whole = os.path.join(root, file)
            by_path[os.path.relpath(whole, folder).replace(os.sep, "/")] = whole
            by_name.setdefault(file, []).append(whole)
            by_stem.setdefault(SUFFIX.sub("", file), []).append(whole)
    if not by_path:
        raise SplitError(f"--images {folder} holds no files")
    paths, missing, ambiguous = [], [], []
    for name in names:
        path = name.replace("\\", "/").removeprefix("./")
        base = path.rsplit("/", 1)[-1]
        found = [by_path[path]] if path in by_path else by_name.get(base) or by_stem.get(base) or []
        if len(found) > 1:
            found = [whole for whole in found if whole.replace(os.sep, "/").endswith("/" + path)] or found
        paths.append(found[0] if len(found) == 1 else "")
        if not found:
            missing.append(name)
        elif len(found) > 1:
            ambiguous.append(name)
    return Located(tuple(paths), tuple(missing), tuple(ambiguous))


def hash_files(paths: Sequence[str], *, workers: int = 0, progress: Progress | None = None) -> Hashes:
    """Digest and perceptual hashes of each file; '' is no file.

    ``workers`` processes share the work (0: one a core). Raises SplitError where the libraries are not installed.
    """
    try:
        import imagehash  # noqa: F401
        from PIL import Image  # noqa: F401
    except ImportError:
        raise SplitError("--images needs ImageHash and Pillow; install them: pip install 'mvc-kit[data]'") from None
    wanted = [path for path in paths if path]
    results: dict[str, tuple[str, int, int, int]] = {}
    distinct = list(dict.fromkeys(wanted))
    for batch in _hashed(distinct, workers or len(os.sched_getaffinity(0))):
        results.update(batch)
        if progress is not None:
            progress(len(results), len(distinct))
    rows = [results.get(path, ("", 0, 0, NO_FILE)) for path in paths]
    return Hashes(
        tuple(row[0] for row in rows),
        np.array([row[1] for row in rows], dtype=np.uint64),
        np.array([row[2] for row in rows], dtype=np.uint64),
        np.array([row[3] for row in rows], dtype=np.int8),
    )


def _hashed(paths: Sequence[str], workers: int) -> Iterator[dict[str, tuple[str, int, int, int]]]:
    if len(paths) <= FEW or workers == 1:
        yield from map(_hash_batch, _batched(paths, BATCH))
        return
    # a forked copy of a process with threads can stand still for ever
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        try:
            yield from _bounded(pool, _batched(paths, BATCH), 4 * workers)
        except BrokenProcessPool:
            raise SplitError(
                "a process that hashed images was killed (memory?); free some, or take --workers 1"
            ) from None


def _bounded(
    pool: ProcessPoolExecutor, batches: Iterable[tuple[str, ...]], most: int
) -> Iterator[dict[str, tuple[str, int, int, int]]]:
    for some in _batched(batches, most):
        yield from pool.map(_hash_batch, some)


def _batched(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    whole = iter(items)
    while some := tuple(islice(whole, size)):
        yield some


def _hash_batch(paths: Sequence[str]) -> dict[str, tuple[str, int, int, int]]:
    return {path: _hash_one(path) for path in paths}


def _hash_one(path: str) -> tuple[str, int, int, int]:
    from PIL import Image

    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with Image.open(file) as image:
                    return digest, *_perceptual(image)
    except OSError as error:
        # Pillow's own errors of what is no image are OSErrors without a number
        return ("", 0, 0, NO_FILE) if error.errno else (digest, 0, 0, NO_IMAGE)
    except Exception:  # a damaged image raises what it likes in its decoder
        return digest, 0, 0, NO_IMAGE


def _perceptual(image: Any) -> tuple[int, int, int]:
    import imagehash

    image.draft("L", (256, 256))  # JPEG alone: decoded at a fraction of its size
    grey = _grey(image)
    low, high = grey.getextrema()
    if high - low <= FLAT:
        return 0, 0, BLANK
    return _number(imagehash.phash(grey)), _number(imagehash.dhash(grey)), READ


def _grey(image: Any) -> Any:
    """8-bit grey; what has more than 8 bits is scaled by its own range, which a plain conversion would clip."""
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        values = np.asarray(image, dtype=np.float64)
        values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
        low, high = float(values.min()), float(values.max())
        scaled = (values - low) * (255.0 / (high - low)) if high > low else np.zeros_like(values)
        return Image.fromarray(scaled.astype(np.uint8))
    return image.convert("L")


def _number(code: Any) -> int:
    return int.from_bytes(np.packbits(np.asarray(code.hash, dtype=bool).ravel()).tobytes(), "big")


def near_groups(hashes: Hashes, distance: int = DISTANCE) -> NDArray[np.int64]:
    """The group of near duplicates that each image is in (its own where it is alone), or -1: blank or unread.

    Two images are near when their 64-bit phash differs in at most ``distance`` bits and their dhash in at most
    ``distance`` + 4 bits; a group is what hangs together by such pairs. Raises SplitError for more than 20 million
    pairs.
    """
    groups = np.full(len(hashes.state), -1, dtype=np.int64)
    read = np.flatnonzero(hashes.state == READ)
    if not len(read):
        return groups
    both = np.stack([hashes.phash[read], hashes.dhash[read]], axis=1)
    codes, which = np.unique(both, axis=0, return_inverse=True)
    which = which.reshape(-1)
    first, second = near_pairs(codes[:, 0], codes[:, 1], distance)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=(len(codes), len(codes)))
    _, component = connected_components(graph, directed=False)
    groups[read] = component[which]
    return groups


def near_pairs(
    phash: NDArray[np.uint64], dhash: NDArray[np.uint64], distance: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index pairs (i < j) of codes within ``distance`` bits by the first and ``distance`` + 4 by the second.

    By the pigeonhole principle two codes that differ in d bits agree in one of d + 1 parts of theirs, so only
    codes with an equal part are compared; where that would be more pairs than there are, all are compared.
    """
    count = len(phash)
    ends = np.linspace(0, BITS, distance + 2).astype(int)
    pieces = [(phash >> np.uint64(low)) & np.uint64((1 << int(high - low)) - 1) for low, high in pairwise(ends)]
    work = sum(int((n * (n - 1) // 2).sum()) for n in (np.unique(piece, return_counts=True)[1] for piece in pieces))
    if work > count * (count - 1) // 2:
        pieces = [np.zeros(count, dtype=np.uint64)]
    found = np.unique(np.concatenate([_pairs_in(piece, phash, dhash, distance) for piece in pieces]))
    return found // count, found % count


def _pairs_in(
    piece: NDArray[np.uint64], phash: NDArray[np.uint64], dhash: NDArray[np.uint64], distance: int
) -> NDArray[np.int64]:
    """Near pairs (i, j) as i * count + j among codes with an equal ``piece``."""
    count = len(piece)
    order = np.argsort(piece, kind="stable")
    ordered, first, second = piece[order], phash[order], dhash[order]
    end = np.searchsorted(ordered, ordered, side="right")
    at = np.arange(count)
    found, total = [np.zeros(0, dtype=np.int64)], 0
    for step in range(1, count):
        at = at[at + step < end[at]]
        if not len(at):
            break
        near = at[np.bitwise_count(first[at] ^ first[at + step]) <= distance]
        near = near[np.bitwise_count(second[near] ^ second[near + step]) <= distance + SECOND]
        if len(near):
            one, two = order[near], order[near + step]
            found.append(np.minimum(one, two) * count + np.maximum(one, two))
            total += len(near)
            if total > MOST_PAIRS:
                raise SplitError(
                    f"more than {MOST_PAIRS:,} pairs of images are near duplicates at --distance {distance}; "
                    "take a smaller one"
                )
    return np.concatenate(found)


def columns_of(names: pl.Series, located: Located, hashes: Hashes, groups: NDArray[np.int64]) -> pl.DataFrame:
    """image, hash and near (null = unknown): blank images have neither."""
    known = [
        digest if digest and state != BLANK else None for digest, state in zip(hashes.sha256, hashes.state, strict=True)
    ]
    near = pl.Series("near", groups).to_frame().select(pl.when(pl.col("near") >= 0).then(pl.col("near"))).to_series()
    return pl.DataFrame({"image": names, "hash": pl.Series(known, dtype=pl.String), "near": near})
