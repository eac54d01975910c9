"""The release manifest: ``ro-crate-metadata.json`` by RO-Crate 1.2, with the SHA-256 of every file of a bundle.

Source: RO-Crate Metadata Specification 1.2.0, https://w3id.org/ro/crate/1.2. The version is pinned: a manifest says
which specification it was written by, whatever is newest.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

from protocol.types import MANIFEST_FILE
from submission.files import sha256_file, write_atomic

MANIFEST_NAME = MANIFEST_FILE
PROFILE = "https://w3id.org/ro/crate/1.2"
CONTEXT = f"{PROFILE}/context"
MAX_MANIFEST_BYTES = 16 * 1024 * 1024

_FORMATS = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".lock": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".py": "text/x-python",
    ".svg": "image/svg+xml",
    ".toml": "application/toml",
    ".txt": "text/plain",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".zip": "application/zip",
}
_SPDX_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")


def build_manifest(
    *,
    files: Mapping[str, tuple[str, int]],
    name: str,
    description: str,
    license_id: str,
    authors: Sequence[str],
    contact: str,
    date_published: str,
    edition: str,
    instrument: Mapping[str, str],
    results: Sequence[str],
    predictions: str = "predictions.parquet",
    identifier: str | None = None,
) -> dict[str, Any]:
    """The manifest as a JSON-LD document with a flat ``@graph``; equal input gives an equal document.

    ``files``: relative path with "/" -> (SHA-256 in hex, bytes), every file of the bundle but the manifest itself.
    ``license_id``: an SPDX id; an expression or ``LicenseRef-`` is kept as text, since it has no address.
    ``authors``: at least one; the contact hangs on the first. ``date_published``: ISO 8601, to the day or finer.
    ``instrument``: ``name`` and ``version`` of the scorer. ``results``: the files that scoring made, from ``files``;
    where there are none, nothing was scored yet and no action is written. ``predictions``: the file that was scored.
    ``identifier``: a DOI or address.

    Raises ValueError for a path that leaves the bundle, a digest that is none, no author, results that are not among
    the files, or results of predictions that are not among them.
    """
    if not authors:
        raise ValueError("a manifest needs at least one author")
    if unknown := sorted(set(results) - set(files)):
        raise ValueError(f"results that are not among the files: {', '.join(unknown)}")
    for path, (digest, size) in files.items():
        if not _is_inside(path) or path == MANIFEST_NAME:
            raise ValueError(f"not a file of the bundle: {path!r}")
        if not re.fullmatch(r"[0-9a-f]{64}", digest) or size < 0:
            raise ValueError(f"{path!r} has no SHA-256 or size")
    people: list[dict[str, Any]] = [
        {"@id": f"#author-{number}", "@type": "Person", "name": who} for number, who in enumerate(authors, 1)
    ]
    reach: dict[str, Any] = {"@id": "#contact", "@type": "ContactPoint", "contactType": "corresponding author"}
    people[0]["contactPoint"] = _link(reach)
    reach["email" if "@" in contact else "url" if _is_address(contact) else "name"] = contact
    license_ = _license(license_id)
    protocol = {"@id": "#protocol", "@type": "CreativeWork", "name": "mvc calibration protocol", "version": edition}
    parts = [_file(path, *files[path]) for path in sorted(files)]
    root: dict[str, Any] = {
        "@id": "./",
        "@type": "Dataset",
        "name": name,
        "description": description,
        "datePublished": date_published,
        "license": _link(license_),
        "author": [_link(who) for who in people],
        "isBasedOn": _link(protocol),
        "hasPart": [_link(part) for part in parts],
    }
    more: list[dict[str, Any]] = []
    if identifier is not None:
        more.append(_identifier(identifier))
        root["identifier"] = _link(more[-1])
    if results:
        scorer = {"@id": "#scorer", "@type": "SoftwareApplication", **{k: instrument[k] for k in ("name", "version")}}
        more += [_scoring(files, results, predictions, scorer, people[0]), scorer]
        root["mentions"] = {"@id": "#scoring"}
    descriptor = {
        "@id": MANIFEST_NAME,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": PROFILE},
    }
    return {"@context": CONTEXT, "@graph": [descriptor, root, *parts, license_, protocol, *people, reach, *more]}


def write_manifest(folder: Path, document: Mapping[str, Any]) -> Path:
    """Write ``document`` into ``folder`` at once, replacing an older manifest; returns its path.

    Equal documents give equal bytes. Raises OSError where the folder can't be written; the older file then stays.
    """
    target = folder / MANIFEST_NAME
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomic(target, text.encode())
    return target


def verify_manifest(folder: Path) -> tuple[str, ...]:
    """Problems between the manifest and the files of ``folder``: missing, differing, or present but not listed.

    The manifest may come from anyone: no path outside the folder and no link is followed, and names are quoted with
    their control characters escaped. Addresses on the web are not looked at. Empty means that all agree.
    """
    try:
        listed, problems = _listed_files(_read(folder / MANIFEST_NAME))
    except ValueError as error:
        return (f"{MANIFEST_NAME} can't be used: {error}",)
    present = dict(_walk(folder))
    for path in sorted(listed):
        if path not in present:
            problems.append(f"{path!r} is listed but missing")
        elif present[path].is_symlink() or not present[path].is_file():
            problems.append(f"{path!r} is not a plain file")
        else:
            problems += _differences(path, present[path], listed[path])
    problems += [f"{path!r} is present but not listed" for path in sorted(set(present) - set(listed))]
    return tuple(problems)


def _link(entity: Mapping[str, Any]) -> dict[str, str]:
    return {"@id": entity["@id"]}


def _file(path: str, digest: str, size: int) -> dict[str, Any]:
    return {
        "@id": _uri(path),
        "@type": "File",
        "name": path,
        "contentSize": str(size),
        "encodingFormat": _FORMATS.get(PurePosixPath(path).suffix.lower(), "application/octet-stream"),
        "sha256": digest,
    }


def _license(license_id: str) -> dict[str, Any]:
    has_address = _SPDX_ID.fullmatch(license_id) and not license_id.startswith("LicenseRef-")
    return {
        "@id": f"https://spdx.org/licenses/{license_id}" if has_address else "#license",
        "@type": "CreativeWork",
        "name": license_id,
        "description": f"SPDX licence {'id' if has_address else 'expression'} {license_id}",
    }


def _identifier(identifier: str) -> dict[str, Any]:
    bare = re.sub(r"^(doi:|https?://(dx\.)?doi\.org/)", "", identifier, flags=re.IGNORECASE)
    address = f"https://doi.org/{bare}" if bare.startswith("10.") else identifier
    if not _is_address(address):
        return {"@id": "#identifier", "@type": "PropertyValue", "value": identifier}
    return {"@id": address, "@type": "PropertyValue", "value": identifier, "url": address}


def _scoring(
    files: Mapping[str, Any],
    results: Sequence[str],
    predictions: str,
    scorer: Mapping[str, Any],
    agent: Mapping[str, Any],
) -> dict[str, Any]:
    if predictions not in files or predictions in results:
        raise ValueError(f"there are results, but no file {predictions}")
    return {
        "@id": "#scoring",
        "@type": "CreateAction",
        "name": "scoring of the predictions",
        "actionStatus": {"@id": "http://schema.org/CompletedActionStatus"},
        "agent": _link(agent),
        "instrument": _link(scorer),
        "object": {"@id": _uri(predictions)},
        "result": [{"@id": _uri(path)} for path in sorted(set(results))],
    }


def _is_address(text: str) -> bool:
    return re.fullmatch(r"https?://[^\s<>\"]+", text) is not None


def _is_inside(path: str) -> bool:
    return "\0" not in path and bool(path) and all(part not in ("", ".", "..") for part in path.split("/"))


def _uri(path: str) -> str:
    # RO-Crate 1.2 prefers letters of any script as they are, and escapes what a URI can't hold.
    return "".join(c if ord(c) > 127 and c.isprintable() else quote(c, safe="/") for c in path)


def _read(path: Path) -> list[Any]:
    try:
        if path.is_symlink() or not path.is_file():
            raise ValueError("there is no such file")
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            raise ValueError(f"it is larger than {MAX_MANIFEST_BYTES} bytes")
        document = json.loads(path.read_bytes())
    except (OSError, RecursionError) as error:
        raise ValueError(f"it can't be read ({type(error).__name__})") from None
    graph = document.get("@graph") if isinstance(document, dict) else None
    if not isinstance(graph, list):
        raise ValueError("it has no @graph")
    return graph


def _listed_files(graph: list[Any]) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    listed: dict[str, Mapping[str, Any]] = {}
    problems: list[str] = []
    for entity in graph:
        kinds = entity.get("@type") if isinstance(entity, dict) else None
        uri = entity.get("@id") if isinstance(entity, dict) else None
        if not isinstance(uri, str) or "File" not in (kinds if isinstance(kinds, list) else [kinds]):
            continue
        path = unquote(uri)
        if _is_address(uri) or uri.startswith("#"):
            continue
        if not _is_inside(path):
            problems.append(f"{path!r} is not a path inside the folder")
        elif path in listed:
            problems.append(f"{path!r} is listed twice")
        else:
            listed[path] = entity
    return listed, problems


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    for root, folders, names in os.walk(folder, followlinks=False):
        links = [name for name in folders if (Path(root) / name).is_symlink()]
        for name in [*names, *links]:
            path = Path(root) / name
            relative = path.relative_to(folder).as_posix()
            if relative != MANIFEST_NAME:
                yield relative, path


def _differences(name: str, path: Path, entity: Mapping[str, Any]) -> list[str]:
    size = path.stat().st_size
    if str(entity.get("contentSize")) != str(size):
        return [f"{name!r} differs: it has {size} bytes, not the number listed"]
    return [] if entity.get("sha256") == sha256_file(path) else [f"{name!r} differs: its SHA-256 is not the one listed"]
