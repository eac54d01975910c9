"""Where weights are looked for, and what is said when they are not there."""

import contextlib
import hashlib
import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from huggingface_hub import constants, file_download

from submission.baseline.backbones.releases import ARCHITECTURES, RELEASES
from submission.baseline.backbones.weights import find, reachable
from submission.baseline.errors import BaselineError

PLIP = RELEASES["PLIP"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no hub."""
    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    at(monkeypatch, "http://127.0.0.1:9")
    return cache


def at(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    for module in (constants, file_download):  # older releases read it from their own module
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)


class Hub(http.server.BaseHTTPRequestHandler):
    """A model hub that holds two files of vinid/plip."""

    files: ClassVar = {"config.json": b"{}", "pytorch_model.bin": b"weights"}

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        parts = self.path.strip("/").split("/")
        data = self.files.get(parts[-1]) if parts[:2] == ["vinid", "plip"] else None
        self.send_response(200 if data is not None or parts == [""] else 404)
        if data is None:
            self.send_header("X-Error-Code", "EntryNotFound" if "plip" in parts else "RepoNotFound")
        else:
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        if body and data:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def cached(cache: Path, name: str, data: bytes) -> None:
    folder = cache / "models--vinid--plip"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "snapshots" / COMMIT).mkdir(parents=True, exist_ok=True)
    (folder / "snapshots" / COMMIT / name).write_bytes(data)


def test_a_file_and_what_it_wants_beside_it(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"w")
    alone = find(PLIP, str(tmp_path / "w.bin"))
    assert (alone.source, alone.extras, alone.sha256) == ("file w.bin", {}, hashlib.sha256(b"w").hexdigest())
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "vocab.txt").write_bytes(b"x")
    both = find(PLIP, str(tmp_path / "w.bin"))
    lines = f"{hashlib.sha256(b'{}').hexdigest()}  config.json\n{hashlib.sha256(b'w').hexdigest()}  w.bin\n"
    assert set(both.extras) == {"config.json"}
    assert both.sha256 == hashlib.sha256(lines.encode()).hexdigest()


def test_a_folder_gives_the_usual_name_or_the_only_file(tmp_path: Path) -> None:
    (tmp_path / "odd.pt").write_bytes(b"w")
    assert find(PLIP, str(tmp_path)).path.name == "odd.pt"
    (tmp_path / "other.safetensors").write_bytes(b"w")
    with pytest.raises(BaselineError, match=r"Seen: odd\.pt, other\.safetensors; wanted one of open_clip_model"):
        find(PLIP, str(tmp_path))
    for name in ("pytorch_model.bin", "model.safetensors"):
        (tmp_path / name).write_bytes(b"w")
    assert find(PLIP, str(tmp_path)).source == f"file model.safetensors of folder {tmp_path.name}"


def test_an_empty_folder_and_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"Seen: none; wanted"):
        find(PLIP, str(tmp_path))
    for path in (str(tmp_path / "gone"), "plip/plip_vit_b32.pt", "gone"):
        with pytest.raises(BaselineError, match=r"is no file or folder here\. Download config\.json and pytorch_model"):
            find(PLIP, path)


@pytest.mark.parametrize("name", RELEASES)
def test_without_weights_or_a_hub_it_is_said_soon_what_to_get(name: str) -> None:
    start = time.monotonic()
    with pytest.raises(BaselineError) as caught:
        find(RELEASES[name], None)
    assert time.monotonic() - start < 10
    said = str(caught.value)
    assert said.startswith(f"{name}: ")
    assert "Download " in said
    assert "huggingface.co" in said
    assert "--weights PATH, or weights under backbone in the configuration" in said
    assert "\n" not in said


def test_offline_is_said_and_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as endpoint:
        at(monkeypatch, endpoint)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(
            BaselineError, match="vinid/plip is not in the cache of this machine, and HF_HUB_OFFLINE is set"
        ):
            find(PLIP, None)


def test_what_is_in_the_cache_needs_no_hub(own_cache: Path) -> None:
    cached(own_cache, "pytorch_model.bin", b"old")
    found = find(PLIP, "hf-hub:vinid/plip")
    assert found.path.read_bytes() == b"old"
    assert found.source == "vinid/plip@0123456789ab, pytorch_model.bin"
    assert found.extras == {}


def test_files_are_fetched_from_a_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as endpoint:
        at(monkeypatch, endpoint)
        assert reachable()
        found = find(PLIP, None)
        assert found.path.read_bytes() == b"weights"
        assert found.extras["config.json"].read_bytes() == b"{}"
        assert found.source == "vinid/plip@0123456789ab, pytorch_model.bin"
        with pytest.raises(
            BaselineError, match=r"^PLIP: some/thing \(no path here\) can't be fetched .* Download config"
        ):
            find(PLIP, "some/thing")


def test_every_release_has_its_words() -> None:
    assert set(RELEASES) | {"toy"} == set(ARCHITECTURES)
    for release in RELEASES.values():
        assert release.trained_on
        assert release.get
