"""Uploads: what each platform takes, whole, flat and the same every time; what would not arrive is refused."""

import json
import re
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mvc.cli import app
from mvc.commands.bundle import Upload
from protocol.canonical import sha256_hex
from protocol.facts import Problem
from scorer.ledger import EventKind, Ledger
from scorer.packing import FORMS, PLAIN, pack
from scorer.submit import NothingToUploadError, Outcomes, SubmitError, submit
from submission.carrier import uncarry
from submission.crate import verify_manifest
from tests.builders import copy_of, write
from tests.hosted import HostFolder, answer, publish, small
from tests.referee import decoding_here, quick_check

ZIPS = ("gc-zip", "codabench-zip")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> HostFolder:
    """A hosted binary task."""
    return publish(small(), tmp_path_factory.mktemp("hosted") / "host")


@pytest.fixture(scope="module")
def answered(host: HostFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good answer to it, not to be changed."""
    return answer(small(), host, tmp_path_factory.mktemp("answered") / "mine")


@pytest.fixture(scope="module")
def uploads(answered: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str | None, Path]:
    """It in every form, beside the sealed folder ``mine`` and the ledger; not to be changed."""
    folder = copy_of(answered, tmp_path_factory.mktemp("uploads") / "mine")
    made = {}
    for form in (None, *FORMS):
        outcome = sealed(folder, form)
        assert outcome.upload is not None
        assert not outcome.replaced
        made[form] = outcome.upload
    return made


@pytest.fixture
def mine(answered: Path, tmp_path: Path) -> Path:
    """A good answer to be sealed."""
    return copy_of(answered, tmp_path / "mine")


def sealed(folder: Path, form: str | None) -> Outcomes:
    """Submit ``folder``, decoded in this process."""
    with decoding_here():
        return submit(folder, ledger=folder.parent / "mvc.duckdb", form=None if form is None else FORMS[form])


def test_the_command_takes_the_forms_that_there_are() -> None:
    assert {upload.value for upload in Upload} == FORMS.keys()
    assert len({PLAIN.ending, *(form.ending for form in FORMS.values())}) == 1 + len(FORMS)
    longest = "n" * 100  # Grand Challenge keeps 128 characters of a file's name, and looks at its end
    assert all(len(longest + form.ending) <= 128 for form in FORMS.values())
    assert {name: Path(f"a{form.ending}").suffix for name, form in FORMS.items()} == {
        "gc-zip": ".zip", "gc-csv": ".csv", "codabench-zip": ".zip",
    }  # fmt: skip


def test_every_form_carries_the_same_sealed_bundle(uploads: dict[str | None, Path], tmp_path: Path) -> None:
    home = uploads[None].parent
    mine = home / "mine"
    assert {form: path.name for form, path in uploads.items()} == {
        None: "example-1.zip",
        "gc-zip": "example-1.gc.zip",
        "gc-csv": "example-1.predictions.csv",
        "codabench-zip": "example-1.codabench.zip",
    }
    whole = uploads[None].read_bytes()
    assert [uploads[form].read_bytes() for form in ZIPS] == [whole, whole]
    assert uncarry(uploads["gc-csv"], tmp_path / "carried.zip") == ()
    assert (tmp_path / "carried.zip").read_bytes() == whole
    with zipfile.ZipFile(uploads[None]) as archive:  # flat: no folder is common to all, and none need be taken off
        assert archive.namelist()[0] == "task.yaml"
        archive.extractall(tmp_path / "extracted")
    assert verify_manifest(tmp_path / "extracted") == ()
    assert {p.relative_to(mine) for p in mine.rglob("*")} == {
        p.relative_to(tmp_path / "extracted") for p in (tmp_path / "extracted").rglob("*")
    }
    with Ledger.open(home / "mvc.duckdb", read_only=True) as ledger:
        events = ledger.events()
        assert {event.kind for event in events} == {EventKind.SEALED}
        assert [event.payload["upload"] for event in events] == [
            {"sha256": sha256_hex(path.read_bytes()), "bytes": path.stat().st_size} for path in uploads.values()
        ]
    left = {"mine", "mvc.duckdb", *(path.name for path in uploads.values())}
    assert {path.name for path in home.iterdir()} == left


def test_what_sniffs_at_uploads_takes_them_for_what_they_are(uploads: dict[str | None, Path]) -> None:
    """Grand Challenge asks libmagic about the first 2 KiB, and takes application/zip or text."""
    starts = {form: uploads[form].read_bytes()[:2048] for form in ("gc-zip", "gc-csv")}
    # Where a zip begins with META-INF/, mimetype or the like, it passes for a Java archive, a book and so on.
    assert starts["gc-zip"].startswith(b"PK\x03\x04")
    assert starts["gc-zip"][30:].startswith(b"task.yaml")
    assert starts["gc-csv"].isascii()
    assert starts["gc-csv"].decode().replace("\n", "").isprintable()
    sniffer = shutil.which("file")
    if sniffer is not None:
        asked = [sniffer, "--brief", "--mime-type", "-"]
        said = {form: subprocess.run(asked, input=start, capture_output=True) for form, start in starts.items()}
        assert said["gc-zip"].stdout.strip() == b"application/zip"
        assert said["gc-csv"].stdout.strip() in (b"text/plain", b"text/csv", b"application/csv")


def test_a_carried_bundle_has_the_verdict_of_its_folder(uploads: dict[str | None, Path]) -> None:
    upload = uploads["gc-csv"]
    folder, carried = quick_check(upload.with_name("mine")), quick_check(upload)
    note = "example-1.predictions.csv is a CSV file that carries a zip, which was taken out of it"
    assert carried.notes == (note, *folder.notes)
    assert replace(carried, notes=folder.notes) == folder


def test_a_carrier_is_sealed_beside_itself_and_left_alone(uploads: dict[str | None, Path], tmp_path: Path) -> None:
    first = Path(shutil.copy(uploads["gc-csv"], tmp_path))
    before = first.read_bytes()
    again = sealed(first, "gc-csv")
    assert again.folder == tmp_path / "example-1-sealed"
    assert again.upload == tmp_path / "example-1-sealed.predictions.csv"
    assert first.read_bytes() == again.upload.read_bytes() == before


@pytest.mark.parametrize(
    ("form", "name", "saw"),
    [
        ("gc-zip", "inputs.json", "Grand Challenge writes its own file of this name"),
        ("gc-zip", "my__MACOSX.py", "Grand Challenge leaves out files of such names"),
        ("gc-zip", "code/desktop-ini.py", "Grand Challenge leaves out files of such names"),
        ("codabench-zip", "metadata.yaml", "Codabench takes an upload with this file for code to run"),
        ("codabench-zip", "metadata", "Codabench takes an upload with this file for code to run"),
        ("gc-csv", "code/desktop.ini", "taken for system junk and left out"),
        (None, "__MACOSX/train.py", "taken for system junk and left out"),
        ("gc-zip", "code/inputs.json", ""),
        ("gc-zip", "metadata.yaml", ""),
        ("codabench-zip", "metadata.yml", ""),
        ("codabench-zip", "code/metadata", ""),
        ("codabench-zip", "my__MACOSX.py", ""),
        ("gc-csv", "inputs.json", ""),
        (None, "metadata", ""),
    ],
)
def test_what_would_not_arrive_is_said(form: str | None, name: str, saw: str, tmp_path: Path) -> None:
    """And what does no harm there is packed."""
    chosen, names = FORMS[form] if form else PLAIN, ("META-INF/MANIFEST.MF", name, "task.yaml")
    for file in names:
        (tmp_path / "in" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / file).write_bytes(b"x")
    (tmp_path / "scratch").mkdir()
    problems = pack(tmp_path / "in", names, tmp_path / "upload", tmp_path / "scratch", chosen)
    wanted = [Problem("unsafe-archive", name, saw, "another name in the record")] if saw else []
    assert list(problems) == wanted
    assert saw or (tmp_path / "upload").is_file()
    assert saw or not (tmp_path / "upload.zip").exists()


def test_a_bundle_that_would_not_arrive_is_not_sealed(tmp_path: Path, host: HostFolder) -> None:
    draft = small()
    draft.record["release"]["code"] = {"file": "inputs.json"}
    draft.files["inputs.json"] = b"code"
    folder = answer(draft, host, tmp_path / "mine")
    before = sorted(tmp_path.rglob("*"))
    said = "inputs.json: Grand Challenge writes its own file of this name, wanted another name in the record"
    with pytest.raises(SubmitError, match=re.escape(f"nothing was recorded: this bundle would not arrive ({said})")):
        sealed(folder, "gc-zip")
    with Ledger.open(tmp_path / "mvc.duckdb", read_only=True) as ledger:
        assert ledger.events() == ()
    assert [path for path in sorted(tmp_path.rglob("*")) if path.name != "mvc.duckdb"] == before
    assert sealed(folder, "gc-csv").upload is not None


def test_a_table_of_somebodys_own_is_not_replaced(mine: Path, tmp_path: Path) -> None:
    own = tmp_path / "example-1.predictions.csv"
    own.write_bytes(b"image_id,p_1\n")
    with pytest.raises(SubmitError, match=r"nothing was recorded: .*example-1\.predictions\.csv is there"):
        sealed(mine, "gc-csv")
    assert own.read_bytes() == b"image_id,p_1\n"
    assert not (tmp_path / "mvc.duckdb").exists()


def test_an_open_task_has_nothing_to_upload(tmp_path: Path) -> None:
    """Whatever else is wrong with the bundle; nothing is recorded."""
    draft = small()
    draft.record["release"]["licence"] = None
    folder = write(draft, tmp_path / "mine")
    with pytest.raises(NothingToUploadError, match="the task example-binary is open"):
        sealed(folder, "gc-zip")
    assert not (tmp_path / "mvc.duckdb").exists()


def test_the_command_prints_the_size_that_is_on_disk(mine: Path, tmp_path: Path) -> None:
    """And says when an earlier upload was replaced."""
    upload, line = tmp_path / "example-1.predictions.csv", ["submit", str(mine), "--ledger", str(tmp_path / "l.duckdb")]
    with decoding_here():
        first = CliRunner().invoke(app, [*line, "--as", "gc-csv"])
        second = CliRunner().invoke(app, [*line, "--as", "gc-csv"])
        as_json = json.loads(CliRunner().invoke(app, [*line, "--as", "gc-csv", "--json"]).stdout)
    size = upload.stat().st_size
    said = f"to upload to the host, who scores it: {upload} ({size / 1e6:.2f} MB, {size} bytes"
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert f"{said})" in first.stdout.splitlines()
    assert f"{said}, in place of an earlier one)" in second.stdout.splitlines()
    assert (as_json["upload"], as_json["upload_bytes"]) == (str(upload), size)


def test_wrong_usage_of_the_command_is_exit_2(tmp_path: Path) -> None:
    folder = write(small(), tmp_path / "mine")
    line = ["submit", str(folder), "--ledger", str(tmp_path / "mvc.duckdb"), "--as"]
    with decoding_here():
        ends = {form: CliRunner().invoke(app, [*line, form], env={"COLUMNS": "200"}) for form in ("tar", "gc-csv")}
    assert [end.exit_code for end in ends.values()] == [2, 2]
    assert all(name in ends["tar"].stderr for name in FORMS)
    assert "Invalid value for --as: the task example-binary is open" in ends["gc-csv"].stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]
