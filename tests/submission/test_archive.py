"""Zips of bundles: unpacked whole or refused, and nothing lands outside."""

import io
import random
import stat
import zipfile
from pathlib import Path

import pytest

from submission import archive
from submission.archive import unpack

Members = list[tuple[str | zipfile.ZipInfo, bytes]]


def zip_of(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in members:
            target.writestr(name, data)
    return path


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def special(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = (mode | 0o644) << 16
    return info


def test_plain_files_are_unpacked(tmp_path: Path, target: Path) -> None:
    members: Members = [("task.yaml", b"a"), ("configs/train.yaml", b"b"), (special("plain.txt", stat.S_IFREG), b"c")]
    assert unpack(zip_of(tmp_path / "a.zip", members), target) == ((), ())
    assert tree(target) == {"task.yaml": b"a", "configs/train.yaml": b"b", "plain.txt": b"c"}


def test_one_folder_around_everything_is_taken_off_and_said(tmp_path: Path, target: Path) -> None:
    members: Members = [
        ("mine/", b""),
        ("mine/task.yaml", b"a"),
        ("mine/configs/train.yaml", b"b"),
        ("mine/.DS_Store", b"junk"),
        ("__MACOSX/mine/._task.yaml", b"junk"),
    ]
    problems, notes = unpack(zip_of(tmp_path / "a.zip", members), target)
    assert problems == ()
    assert notes == ("the folder mine that wraps the bundle was taken off",)
    assert tree(target) == {"task.yaml": b"a", "configs/train.yaml": b"b"}


@pytest.mark.parametrize(
    ("member", "saw"),
    [
        ("../evil", "a path that leaves the archive"),
        ("a/../../evil", "a path that leaves the archive"),
        ("/etc/evil", "a path that leaves the archive"),
        ("..\\evil", "a path that leaves the archive"),
        ("C:evil", "a path that leaves the archive"),
        ("a\x1bb", "a name with control characters"),
        ("a\u202eb", "a name with control characters"),
        (".", "a name with control characters"),
        ("a/b/c/d", "more than 3 levels of folders"),
        ("inner.zip", "an archive in the archive"),
        ("inner.TAR.GZ", "an archive in the archive"),
        (special("link", stat.S_IFLNK), "a link or a device"),
        (special("pipe", stat.S_IFIFO), "a link or a device"),
        (special("device", stat.S_IFCHR), "a link or a device"),
        ("model.pt", "a pickle"),
        ("TASK.yaml", "two members of one name"),
    ],
)
def test_an_unsafe_member_is_refused(tmp_path: Path, target: Path, member: str | zipfile.ZipInfo, saw: str) -> None:
    problems, notes = unpack(zip_of(tmp_path / "a.zip", [("task.yaml", b"a"), (member, b"x")]), target)
    assert saw in [problem.saw for problem in problems]
    assert {p.offence for p in problems} == {"pickle-refused" if saw == "a pickle" else "unsafe-archive"}
    assert notes == ()
    assert tree(tmp_path) == {"a.zip": (tmp_path / "a.zip").read_bytes()}


def test_two_members_of_one_name_are_refused(tmp_path: Path, target: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = zip_of(tmp_path / "a.zip", [("task.yaml", b"a"), ("task.yaml", b"b")])
    assert [p.saw for p in unpack(path, target)[0]] == ["two members of one name"] * 2


def test_a_file_that_is_also_a_folder_is_refused(tmp_path: Path, target: Path) -> None:
    problems, _ = unpack(zip_of(tmp_path / "a.zip", [("a", b"x"), ("a/b", b"x")]), target)
    assert problems[0].offence == "unreadable-file"


def test_a_bomb_is_refused(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems, _ = unpack(zip_of(tmp_path / "a.zip", [("zeros", bytes(2 << 20))]), target)
    assert problems[0].saw == "a ratio above 200"
    monkeypatch.setattr(archive, "MAX_TOTAL", 100)
    problems, _ = unpack(zip_of(tmp_path / "b.zip", [("zeros", bytes(101))]), target)
    assert problems[0].offence == "too-large"
    monkeypatch.setattr(archive, "MAX_MEMBERS", 2)
    problems, _ = unpack(zip_of(tmp_path / "c.zip", [(str(n), b"x") for n in range(3)]), target)
    assert problems[0].saw == "3 members"


@pytest.mark.parametrize("data", [b"", b"PK", b"Rar!\x1a\x07", b"PAR1" * 10, b"PK\x05\x06" + b"\xff" * 18])
def test_what_is_no_zip_is_refused(tmp_path: Path, target: Path, data: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(data)
    problems, _ = unpack(tmp_path / "a.zip", target)
    assert [p.offence for p in problems] == ["unreadable-file"]


def test_a_damaged_zip_never_raises(tmp_path: Path) -> None:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as target:
        for name in ("task.yaml", "configs/ü.yaml", "splits.parquet"):
            target.writestr(name, random.Random(name).randbytes(300) + bytes(300))
    whole = sink.getvalue()
    rng = random.Random(7)
    for turn in range(300):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if turn % 5 == 0:
            del data[rng.randrange(len(data)) :]
        (tmp_path / "a.zip").write_bytes(data)
        folder = tmp_path / str(turn)
        folder.mkdir()
        problems, _ = unpack(tmp_path / "a.zip", folder)
        assert all(problem.offence in ("unreadable-file", "unsafe-archive", "too-large") for problem in problems)
    assert all(p.parent.name.isdigit() or p.is_relative_to(tmp_path) for p in tmp_path.rglob("*"))
