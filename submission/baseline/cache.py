"""Image features of the frozen tower on disk: one stored view an epoch, and the still view of each image.

A view depends on seed, epoch and image alone, so learners and losses that are set side by side see the same ones, and
training on stored features is training on augmented images.
"""

import contextlib
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from protocol.canonical import digest_of
from protocol.findings import counted
from submission.baseline.backbones.base import Backbone
from submission.baseline.backbones.views import read_image, still, view
from submission.baseline.config import ViewsConfig
from submission.baseline.contents import Contents
from submission.baseline.data import Picture
from submission.baseline.errors import BaselineError
from submission.baseline.recipe import software
from submission.baseline.shards import FORMAT, OVERHEAD, Rows, read_shards, write_shard

Progress = Callable[[int, int], None]  # images done, images in all

STILL = "still"
SHARD = 1024  # images of a file, and the most that a killed run makes again; a multiple of the batch
MEMORY = 1 << 30  # bytes of decoded training images that are kept
MOST_THREADS = 16


class FeatureStore:
    """Features of ``backbone`` below the folder ``folder``, shared by all runs with the same weights and views.

    ``weights`` is the SHA-256 of the weights. Every row stands under a digest of all that its numbers depend on, the
    content of its image file among it, and every file holds a digest of itself: what is damaged or of something else is
    made again, what a killed run wrote is used. Images pass the tower in batches of exactly ``batch_size``.
    """

    def __init__(
        self,
        folder: Path,
        backbone: Backbone,
        weights: str,
        views: ViewsConfig,
        *,
        batch_size: int = 32,
        threads: int = 0,
        memory: int = MEMORY,
    ) -> None:
        self._backbone, self._views, self._batch = backbone, views, batch_size
        self._threads = threads or min(MOST_THREADS, len(os.sched_getaffinity(0)))
        self._contents = Contents(folder, self._threads)
        shared = {
            "format": FORMAT,
            "backbone": backbone.name,
            "weights": weights,
            "precision": backbone.precision,
            "device": hardware(backbone.device),
            "pixels": asdict(backbone.pixels),
            "batch": batch_size,
            "software": software(),
        }
        seen = {**shared, "views": views.model_dump(mode="json")}
        self._folders = {True: folder / digest_of(_listed(shared))[:16], False: folder / digest_of(_listed(seen))[:16]}
        self._folder = folder
        self._still = still(backbone.pixels)
        self._decoded: dict[str, Image.Image] = {}  # by key: a file that was replaced is read again
        self._memory, self._room, self._lock = memory, memory, threading.Lock()

    def of(self, pictures: Sequence[Picture], seed: int) -> "StoredViews":
        """The views of ``pictures``, in their order, as the training of ``seed`` sees them."""
        return StoredViews(self, tuple(pictures), seed)

    def bytes_for(self, pictures: Sequence[Picture], seed: int, epochs: int, *, still: bool = False) -> int:
        """Bytes that :meth:`fill` would still write for the views of ``epochs`` epochs (and the still view)."""
        return sum(len(missing) for _, missing in self._missing(pictures, seed, epochs, still)) * self._row

    def fill(
        self,
        pictures: Sequence[Picture],
        seed: int,
        epochs: int,
        *,
        still: bool = False,
        progress: Progress = lambda done, total: None,
    ) -> None:
        """Make what is missing of the views of ``epochs`` epochs (and the still view).

        ``progress`` hears of all views, those that were there included. Raises BaselineError for an image that can't be
        decoded or changes meanwhile, and for a disk that has no room.
        """
        missing = list(self._missing(pictures, seed, epochs, still))
        total = len(set(pictures)) * len(missing)
        done = total - sum(len(some) for _, some in missing)
        progress(done, total)
        self._need_room(sum(len(some) for _, some in missing) * self._row)
        for epoch, some in missing:
            for part in _cut(some, SHARD):
                self._make(part, self._keys(part), seed, epoch)
                done += len(part)
                progress(done, total)

    def contents(self, pictures: Sequence[Picture]) -> dict[str, str]:
        """SHA-256 of the file of each of ``pictures``, by image id."""
        found = self._contents.of([picture.path for picture in pictures])
        return {picture.image_id: found[picture.path] for picture in pictures}

    def decode(self, pictures: Sequence[Picture]) -> None:
        """Decode each of ``pictures`` once; BaselineError where one can't be."""
        keys = self._keys(pictures)
        with self._unchanged(pictures, keys), ThreadPoolExecutor(self._threads) as pool:
            for _ in pool.map(lambda picture: self._kept(picture, keys[picture]), pictures):
                pass

    def features(self, pictures: Sequence[Picture], seed: int, epoch: int | None) -> Tensor:
        """Normalised features (N, embed_width), float32, on the CPU; made now where they are not stored."""
        epoch = self._as(epoch)
        keys = self._keys(pictures)
        found = dict(self._stored(seed, epoch))
        missing = _distinct(picture for picture in pictures if keys[picture] not in found)
        if missing:
            self._need_room(len(missing) * self._row)
            for part in _cut(missing, SHARD):
                found.update(self._make(part, keys, seed, epoch))
        rows = [found[keys[picture]] for picture in pictures]
        width = self._backbone.embed_width
        return torch.from_numpy(np.stack(rows) if rows else np.empty((0, width), dtype=np.float32))

    def images(self, pictures: Sequence[Picture], seed: int, epoch: int | None) -> Tensor:
        """The views that the features are of, (N, 3, size, size), float32, on the CPU."""
        if not pictures:
            return torch.empty((0, 3, self._backbone.pixels.size, self._backbone.pixels.size))
        keys = self._keys(pictures)
        with self._unchanged(pictures, keys), ThreadPoolExecutor(self._threads) as pool:
            return torch.stack(
                list(pool.map(lambda picture: self._seen(picture, keys[picture], seed, epoch), pictures))
            )

    @property
    def _row(self) -> int:
        return 4 * self._backbone.embed_width + OVERHEAD

    def _as(self, epoch: int | None) -> int | None:
        """``epoch``, or None where all epochs see the still view."""
        return None if self._views.kind == "single" else epoch

    def _missing(
        self, pictures: Sequence[Picture], seed: int, epochs: int, still: bool
    ) -> Iterator[tuple[int | None, list[Picture]]]:
        """By view the pictures without features."""
        keys = self._keys(pictures)
        wanted = [None] if still else []
        for epoch in dict.fromkeys([*wanted, *map(self._as, range(epochs))]):
            found = self._stored(seed, epoch)
            yield epoch, _distinct(picture for picture in pictures if keys[picture] not in found)

    def _keys(self, pictures: Sequence[Picture]) -> dict[Picture, str]:
        """What a row stands under: a digest of the image's id and of the content of its file."""
        contents = self._contents.of([picture.path for picture in pictures])
        return {
            picture: hashlib.sha256(f"{picture.image_id}\0{contents[picture.path]}".encode()).hexdigest()
            for picture in pictures
        }

    @contextlib.contextmanager
    def _unchanged(self, pictures: Sequence[Picture], keys: Mapping[Picture, str]) -> Iterator[None]:
        """BaselineError where the block ends with other contents than ``keys`` are of: who knows which ones it read.

        What is decoded is forgotten then, since it may stand under the key of another content.
        """
        try:
            yield
            now = self._keys(pictures)
            if other := next((picture for picture in pictures if now[picture] != keys[picture]), None):
                raise BaselineError(
                    f"{_called(other)} changed while it was read; let nothing write there during a run, and give the "
                    "same command again"
                )
        except BaseException:
            with self._lock:
                self._decoded, self._room = {}, self._memory
            raise

    def _stored(self, seed: int, epoch: int | None) -> Mapping[str, Rows]:
        return read_shards(self._folders[epoch is None], _name(seed, epoch), self._backbone.embed_width)

    def _make(
        self, pictures: Sequence[Picture], keys: Mapping[Picture, str], seed: int, epoch: int | None
    ) -> dict[str, Rows]:
        """Compute the features of one file's pictures and store them under their ``keys``."""
        parts = []
        with self._unchanged(pictures, keys), ThreadPoolExecutor(self._threads) as pool:
            for count, images in self._batches(pool, pictures, keys, seed, epoch):
                found = self._backbone.encode_images(images.to(self._backbone.device))
                parts.append(found[:count].float().cpu().numpy())
        rows: Rows = np.concatenate(parts)
        if not np.isfinite(rows).all():
            bad = pictures[int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])]
            raise BaselineError(
                f"{bad.path} (image {bad.image_id}): the image tower gives numbers that are not finite; use precision "
                "fp32 and look at the weights"
            )
        try:
            write_shard(self._folders[epoch is None], _name(seed, epoch), [keys[p] for p in pictures], rows)
        except OSError as error:
            raise BaselineError(f"{self._folder} can't be written ({error.strerror}); name another --cache") from None
        return dict(zip((keys[picture] for picture in pictures), rows, strict=True))

    def _batches(
        self,
        pool: ThreadPoolExecutor,
        pictures: Sequence[Picture],
        keys: Mapping[Picture, str],
        seed: int,
        epoch: int | None,
    ) -> Iterator[tuple[int, Tensor]]:
        """(count, images) of each batch, the last one filled up.

        Kernels are chosen by the size of a batch, so with one size a row is the same, to rounding, whatever stands
        beside it. The next batch is decoded while one is used.
        """
        coming: list[list[Future[Tensor]]] = []
        groups = _cut(pictures, self._batch)
        try:
            for _ in range(2):
                if group := next(groups, None):
                    coming.append([pool.submit(self._seen, picture, keys[picture], seed, epoch) for picture in group])
            while coming:
                images = [future.result() for future in coming.pop(0)]
                if group := next(groups, None):
                    coming.append([pool.submit(self._seen, picture, keys[picture], seed, epoch) for picture in group])
                yield len(images), torch.stack([*images, *[images[-1]] * (self._batch - len(images))])
        finally:
            for futures in coming:
                for future in futures:
                    future.cancel()

    def _seen(self, picture: Picture, key: str, seed: int, epoch: int | None) -> Tensor:
        """One view (3, size, size)."""
        name = _called(picture)
        image = read_image(picture.path, name) if epoch is None else self._kept(picture, key)
        try:
            if epoch is None:
                return self._still(image)
            code = int.from_bytes(hashlib.sha256(picture.image_id.encode()).digest()[:8], "big")
            return view(image, self._backbone.pixels, self._views, (seed, epoch, code))
        except BaselineError as error:
            raise BaselineError(f"{name}: {error}") from None

    def _kept(self, picture: Picture, key: str) -> Image.Image:
        """The decoded image, from memory where it was kept."""
        image = self._decoded.get(key)
        if image is None:
            image = read_image(picture.path, _called(picture))
            size = 3 * image.width * image.height
            with self._lock:
                if size <= self._room and key not in self._decoded:
                    # kept for good: in a set that does not fit, the last used would push out the next needed
                    self._room -= size
                    self._decoded[key] = image
        return image

    def _need_room(self, wanted: int) -> None:
        """BaselineError where the disk has less than ``wanted`` bytes."""
        place = self._folder
        while not place.exists():
            place = place.parent
        free = shutil.disk_usage(place).free
        if wanted > free:
            raise BaselineError(
                f"the features need {wanted / 1e9:.1f} GB and {place} has {free / 1e9:.1f} GB left; name another "
                "--cache, or take views: kind: single (one view an image)"
            )


class StoredViews:
    """Images of one list as an epoch sees them, None being the still view; what a training loop reads."""

    def __init__(self, store: FeatureStore, pictures: tuple[Picture, ...], seed: int) -> None:
        self._store, self._pictures, self._seed = store, pictures, seed

    def features(self, epoch: int | None) -> Tensor:
        """Normalised features (N, embed_width), float32, on the CPU; made now where they are not stored."""
        return self._store.features(self._pictures, self._seed, epoch)

    def images(self, epoch: int | None, rows: Sequence[int]) -> Tensor:
        """The views that the features are of, (len(rows), 3, size, size), float32, on the CPU."""
        return self._store.images([self._pictures[row] for row in rows], self._seed, epoch)


def hardware(device: torch.device | str) -> str:
    """What the bits of a sum depend on: ``2 cpu threads (AVX2)``, or the name of a CUDA device."""
    kind = torch.device(device).type
    if kind == "cpu":
        return f"{counted(torch.get_num_threads(), 'cpu thread')} ({torch.backends.cpu.get_cpu_capability()})"
    return torch.cuda.get_device_name(device) if kind == "cuda" else kind


def _called(picture: Picture) -> str:
    return f"{picture.path} (image {picture.image_id})"


def _distinct(pictures: Iterator[Picture]) -> list[Picture]:
    """Each once, in order of image_id: the same files whatever the order of the list."""
    return sorted(set(pictures), key=lambda picture: picture.image_id)


def _name(seed: int, epoch: int | None) -> str:
    return STILL if epoch is None else f"seed{seed}-epoch{epoch:05d}"


def _listed(document: Mapping[str, object]) -> object:
    """Plain JSON data: tuples as lists."""
    return json.loads(json.dumps(document))


def _cut(pictures: Sequence[Picture], size: int) -> Iterator[Sequence[Picture]]:
    for start in range(0, len(pictures), size):
        yield pictures[start : start + size]
