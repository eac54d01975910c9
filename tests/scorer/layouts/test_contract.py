"""What each platform finds: exact paths and keys, numbers by object paths, no NaN, nothing on a rejection."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from mvc.cli import app
from protocol.catalogue import headline_metrics
from protocol.types import Kind
from scorer.hosted import HostedScore
from scorer.layouts.documents import key
from scorer.ledger_records import believed
from scorer.signing import opened
from tests.builders import Draft
from tests.hosted import HostFolder, answer, publish, scored, small, wrong_seed
from tests.platforms import ACCEPTED, REJECTED, mounted, run, written
from tests.referee import decoding_here

KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")


@pytest.fixture(autouse=True)
def few_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits get 20 draws: what is tested here is where numbers stand."""
    monkeypatch.setattr("scorer.scoring.COSTLY_DRAWS", 20)


@dataclass(frozen=True)
class Case:
    """A hosted task, a bundle that answers it, and what plain paths make of it."""

    draft: Draft
    made: HostFolder
    bundle: Path
    plain: HostedScore
    scores: dict[str, Any]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, Case]:
    """A case of each kind; a model and a site have dots in their names."""
    found: dict[Kind, Case] = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        draft = small(kind, seeds=2 if kind == "binary" else 1)
        made = publish(draft, folder / "host")
        bundle = answer(draft, made, folder / "bundle")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("scorer.scoring.COSTLY_DRAWS", 20)
            done = scored(made, bundle, folder / "out")
        assert done.verdict.accepted, done.verdict.last_line
        found[kind] = Case(draft, made, bundle, done, json.loads((folder / "out" / "scores.json").read_text()))
    return found


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_files_of_an_accepted_submission(name: str, cases: dict[Kind, Case], tmp_path: Path) -> None:
    case = cases["binary"]
    layout = mounted(name, tmp_path, case.made, case.bundle)
    done = run(layout, tmp_path)
    assert written(layout, tmp_path) == ACCEPTED[name] == {path.name for path in done.files}
    assert done.verdict == case.plain.verdict
    assert done.record == case.plain.record
    for file in done.files:
        assert file.stat().st_mode & 0o777 == 0o644
        assert not any(word in file.read_text() for word in ("NaN", "Infinity", ".nan"))


@pytest.mark.parametrize("name", REJECTED)
def test_a_rejection_leaves_no_number(name: str, cases: dict[Kind, Case], tmp_path: Path) -> None:
    """Also where an earlier run had left some."""
    case = cases["binary"]
    draft = small()
    wrong_seed(draft)
    layout = mounted(name, tmp_path / "root", case.made, answer(draft, case.made, tmp_path / "bundle"))
    for file in layout.files:
        (tmp_path / "root" / layout.output / file).write_text('{"brier_binary": 0.0}')
    done = run(layout, tmp_path / "root")
    assert not done.verdict.accepted
    assert written(layout, tmp_path / "root") == REJECTED[name]
    for path in done.files:
        assert '"brier_binary": 0.0' not in path.read_text()
    if name == "medperf":
        said = yaml.safe_load(done.files[0].read_text())
        assert set(said) == {"mvc", "findings"}
        assert said["mvc"]["status"] == "rejected"
        assert said["findings"]["MVC202"]["seen"]["1"]["wanted"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["grand-challenge", "medperf"])
def test_numbers_are_reached_through_objects(name: str, kind: Kind, cases: dict[Kind, Case], tmp_path: Path) -> None:
    case = cases[kind]
    layout = mounted(name, tmp_path, case.made, case.bundle)
    (file,) = run(layout, tmp_path).files
    text = file.read_text()
    document = yaml.safe_load(text) if name == "medperf" else json.loads(text, parse_constant=_no_constant)
    assert set(document) == {"mvc", "aggregates", "n", "runs"}
    assert set(document["mvc"]) == {
        "status", "edition", "last_line", "scorer", "task", "task_sha256", "submission", "title", "team", "declared",
        "waivers", "unverified", "primary_metric", "entry", "record",
    }  # fmt: skip
    assert list(document["aggregates"]) == list(headline_metrics(kind))
    assert all("." not in part for path in _paths(document) for part in path[1:])
    entry = document["mvc"]["entry"]
    record = case.draft.record
    assert entry["model"] == record["models"][0]["name"]
    assert entry["calibrator"] == next(m["name"] for m in record["calibration"]["methods"] if m["name"] != "none")

    for row in case.scores["scores"]:
        place = document["runs"]
        for part in (row["model"], row["calibrator"], row["slice_kind"], row["slice"]):
            place = place[key(part)]
        assert (place["n_images"], place["n_patients"]) == (row["n_images"], row["n_patients"])
        numbers = {m: {n: v for n, v in of.items() if n != "withheld"} for m, of in row["metrics"].items()}
        assert place["metrics"] == numbers
        if (row["model"], row["calibrator"], row["slice_kind"]) == (entry["model"], entry["calibrator"], "test"):
            assert document["aggregates"] == numbers
            assert document["n"] == {"images": row["n_images"], "patients": row["n_patients"]}
            assert entry["seed"] == row["seed"]
    primary = document["mvc"]["primary_metric"]
    assert isinstance(document["aggregates"][primary]["value"], float)
    assert case.made.task.host_key is not None
    payload = opened(json.dumps(document["mvc"]["record"]).encode(), "record", case.made.task.host_key)
    assert case.plain.record is not None
    assert payload == case.plain.record.model_dump(mode="json")
    assert believed(file.read_bytes(), case.made.task).record == case.plain.record  # as mvc ledger append reads it


@pytest.mark.parametrize("kind", KINDS)
def test_flat_numbers_by_column(kind: Kind, cases: dict[Kind, Case], tmp_path: Path) -> None:
    case = cases[kind]
    codabench = mounted("codabench", tmp_path / "c", case.made, case.bundle)
    run(codabench, tmp_path / "c")
    flat = json.loads((tmp_path / "c/app/output/scores.json").read_text(), parse_constant=_no_constant)
    wanted = {f"{metric}{end}" for metric in headline_metrics(kind) for end in ("", "_lo", "_hi")}
    assert set(flat) <= wanted | {"n_images", "n_patients"}
    assert {f"{headline_metrics(kind)[0]}{end}" for end in ("", "_lo", "_hi")} | {"n_images"} <= set(flat)
    assert all(type(value) in (int, float) for value in flat.values())
    entry = case.scores["entry"]
    row = next(
        r for r in case.scores["scores"] if (r["model"], r["calibrator"]) == (entry["model"], entry["calibrator"])
    )
    assert row["slice_kind"] == "test"
    for metric, numbers in row["metrics"].items():
        for end, name in (("", "value"), ("_lo", "lo"), ("_hi", "hi")):
            assert flat.get(f"{metric}{end}") == numbers[name]

    evalai = mounted("evalai", tmp_path / "e", case.made, case.bundle)
    run(evalai, tmp_path / "e")
    result = json.loads((tmp_path / "e/evalai/output/result.json").read_text())
    assert result == [{"split": "test", "show_to_participant": True, "accuracies": flat}]


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_platforms_of_one_submission_say_the_same_line(
    name: str, cases: dict[Kind, Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code, last line of standard error and what was written, through the command."""
    case = cases["binary"]
    layout = mounted(name, tmp_path / "good", case.made, case.bundle)
    draft = small()
    wrong_seed(draft)
    mounted(name, tmp_path / "bad", case.made, answer(draft, case.made, tmp_path / "bundle"))
    for root, code, begin, files in (
        ("good", 0, "MVC ACCEPTED", ACCEPTED[name]), ("bad", 1, "MVC REJECTED", REJECTED[name]),
    ):  # fmt: skip
        monkeypatch.setenv("MVC_HOST", name)
        with decoding_here():
            done = CliRunner().invoke(app, ["score", "--root", str(tmp_path / root)])
        assert done.exit_code == code
        lines = done.stderr.splitlines()
        assert lines[:2] == ["mvc score: reading the truth", f"mvc score: layout {name}"]
        assert lines[-1].startswith(begin)
        assert lines[-1] == done.stdout.splitlines()[-1]
        assert written(layout, tmp_path / root) == files


def test_a_folder_with_a_zip_or_what_a_platform_adds(cases: dict[Kind, Case], tmp_path: Path) -> None:
    case = cases["binary"]
    zipped = Path(shutil.make_archive(str(tmp_path / "team"), "zip", case.bundle))
    for name in ACCEPTED:
        layout = mounted(name, tmp_path / name, case.made, zipped)
        for sidecar in (*layout.sidecars, ".DS_Store"):
            (tmp_path / name / layout.submission / sidecar).write_text("[]")
        assert run(layout, tmp_path / name).verdict.accepted
    layout = mounted("grand-challenge", tmp_path / "flat", case.made, case.bundle)
    (tmp_path / "flat/input/inputs.json").write_text("[")
    assert run(layout, tmp_path / "flat").scores == case.plain.scores


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    """In the page, and in the paths of the nested documents."""
    hostile = "<script>alert(1)</script><img src=x onerror=1>{{7*7}}&\"'"
    draft = small()
    draft.record |= {"title": hostile, "team": "=cmd|' /C calc'!A0 </style>"}
    draft.splits = draft.splits.with_columns(site=draft.splits["site"].str.replace("second hospital", "St. Mary's 5%"))
    draft.record["shift"]["external"][0]["name"] = "St. Mary's 5%"
    made = publish(draft, tmp_path / "host")
    bundle = answer(draft, made, tmp_path / "bundle")
    layout = mounted("codabench", tmp_path / "root", made, bundle)
    done = run(layout, tmp_path / "root")
    assert done.verdict.accepted, done.verdict.last_line
    page = (tmp_path / "root/app/output/detailed_results.html").read_text()
    seen = _Tags()
    seen.feed(page)
    assert seen.tags <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "small", "div", "table", "thead", "tbody",
        "tr", "th", "td", "dl", "dt", "dd",
    }  # fmt: skip
    assert seen.attributes <= {"lang", "charset", "name", "content", "http-equiv", "class", "scope", "tabindex"}
    assert hostile not in page
    assert "{{7*7}}" in page  # a text, no template
    assert "default-src 'none'" in page

    layout = mounted("grand-challenge", tmp_path / "gc", made, bundle)
    run(layout, tmp_path / "gc")
    runs = json.loads((tmp_path / "gc/output/metrics.json").read_text())["runs"]
    assert "St%2E Mary's 5%25" in runs["densenet121"]["temperature"]["external"]


def test_a_rejections_page_has_every_finding_and_its_mend(cases: dict[Kind, Case], tmp_path: Path) -> None:
    case = cases["binary"]
    draft = small()
    wrong_seed(draft)
    layout = mounted("codabench", tmp_path / "root", case.made, answer(draft, case.made, tmp_path / "bundle"))
    done = run(layout, tmp_path / "root")
    seen = _Tags()
    seen.feed((tmp_path / "root/app/output/detailed_results.html").read_text())
    text = " ".join(seen.text)
    for result in done.verdict.rejecting:
        assert result.rule in text
        assert result.mend in text
        assert all(finding.saw in text and finding.wanted in text for finding in result.findings)
    assert "brier" not in text


@given(st.text(max_size=12), st.text(max_size=12))
def test_no_two_names_become_one_key(a: str, b: str) -> None:
    assert "." not in key(a)
    assert (key(a) == key(b)) == (a == b)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _no_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} in a result")


def _paths(document: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths to every value that is no object, lists apart: none may hold a number."""
    if isinstance(document, dict):
        for name, value in document.items():
            if path[:2] != ("mvc", "record"):
                yield from _paths(value, (*path, name))
    else:
        assert not isinstance(document, list), path
        yield path
