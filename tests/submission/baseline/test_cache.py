"""Stored features: those of the very views, shared, resumed, and never used when damaged."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from submission.baseline import cache, contents
from submission.baseline.backbones.base import Backbone
from submission.baseline.backbones.views import read_image
from submission.baseline.cache import FeatureStore
from submission.baseline.config import ViewsConfig
from submission.baseline.contents import Contents, Mark
from submission.baseline.data import Picture
from submission.baseline.errors import BaselineError
from tests.submission.baseline.hospital import picture
from tests.submission.baseline.tiny import tiny_vit

COUNT = 10
WEIGHTS = "a" * 64


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return tiny_vit()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> tuple[Picture, ...]:
    folder = tmp_path_factory.mktemp("images")
    return tuple(Picture(f"{n:02}" * 32, picture(folder / f"{n}.png", n, (40 + n, 36))) for n in range(COUNT))


@pytest.fixture
def store(tmp_path: Path, backbone: Backbone) -> FeatureStore:
    return store_in(tmp_path / "cache", backbone)


def store_in(folder: Path, backbone: Backbone, weights: str = WEIGHTS, **views: Any) -> FeatureStore:
    return FeatureStore(folder, backbone, weights, ViewsConfig(**views), batch_size=4, threads=2)


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.features"))}


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch, backbone: Backbone) -> Callable[[], None]:
    """Call it, and from then on nothing may pass the tower."""

    def tower(images: object) -> None:
        raise AssertionError("computed again")

    return lambda: monkeypatch.setattr(backbone, "encode_images", tower)


def test_features_are_those_of_the_views_in_the_order_asked_for(
    store: FeatureStore, backbone: Backbone, pictures: tuple[Picture, ...]
) -> None:
    own = store.of(pictures[::-1], 1)
    for epoch in (None, 0, 3):
        images = own.images(epoch, range(COUNT))
        assert images.shape == (COUNT, 3, 32, 32)
        found = own.features(epoch)
        assert found.dtype == torch.float32
        assert found.norm(dim=1).allclose(torch.ones(COUNT), atol=1e-6)
        assert torch.allclose(found, backbone.encode_images(images), atol=1e-6)
        assert torch.equal(own.images(epoch, [7, 2]), images[[7, 2]])
    assert torch.equal(own.features(3), store.of(pictures, 1).features(3).flip(0))
    assert store.of((), 1).features(None).shape == (0, 24)
    assert own.images(None, []).shape == (0, 3, 32, 32)


def test_views_differ_by_epoch_and_seed_alone(store: FeatureStore, pictures: tuple[Picture, ...]) -> None:
    first, second = store.of(pictures, 1), store.of(pictures, 2)
    seen = [first.features(None), first.features(0), first.features(1), second.features(0)]
    for place, one in enumerate(seen):
        for other in seen[place + 1 :]:
            assert (one - other).norm(dim=1).min() > 1e-4
    assert torch.equal(second.features(None), seen[0])
    assert torch.equal(store.of(pictures[3:5], 1).images(1, [0, 1]), first.images(1, [3, 4]))


def test_what_is_stored_is_not_made_again(
    tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...], closed: Callable[[], None]
) -> None:
    store = store_in(tmp_path, backbone)
    told: list[tuple[int, int]] = []
    assert store.bytes_for(pictures, 1, 2, still=True) > 3 * COUNT * 24 * 4
    store.fill(pictures, 1, 2, still=True, progress=lambda done, total: told.append((done, total)))
    assert told == [(0, 30), (10, 30), (20, 30), (30, 30)]
    made = [store.of(pictures, 1).features(epoch) for epoch in (None, 0, 1)]
    promised = store_in(tmp_path / "other", backbone).bytes_for(pictures, 1, 2, still=True)
    assert 0.7 * promised < sum(map(len, files(tmp_path).values())) < 1.5 * promised
    closed()
    again = store_in(tmp_path, backbone)
    assert again.bytes_for(pictures, 1, 2, still=True) == 0
    again.fill(pictures, 1, 2, still=True, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (30, 30)
    for epoch, one in zip((None, 0, 1), made, strict=True):
        assert torch.equal(again.of(pictures, 1).features(epoch), one)
    # other learners watch other images: theirs are among these
    assert torch.equal(again.of(pictures[2:4], 1).features(1), made[2][2:4])


def test_a_row_does_not_depend_on_the_others(tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...]) -> None:
    together = store_in(tmp_path / "together", backbone).of(pictures, 1).features(0)
    for place, one in enumerate(pictures):
        alone = store_in(tmp_path / "alone", backbone).of([one], 1).features(0)
        assert torch.allclose(alone[0], together[place], atol=1e-6)


def test_a_killed_run_goes_on_with_what_it_wrote(
    tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "SHARD", 4)
    whole = store_in(tmp_path / "whole", backbone)
    whole.fill(pictures, 1, 3)

    def kill(done: int, total: int) -> None:
        if done >= 14:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store_in(tmp_path / "killed", backbone).fill(pictures, 1, 3, progress=kill)
    before = files(tmp_path / "killed")
    assert len(before) == 4  # of 4, 4 and 2 images, then 4
    told: list[int] = []
    store_in(tmp_path / "killed", backbone).fill(pictures, 1, 3, progress=lambda done, total: told.append(done))
    assert told[0] == 14
    assert files(tmp_path / "killed") == files(tmp_path / "whole")
    assert before.items() <= files(tmp_path / "killed").items()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-4],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: b"",
        lambda data: data[:40],
        lambda data: data.replace(b'"width": 24', b'"width": 12'),
        lambda data: data[:60] + bytes([data[60] ^ 1]) + data[61:],
        lambda data: b"[1]\n" + data,
        lambda data: b"\xff\n" + data,
    ],
)
def test_damaged_files_are_noticed_and_made_again(
    tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...], damage: Callable[[bytes], bytes]
) -> None:
    store = store_in(tmp_path, backbone)
    good = store.of(pictures, 1).features(0)
    ((name, data),) = files(tmp_path).items()
    (tmp_path / name).write_bytes(damage(data))
    assert store.bytes_for(pictures, 1, 1) > 0
    assert torch.equal(store_in(tmp_path, backbone).of(pictures, 1).features(0), good)
    assert files(tmp_path) == {name: data}


def test_another_content_gives_other_features(
    tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...]
) -> None:
    path = Path(shutil.copy(pictures[0].path, tmp_path / "own.png"))
    own = (Picture("f" * 64, path),)
    store = store_in(tmp_path / "cache", backbone)
    first = store.of(own, 1).features(None)
    picture(path, 99, (40, 36))
    second = store.of(own, 1).features(None)
    assert not torch.allclose(first, second, atol=1e-4)
    shutil.copy(pictures[0].path, path)
    assert torch.equal(store_in(tmp_path / "cache", backbone).of(own, 1).features(None), first)


def test_a_file_that_is_replaced_is_decoded_again(
    tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...]
) -> None:
    path = Path(shutil.copy(pictures[0].path, tmp_path / "own.png"))
    own = (Picture("f" * 64, path), *pictures[1:3])
    store = store_in(tmp_path / "cache", backbone)
    store.fill(own, 1, 1)
    picture(path, 99, (40, 36))
    store.fill(own, 1, 2)
    other = store_in(tmp_path / "other", backbone)
    for epoch in (0, 1):
        stored = store_in(tmp_path / "cache", backbone).of(own, 1).features(epoch)
        assert torch.equal(store.of(own, 1).images(epoch, range(3)), other.of(own, 1).images(epoch, range(3)))
        assert torch.allclose(stored, other.of(own, 1).features(epoch), atol=1e-6)


@pytest.mark.parametrize("epoch", [None, 0])
def test_a_file_that_changes_while_it_is_read_leaves_nothing(
    tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...], monkeypatch: pytest.MonkeyPatch,
    epoch: int | None,
) -> None:  # fmt: skip
    path = Path(shutil.copy(pictures[0].path, tmp_path / "own.png"))
    before = path.read_bytes()
    own = (Picture("f" * 64, path),)

    def late(where: Path, name: str) -> Any:
        picture(where, 99, (40, 36))
        return read_image(where, name)

    store = store_in(tmp_path / "cache", backbone)
    stored = store.of(own, 1)
    with monkeypatch.context() as change:
        change.setattr(cache, "read_image", late)
        for look in (
            lambda: stored.features(epoch), lambda: store.fill(own, 1, 1, still=True),
            lambda: stored.images(epoch, [0]), lambda: store.decode(own),
        ):  # fmt: skip
            path.write_bytes(before)
            with pytest.raises(BaselineError, match=r"own.png .*changed while it was read; .* same command again"):
                look()
            assert files(tmp_path / "cache") == {}
    path.write_bytes(before)
    fresh = store_in(tmp_path / "fresh", backbone).of(own, 1).features(epoch)
    assert torch.allclose(stored.features(epoch), fresh, atol=1e-6)


def test_whatever_changes_the_numbers_changes_the_key(
    tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wanted(store: FeatureStore) -> bool:
        return store.bytes_for(pictures, 1, 1) > 0

    store_in(tmp_path, backbone).fill(pictures, 1, 1, still=True)
    assert not wanted(store_in(tmp_path, backbone))
    assert wanted(store_in(tmp_path, backbone, "b" * 64))
    assert wanted(store_in(tmp_path, backbone, flip=0.25))
    assert wanted(store_in(tmp_path, backbone, scale=(0.5, 1.0)))
    assert store_in(tmp_path, backbone).bytes_for(pictures, 2, 1) > 0
    assert store_in(tmp_path, backbone, flip=0.25).bytes_for(pictures, 1, 0, still=True) == 0  # has no views
    assert wanted(FeatureStore(tmp_path, backbone, WEIGHTS, ViewsConfig(), batch_size=5))
    monkeypatch.setattr(backbone, "precision", "bf16")
    assert wanted(store_in(tmp_path, backbone))


def test_the_single_view_stands_for_every_epoch(
    tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...]
) -> None:
    store = store_in(tmp_path, backbone, kind="single")
    store.fill(pictures, 1, 50, still=True)
    assert len(files(tmp_path)) == 1
    own = store.of(pictures, 1)
    assert torch.equal(own.features(7), own.features(None))
    assert torch.equal(own.images(7, [1]), own.images(None, [1]))
    assert torch.equal(own.features(0), store_in(tmp_path, backbone).of(pictures, 1).features(None))


@pytest.mark.parametrize("data", [b"", b"no image", b"\x89PNG\r\n\x1a\n"])
def test_an_image_that_can_not_be_decoded_is_named(
    tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...], data: bytes
) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(data)
    store = store_in(tmp_path / "cache", backbone)
    for epoch in (None, 0):
        own = store.of((*pictures, Picture("e" * 64, bad)), 1)
        with pytest.raises(BaselineError, match=f"bad.png .image {'e' * 64}.: can't be decoded"):
            own.features(epoch)
        with pytest.raises(BaselineError, match=r"bad\.png"):
            own.images(epoch, [COUNT])
    assert files(tmp_path / "cache") == {}


def test_a_shape_that_is_no_picture_and_a_file_that_is_gone_are_named(
    tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...]
) -> None:
    store = store_in(tmp_path / "cache", backbone)
    line = Picture("d" * 64, picture(tmp_path / "line.png", 1, (500, 2)))
    with pytest.raises(BaselineError, match=f"line.png .image {'d' * 64}.: 500 x 2 pixels"):
        store.of((line,), 1).features(None)
    line.path.unlink()
    with pytest.raises(BaselineError, match=r"line\.png can't be read"):
        store.of((line,), 1).features(None)


def test_a_full_disk_is_said_before_the_work(
    tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...], monkeypatch: pytest.MonkeyPatch,
    closed: Callable[[], None],
) -> None:  # fmt: skip
    closed()
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=100))
    with pytest.raises(BaselineError, match=r"need 0.0 GB .* kind: single"):
        store_in(tmp_path / "new" / "cache", backbone).fill(pictures, 1, 200)


def test_decoded_images_are_kept_within_the_memory_given(
    tmp_path: Path, backbone: Backbone, pictures: tuple[Picture, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def counted(path: Path, name: str) -> Any:
        read.append(path)
        return read_image(path, name)

    monkeypatch.setattr(cache, "read_image", counted)
    store_in(tmp_path / "much", backbone).fill(pictures, 1, 3)
    assert len(read) == COUNT
    read.clear()
    FeatureStore(tmp_path / "none", backbone, WEIGHTS, ViewsConfig(), batch_size=4, memory=0).fill(pictures, 1, 3)
    assert len(read) == 3 * COUNT
    read.clear()
    store_in(tmp_path / "still", backbone).fill(pictures, 1, 0, still=True)
    assert len(read) == COUNT
    assert files(tmp_path / "much") == files(tmp_path / "none")


def test_a_file_that_changes_twice_in_a_moment_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def coarse(path: Path) -> Mark:  # the clock of files that older kernels have
        size, changed, entered, number = marked(path)
        return size, changed - changed % 10**7, entered - entered % 10**7, number

    marked = contents._mark
    monkeypatch.setattr(contents, "_mark", coarse)
    path = tmp_path / "x.png"
    digests = Contents(path / "no folder", 1)  # nothing is written, which would take more than the moment
    seen = set()
    for number in range(50):
        path.write_bytes(b"%2d" % number)
        seen |= set(digests.of([path]).values())
    assert len(seen) == 50


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.png")
    with pytest.raises(BaselineError, match=r"x\.png is no regular file; put the image there"):
        Contents(tmp_path / "cache", 1).of([tmp_path / "x.png"])
