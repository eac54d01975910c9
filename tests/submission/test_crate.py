"""The release manifest says what is in the bundle, and a second implementation reads it."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from rocrate.rocrate import ROCrate

from submission.crate import CONTEXT, MANIFEST_NAME, PROFILE, build_manifest, verify_manifest, write_manifest

CONTENTS = {
    "predictions.parquet": b"PAR1 predictions",
    "submission.yaml": b"title: x\n",
    "metrics.parquet": b"PAR1 metrics",
    "scorecard.json": b"{}",
    "notes/50% näive: 面试 #1.md": b"# notes\n",
    "empty.bin": b"",
}


def digests(contents: dict[str, bytes]) -> dict[str, tuple[str, int]]:
    return {name: (hashlib.sha256(data).hexdigest(), len(data)) for name, data in contents.items()}


def manifest(**changes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "files": digests(CONTENTS),
        "name": "Skin lesions, team Ä",
        "description": "Calibrated predictions",
        "license_id": "CC-BY-4.0",
        "authors": ["Ada Lovelace", "李明"],
        "contact": "ada@example.org",
        "date_published": "2026-03-01",
        "edition": "2026.1",
        "instrument": {"name": "mvc", "version": "0.1.0"},
        "results": ["metrics.parquet", "scorecard.json"],
        **changes,
    }
    return build_manifest(**arguments)


def entities(document: dict[str, Any]) -> dict[str, Any]:
    by_id = {entity["@id"]: entity for entity in document["@graph"]}
    assert len(by_id) == len(document["@graph"])
    return by_id


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    bundle = tmp_path / "bundle"
    for name, data in CONTENTS.items():
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_bytes(data)
    write_manifest(bundle, manifest())
    return bundle


def test_rocrate_reads_it_back(folder: Path) -> None:
    crate = ROCrate(folder)
    assert crate.version == "1.2"
    assert crate.metadata["conformsTo"] == PROFILE
    assert crate.name == "Skin lesions, team Ä"
    assert crate.datePublished.strftime("%Y-%m-%d") == "2026-03-01"
    assert crate.license.id == "https://spdx.org/licenses/CC-BY-4.0"
    assert [author["name"] for author in crate.root_dataset["author"]] == ["Ada Lovelace", "李明"]
    files = {entity["name"]: entity for entity in crate.data_entities}
    assert set(files) == set(CONTENTS)
    for name, (digest, size) in digests(CONTENTS).items():
        assert (files[name]["sha256"], files[name]["contentSize"]) == (digest, str(size))
        assert Path(files[name].source).read_bytes() == CONTENTS[name]
    (action,) = crate.get_by_type("CreateAction")
    assert (action["instrument"]["name"], action["instrument"]["version"]) == ("mvc", "0.1.0")
    assert action["object"]["name"] == "predictions.parquet"
    assert [entity["name"] for entity in action["result"]] == ["metrics.parquet", "scorecard.json"]


def test_rocrate_writes_it_again_with_the_same_entities(folder: Path, tmp_path: Path) -> None:
    ROCrate(folder).write(tmp_path / "again")
    again = entities(json.loads((tmp_path / "again" / MANIFEST_NAME).read_text()))
    assert again == entities(manifest())
    assert verify_manifest(tmp_path / "again") == ()


def test_form_of_the_document() -> None:
    document = manifest(identifier="10.5281/zenodo.123")
    assert document["@context"] == CONTEXT == "https://w3id.org/ro/crate/1.2/context"
    by_id = entities(document)
    assert by_id[MANIFEST_NAME]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.2"}
    root = by_id[by_id[MANIFEST_NAME]["about"]["@id"]]
    assert by_id[root["license"]["@id"]]["name"] == "CC-BY-4.0"
    assert by_id[root["identifier"]["@id"]]["url"] == "https://doi.org/10.5281/zenodo.123"
    assert by_id[root["isBasedOn"]["@id"]]["version"] == "2026.1"
    assert by_id["#author-1"]["contactPoint"] == {"@id": "#contact"}
    assert by_id["#contact"]["email"] == "ada@example.org"
    assert by_id["predictions.parquet"]["encodingFormat"] == "application/vnd.apache.parquet"
    assert by_id["empty.bin"]["encodingFormat"] == "application/octet-stream"
    assert "notes/50%25%20näive%3A%20面试%20%231.md" in by_id

    def links(value: Any) -> list[str]:
        if isinstance(value, dict) and set(value) == {"@id"}:
            return [value["@id"]]
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        return [link for item in inner for link in links(item)]

    outside = {PROFILE, "http://schema.org/CompletedActionStatus"}
    assert {link for entity in document["@graph"] for link in links(entity)} <= set(by_id) | outside


def test_variants_of_licence_contact_identifier_and_results() -> None:
    by_id = entities(
        manifest(license_id="MIT AND CC-BY-4.0", contact="https://example.org/us", identifier="team-7", results=[])
    )
    assert by_id["#license"]["name"] == "MIT AND CC-BY-4.0"
    assert by_id["#contact"]["url"] == "https://example.org/us"
    assert by_id["#identifier"]["value"] == "team-7"
    assert "#scoring" not in by_id
    assert "mentions" not in by_id["./"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"authors": []}, "author"),
        ({"results": ["absent.json"]}, "absent.json"),
        ({"files": {"../x": ("0" * 64, 1)}, "results": []}, "not a file of the bundle"),
        ({"files": {"/etc/passwd": ("0" * 64, 1)}, "results": []}, "not a file of the bundle"),
        ({"files": {MANIFEST_NAME: ("0" * 64, 1)}, "results": []}, "not a file of the bundle"),
        ({"files": {"a": ("0" * 63, 1)}, "results": []}, "SHA-256"),
        ({"files": {"scorecard.json": ("0" * 64, 1)}, "results": ["scorecard.json"]}, "predictions"),
    ],
)
def test_wrong_input_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        manifest(**changes)


def test_bytes_are_deterministic(folder: Path) -> None:
    first = (folder / MANIFEST_NAME).read_bytes()
    backwards = manifest(files=dict(reversed(digests(CONTENTS).items())), results=["scorecard.json", "metrics.parquet"])
    write_manifest(folder, backwards)
    assert (folder / MANIFEST_NAME).read_bytes() == first
    assert "面试" in first.decode()


def test_failed_write_keeps_the_older_manifest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = (folder / MANIFEST_NAME).read_bytes()
    names = sorted(os.listdir(folder))

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_manifest(folder, manifest(name="other"))
    assert (folder / MANIFEST_NAME).read_bytes() == first
    assert sorted(os.listdir(folder)) == names


def test_whole_bundle_has_no_problem(folder: Path) -> None:
    assert verify_manifest(folder) == ()


@pytest.mark.parametrize("name", CONTENTS)
def test_tampering_is_found(folder: Path, name: str) -> None:
    data = CONTENTS[name]
    (folder / name).write_bytes(data[:-1] + b"?" if data else b"?")
    (problem,) = verify_manifest(folder)
    assert "differs" in problem
    assert name in problem
    (folder / name).unlink()
    assert verify_manifest(folder) == (f"{name!r} is listed but missing",)


def test_file_not_listed_is_found(folder: Path) -> None:
    (folder / "notes" / "extra\x1b[31m.txt").write_text("x")
    assert verify_manifest(folder) == ("'notes/extra\\x1b[31m.txt' is present but not listed",)


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    (folder / "scorecard.json").rename(copy)
    (folder / "scorecard.json").symlink_to(copy)
    (folder / "elsewhere").symlink_to(tmp_path)
    assert verify_manifest(folder) == (
        "'scorecard.json' is not a plain file",
        "'elsewhere' is present but not listed",
    )


@pytest.mark.parametrize(
    "uri", ["../secret.txt", "/etc/passwd", "a/%2e%2e/%2e%2e/secret.txt", "file:///etc/passwd", ""]
)
def test_path_outside_is_not_read(folder: Path, uri: str) -> None:
    document = manifest()
    document["@graph"].append({"@id": uri, "@type": ["File"], "contentSize": "1", "sha256": "0" * 64})
    write_manifest(folder, document)
    (problem,) = verify_manifest(folder)
    assert "not a path inside the folder" in problem


def test_entry_twice_or_without_digest_is_found(folder: Path) -> None:
    document = manifest()
    by_id = entities(document)
    del by_id["empty.bin"]["sha256"]
    document["@graph"].append({**by_id["scorecard.json"], "@id": "%73corecard.json"})
    write_manifest(folder, document)
    assert verify_manifest(folder) == (
        "'scorecard.json' is listed twice",
        "'empty.bin' differs: its SHA-256 is not the one listed",
    )


@pytest.mark.parametrize(
    "content",
    [None, b"", b"[]", b"{}", b'{"@graph": 1}', b"\xff\xfe", b"[" * 200_000, b"9" * 10_000],
    ids=["absent", "empty", "list", "no graph", "graph no list", "no utf-8", "deep", "long number"],
)
def test_unusable_manifest_is_one_problem(folder: Path, content: bytes | None) -> None:
    (folder / MANIFEST_NAME).unlink()
    if content is not None:
        (folder / MANIFEST_NAME).write_bytes(content)
    (problem,) = verify_manifest(folder)
    assert problem.startswith(f"{MANIFEST_NAME} can't be used: ")


def test_odd_entities_are_passed_over(folder: Path) -> None:
    document = manifest()
    odd: list[Any] = [
        None,
        3,
        [],
        {},
        {"@id": 1, "@type": "File"},
        {"@id": "https://example.org/x.csv", "@type": "File"},
    ]
    document["@graph"] += [*odd, {"@id": "#later", "@type": "File"}]
    write_manifest(folder, document)
    assert verify_manifest(folder) == ()
