"""The worker's edges: what is fetched and from where, what can be a server, and the line that starts the container."""

import io
import os
import urllib.request
from collections.abc import Iterator
from http.client import HTTPMessage
from pathlib import Path

import pytest

from scorer.evalai import web
from scorer.evalai.api import Server
from scorer.evalai.runs import Container, Run, name_of
from scorer.evalai.web import RefusedError, TooLargeError, UnreachableError, download
from tests.evalai import Store, evalai

PROMPT = (0.01, 0.01)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store of files."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with evalai() as (_, served):
        yield served


def test_a_file_is_whole_or_not_there(store: Store, tmp_path: Path) -> None:
    store.files["/a"], store.short = b"0123456789", ["/a"]
    download(f"{store.url}/a", tmp_path / "a", waits=PROMPT)
    assert (tmp_path / "a").read_bytes() == b"0123456789"
    store.short = ["/a"] * 3
    with pytest.raises(UnreachableError, match="9 bytes of 10"):
        download(f"{store.url}/a", tmp_path / "b", waits=PROMPT)
    with pytest.raises(TooLargeError):
        download(f"{store.url}/a", tmp_path / "c", limit=9, waits=PROMPT)


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "ftp://127.0.0.1/a", "data:,a", "//127.0.0.1/a", "http:///a"]
)
def test_only_the_web_is_fetched(address: str, store: Store, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="neither http nor https"):
        download(address, tmp_path / "a", waits=PROMPT)
    store.redirects["/a"] = address
    if not address.startswith(("/", "http")):
        with pytest.raises(RefusedError, match=r"HTTP 302|not followed"):
            download(f"{store.url}/a", tmp_path / "a", waits=PROMPT)
    assert not (tmp_path / "a").exists()


def test_no_redirect_leaves_https(tmp_path: Path) -> None:
    request = urllib.request.Request("https://eval.ai/a")
    with pytest.raises(RefusedError, match=r"eval\.ai redirects to http:, which is not followed"):
        web._Redirects().redirect_request(request, io.BytesIO(), 302, "", HTTPMessage(), "http://eval.ai/b")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": "ftp://eval.ai"}, "no address"),
        ({"url": "eval.ai"}, "no address"),
        ({"url": "https://eval.ai/api"}, "no address"),
        ({"url": "https://me:pw@eval.ai"}, "no address"),
        ({"token": ""}, "the token is empty"),
        ({"token": "a\nX-Evil: b"}, "the token is empty"),
        ({"queue": "../../challenges"}, "the queue's name"),
    ],
)
def test_what_can_be_no_server(fields: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        Server(**{"url": "https://eval.ai/", "token": "secret", "queue": "q", "challenge": 1, **fields})  # type: ignore[arg-type]
    assert "Evil" not in str(raised.value)


@pytest.mark.parametrize(
    ("uid", "engine", "user"),
    [
        (0, "podman", "--user 10001:10001"),
        (1000, "docker", "--user 1000:100"),
        (1000, "podman", "--user 1000:100 --userns keep-id"),
    ],
)
def test_the_container_gets_a_file_the_labels_and_nothing_else(
    uid: int, engine: str, user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned: list[tuple[Path, int, int]] = []
    monkeypatch.setattr(os, "getuid", lambda: uid)
    monkeypatch.setattr(os, "getgid", lambda: 100)
    monkeypatch.setattr(os, "chown", lambda path, user, group: owned.append((path, user, group)))
    program = tmp_path / engine
    program.write_text(f"#!/bin/sh\necho {engine} version 5\n")
    program.chmod(0o755)
    run = Run(tmp_path / "work", tmp_path / "labels", tmp_path / "host", name_of(tmp_path, 7))
    run.submission.mkdir(parents=True)
    (run.submission / "submission.zip").touch()
    command = Container("mvc-scorer:9", str(program)).started_by(run)
    assert " ".join(command).replace(str(tmp_path), "DIR").replace(run.name, "NAME") == (
        f"DIR/{engine} run --rm --pull never --network none --read-only --tmpfs /tmp:rw,noexec,nosuid,size=1g "
        "--cap-drop ALL --security-opt no-new-privileges --pids-limit 128 --memory 4g --memory-swap 4g "
        f"--env MVC_HOST=evalai --env MVC_HOST_LOG=stderr --name NAME {user} "
        "-v DIR/work/evalai/submission:/evalai/submission:ro -v DIR/labels:/evalai/annotation:ro "
        "-v DIR/work/evalai/output:/evalai/output -v DIR/host:/host mvc-scorer:9"
    )
    files = (run.submission, run.submission / "submission.zip", run.output, run.host)
    assert owned == ([(path, 10001, 10001) for path in files] if uid == 0 else [])
    assert name_of(tmp_path, 7) == run.name != name_of(tmp_path / "b", 7)
