"""Which platform this is, what the host learns when something is wrong, and files written in place."""

import errno
import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from mvc.cli import app
from scorer import hosted_places
from scorer.host_task import HostError
from scorer.hosted import FAULT, MISCONFIGURED
from scorer.layouts import running
from scorer.layouts.running import LayoutError, detect, score_layout
from submission.files import sha256_file
from submission.writing import to_yaml
from tests.hosted import HostFolder, answer, arguments, publish, small, wrong_seed
from tests.platforms import ACCEPTED, BY_NAME, REJECTED, mounted, run, written
from tests.referee import decoding_here


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> HostFolder:
    """A hosted binary task."""
    return publish(small(), tmp_path_factory.mktemp("hosted") / "host")


@pytest.fixture(scope="module")
def good(made: HostFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that is accepted."""
    return answer(small(), made, tmp_path_factory.mktemp("good") / "bundle")


@pytest.fixture(scope="module")
def bad(made: HostFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that is rejected, which takes less time."""
    draft = small()
    wrong_seed(draft)
    return answer(draft, made, tmp_path_factory.mktemp("bad") / "bundle")


def folders(root: Path, *names: str) -> None:
    """Empty folders of the platforms ``names``."""
    for name in names:
        layout = BY_NAME[name]
        for place in (layout.labels, layout.submission, layout.output):
            (root / place).mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize("name", ACCEPTED)
def test_each_platform_is_found_out(name: str, tmp_path: Path) -> None:
    folders(tmp_path, name)
    assert detect(tmp_path).name == name == detect(tmp_path, name).name


@pytest.mark.parametrize(("one", "two"), list(itertools.combinations(ACCEPTED, 2)))
def test_two_at_once_are_a_doubt(one: str, two: str, tmp_path: Path) -> None:
    folders(tmp_path, one, two)
    with pytest.raises(LayoutError, match="more than one place") as caught:
        detect(tmp_path)
    assert one in str(caught.value)
    assert two in str(caught.value)
    assert detect(tmp_path, two).name == two


def test_none_is_said_with_all_that_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(LayoutError) as caught:
        detect(tmp_path)
    assert all(f"/{layout.labels} ({name})" in str(caught.value) for name, layout in BY_NAME.items())
    with pytest.raises(LayoutError, match="no folder of labels is mounted: looked for /truth"):
        detect(tmp_path, "plain")
    with pytest.raises(LayoutError, match="no layout is called kaggle"):
        detect(tmp_path, "kaggle")


@pytest.mark.parametrize("place", ["submission", "output"])
def test_a_folder_that_is_missing(place: str, tmp_path: Path) -> None:
    folders(tmp_path, "medperf")
    (tmp_path / getattr(BY_NAME["medperf"], place)).rmdir()
    with pytest.raises(LayoutError, match=f"no folder /mlcommons/.* for the {place}"):
        detect(tmp_path)


def score(root: Path, *more: str, env: dict[str, str] | None = None) -> Any:
    """``mvc score`` below ``root``."""
    with decoding_here():
        return CliRunner().invoke(app, ["score", "--root", str(root), *more], env=env)


def test_doubts_exit_with_4(tmp_path: Path) -> None:
    folders(tmp_path, "plain", "codabench")
    done = score(tmp_path)
    assert done.exit_code == 4
    last = done.stderr.splitlines()[-1]
    assert last.startswith(MISCONFIGURED)
    assert "/truth (plain), /app/input/ref (codabench)" in last
    assert score(tmp_path, env={"MVC_HOST": "evalai"}).exit_code == 4
    assert "truth.parquet" not in last


@pytest.mark.parametrize("more", [("--truth", "t"), ("--input", "i", "--output", "o"), ("--key", "k")])
def test_some_paths_are_wrong_usage(more: tuple[str, ...], tmp_path: Path) -> None:
    assert score(tmp_path, *more).exit_code == 2


@pytest.mark.parametrize(
    ("name", "env", "shown"),
    [
        ("plain", {}, False), ("codabench", {}, False), ("evalai", {}, False), ("grand-challenge", {}, True),
        ("medperf", {}, True), ("codabench", {"MVC_HOST_LOG": "stderr"}, True),
    ],
)  # fmt: skip
def test_who_learns_what_is_wrong_with_the_labels(
    name: str, env: dict[str, str], shown: bool, made: HostFolder, good: Path, tmp_path: Path
) -> None:
    """Participants read Codabench's and EvalAI's logs; of the others they see the last line at most."""
    layout = mounted(name, tmp_path, made, good)
    truth = tmp_path / layout.labels / "truth.parquet"
    truth.write_bytes(truth.read_bytes() + b" ")
    done = score(tmp_path, env=env)
    assert done.exit_code == 4
    assert ("the task names" in done.stderr) is shown
    assert "the task names" not in done.stdout
    last = done.stderr.splitlines()[-1]
    assert last.startswith(MISCONFIGURED)
    assert ("stands above" in last) is shown
    assert ("MVC_HOST_LOG=stderr" in last) is not shown
    assert written(layout, tmp_path) == set()

    (tmp_path / "host").mkdir()
    done = score(tmp_path)
    assert "the task names" not in done.stderr
    assert "/host/host.log" in done.stderr.splitlines()[-1]
    assert "the task names" in (tmp_path / "host/host.log").read_text()


def test_the_hosts_folder_gets_all_numbers(made: HostFolder, good: Path, tmp_path: Path) -> None:
    layout = mounted("plain", tmp_path, made, good)
    (tmp_path / "host").mkdir()
    assert run(layout, tmp_path).verdict.accepted
    assert {"host.json", "metrics.parquet", "scorecard.json"} <= {path.name for path in (tmp_path / "host").iterdir()}
    assert written(layout, tmp_path) == ACCEPTED["plain"]


def test_without_a_key_the_record_is_unsigned_and_a_mode_does_not_matter(
    made: HostFolder, bad: Path, tmp_path: Path
) -> None:
    layout = mounted("plain", tmp_path, made, bad)
    key = tmp_path / "truth/host.key"
    key.chmod(0o644)
    run(layout, tmp_path)
    assert '"sig"' in (tmp_path / "output/record.json").read_text()
    key.unlink()
    run(layout, tmp_path)
    assert '"signatures":[]' in (tmp_path / "output/record.json").read_text()


def test_files_are_written_in_place(
    made: HostFolder, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is mounted can't be unlinked or renamed onto: EBUSY."""
    layout = mounted("medperf", tmp_path, made, bad)
    results = tmp_path / layout.output / "results.yaml"
    results.write_text("left by an earlier run, and longer than what is written now\n" * 1000)
    node = results.stat().st_ino
    unlink, replace = Path.unlink, os.replace

    def busy(path: Path, missing_ok: bool = False) -> None:
        if path == results:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        unlink(path, missing_ok)

    def onto(source: Any, target: Any) -> None:
        if Path(target) == results:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", busy)
        patch.setattr(os, "replace", onto)
        patch.setattr(os, "rename", onto)
        assert run(layout, tmp_path).verdict.rejecting
    assert results.stat().st_ino == node
    assert results.read_text().startswith("findings:")
    assert "left by" not in results.read_text()


def test_a_full_disk_leaves_no_part(
    made: HostFolder, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = mounted("codabench", tmp_path, made, bad)
    write = running._write

    def full(path: Path, data: bytes) -> None:
        write(path, data[:100])
        if path.name == "record.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(running, "_write", full)
    with pytest.raises(HostError, match="can't be written"):
        run(layout, tmp_path)
    assert written(layout, tmp_path) == set()


def test_a_document_that_cannot_be_made_tells_nothing(
    made: HostFolder, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = mounted("grand-challenge", tmp_path, made, good)
    monkeypatch.setattr("scorer.layouts.platforms.nested", lambda *_: 1 / 0)
    done = score(tmp_path)
    assert done.exit_code == 3
    assert done.stderr.splitlines()[-1] == FAULT
    assert written(layout, tmp_path) == set()


def test_an_output_that_is_no_folder_we_may_write(
    made: HostFolder, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = mounted("plain", tmp_path, made, bad)
    monkeypatch.setattr(running, "usable", lambda _: False)
    with pytest.raises(HostError, match="can't be written as user"):
        score_layout(layout, tmp_path)
    shutil.rmtree(tmp_path / "output")
    assert score(tmp_path).exit_code == 4


@pytest.mark.parametrize("name", ["plain", "grand-challenge"])
def test_a_truth_that_breaks_its_reader_tells_no_value(
    name: str, made: HostFolder, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A date out of range is named by the error that it raises."""
    layout = mounted(name, tmp_path, made, good)
    labels = tmp_path / layout.labels
    table = pq.read_table(labels / "truth.parquet")
    far = pa.array([2**30] * table.num_rows, pa.int32()).cast(pa.date32())
    pq.write_table(table.append_column("seen_on", far), labels / "truth.parquet")
    task = yaml.safe_load((labels / "task.yaml").read_text())
    task["truth_sha256"] = sha256_file(labels / "truth.parquet")
    (labels / "task.yaml").write_bytes(to_yaml(task))
    done = score(tmp_path)
    assert done.exit_code == 4
    assert done.stderr.splitlines()[-1].startswith(MISCONFIGURED)
    if name == "plain":
        assert str(2**30) not in done.output
    else:
        assert str(2**30) not in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("form", [b"z\xff.zip", b"z\xff.csv"])
def test_a_name_that_is_no_text_is_a_rejection(form: bytes, made: HostFolder, bad: Path, tmp_path: Path) -> None:
    mounted("codabench", tmp_path, made, bad)
    shutil.rmtree(tmp_path / "app/input/res")
    (tmp_path / "app/input/res").mkdir()
    content = b"garbage" if form.endswith(b"zip") else b"line,mvc_bundle_base64\n1,!!!\n"
    with open(os.path.join(os.fsencode(tmp_path / "app/input/res"), form), "wb") as sink:
        sink.write(content)
    done = score(tmp_path)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith("MVC REJECTED MVC001")
    assert written(BY_NAME["codabench"], tmp_path) == REJECTED["codabench"]


@pytest.mark.parametrize("closed", ["input", "input/submission.yaml"])
def test_what_the_mount_does_not_let_us_read_is_the_hosts(
    closed: str, made: HostFolder, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted("plain", tmp_path, made, bad)
    monkeypatch.setattr(hosted_places, "readable", lambda path: path != tmp_path / closed)
    monkeypatch.setenv("MVC_HOST_LOG", "stderr")
    done = score(tmp_path)
    assert done.exit_code == 4
    assert "can't be read as user" in done.stderr
    assert written(BY_NAME["plain"], tmp_path) == set()


def test_too_little_memory_is_the_hosts(
    made: HostFolder, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = mounted("plain", tmp_path, made, good)
    monkeypatch.setenv("MVC_MEMORY", "400m")
    monkeypatch.setenv("MVC_HOST_LOG", "stderr")
    done = score(tmp_path)
    assert done.exit_code == 4
    assert "400 MiB of memory are too little" in done.stderr
    assert written(layout, tmp_path) == set()


@pytest.mark.parametrize("sort", ["link", "pipe", "folder"])
def test_what_lies_where_a_result_belongs_is_not_written_through(
    sort: str, made: HostFolder, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder where it can't be removed."""
    layout = mounted("medperf", tmp_path, made, bad)
    results, precious = tmp_path / layout.output / "results.yaml", tmp_path / "precious"
    precious.write_text("precious")
    if sort == "link":
        results.symlink_to(precious)
    elif sort == "pipe":
        os.mkfifo(results)
    else:
        results.mkdir()

    def busy(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(Path, "unlink", busy)
    with pytest.raises(LayoutError, match="can't be written"):
        score_layout(layout, tmp_path)
    assert precious.read_text() == "precious"


def test_a_sync_that_fails_for_want_of_room_is_told(
    made: HostFolder, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = mounted("plain", tmp_path, made, bad)

    def refused(code: int) -> None:
        def fsync(_: int) -> None:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "fsync", fsync)

    refused(errno.EINVAL)
    assert run(layout, tmp_path).files
    refused(errno.ENOSPC)
    with pytest.raises(HostError, match="can't be written"):
        run(layout, tmp_path)
    assert written(layout, tmp_path) == set()


def test_a_layout_beside_paths_is_wrong_usage(made: HostFolder, bad: Path, tmp_path: Path) -> None:
    line = ["score", "--layout", "plain", *arguments(made, bad, tmp_path / "out")[1:]]
    assert CliRunner().invoke(app, line).exit_code == 2


def test_no_paths_leave_what_an_earlier_run_wrote(made: HostFolder, bad: Path, tmp_path: Path) -> None:
    """Also where the host's side is wrong."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out/scores.json").write_text("{}")
    line = arguments(made, bad, tmp_path / "out")
    line[line.index("--truth") + 1] = str(made.folder / "public" / "splits.parquet")
    assert CliRunner().invoke(app, line).exit_code == 4
    assert not any((tmp_path / "out").iterdir())


@pytest.mark.parametrize("closed", ["host", "truth", "truth/task.yaml", "truth/truth.parquet"])
def test_a_mount_that_this_user_cannot_use_is_named(
    closed: str, made: HostFolder, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted("plain", tmp_path, made, bad)
    (tmp_path / "host").mkdir()
    monkeypatch.setattr(running, "readable", lambda path: path != tmp_path / closed)
    monkeypatch.setattr(running, "usable", lambda path: path != tmp_path / closed)
    done = score(tmp_path)
    assert done.exit_code == 4
    last = done.stderr.splitlines()[-1]
    assert f"{tmp_path / closed} can't be {'written' if closed == 'host' else 'read'} as user" in last
    assert "--user" in last


def test_an_empty_submission_is_the_hosts_slip(made: HostFolder, bad: Path, tmp_path: Path) -> None:
    """But of a platform where the participant's own program leaves it there."""
    for name in ("plain", "medperf"):
        layout = mounted(name, tmp_path / name, made, bad)
        shutil.rmtree(tmp_path / name / layout.submission)
        (tmp_path / name / layout.submission).mkdir()
    done = score(tmp_path / "plain")
    assert done.exit_code == 4
    assert "/input is empty: mount the upload there" in done.stderr
    assert score(tmp_path / "medperf").exit_code == 1
