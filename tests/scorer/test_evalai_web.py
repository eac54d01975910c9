"""The worker's edges: what is fetched and from where, what can be a server, and the line that starts the container."""

import io
import os
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler
from itertools import chain, repeat
from pathlib import Path

import pytest

from scorer.evalai import web
from scorer.evalai.api import Server
from scorer.evalai.runs import Container, Run, name_of
from scorer.evalai.web import RefusedError, TooLargeError, UnreachableError, download
from tests.evalai import Store, evalai, serving

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
        ({"url": "https://[eval.ai"}, "no address"),
        ({"url": "https://eval.ai:99999"}, "no address"),
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


RAW_ANSWERS = {"deep": b"[" * 200_000, "bytes": b"\xff\xfe\xfd", "a long number": b"9" * 5000}


@contextmanager
def speaking(*said: bytes, pause: float = 0.0, again: bool = False) -> Iterator[str]:
    """A server that says these pieces of an answer to whatever it is asked, each after ``pause`` seconds.

    ``again``: the last one until nobody listens.
    """

    class Raw(BaseHTTPRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            pieces = chain(said, repeat(said[-1])) if again else said
            with suppress(OSError):
                for piece in pieces:
                    time.sleep(pause)
                    self.request.sendall(piece)

    with serving(Raw) as address:
        yield address


@pytest.mark.parametrize("case", RAW_ANSWERS)
def test_an_answer_that_is_no_json_is_one_that_can_not_be_used(case: str, store: Store) -> None:
    with speaking(b"HTTP/1.0 200 OK\r\n\r\n", RAW_ANSWERS[case]) as address:
        server = Server(address, "secret", "q", 1, waits=())
        with pytest.raises(UnreachableError, match="something else than JSON"):
            server.message()


def test_a_receipt_that_can_not_be_sent_back_is_no_receipt(store: Store) -> None:
    said = b'{"body": {"submission_pk": 1, "challenge_pk": 1}, "receipt_handle": "\\ud800"}'
    with (
        speaking(b"HTTP/1.0 200 OK\r\n\r\n", said) as address,
        pytest.raises(UnreachableError, match="another form than EvalAI's"),
    ):
        Server(address, "secret", "q", 1, waits=()).message()


@pytest.mark.parametrize("target", ["http://[bad/", "http://h:99999/", "http://h:abc/", f"http://{'a' * 70}/", "//[x"])
def test_a_redirect_to_no_address_is_refused(target: str, store: Store, tmp_path: Path) -> None:
    store.redirects["/a"] = target
    with pytest.raises(RefusedError, match=r"^(the|127\.0\.0\.1:\d+: an) address (of the file|there) is broken$"):
        download(f"{store.url}/a", tmp_path / "a", waits=PROMPT)
    assert len(store.seen) == 1


def test_what_comes_with_a_redirect_is_not_read() -> None:
    said = io.BytesIO(b"without end")
    request = urllib.request.Request("https://eval.ai/a")
    assert web._Redirects().redirect_request(request, said, 302, "", HTTPMessage(), "https://eval.ai/b")
    assert said.closed


def test_the_path_is_quoted_and_a_signature_stays(store: Store, tmp_path: Path) -> None:
    store.files["/%C3%BC%20%2F+b.zip"] = b"1"
    download(f"{store.url}/\u00fc %2F+b.zip?X=a%2Bb/c+d&Y=~e=", tmp_path / "a", waits=PROMPT)
    assert (tmp_path / "a").read_bytes() == b"1"
    signed = "https://eval.ai/media/a.zip?X-Amz-Credential=A%2Fb&X-Amz-Signature=0f=+/~-_.!*'()"
    assert web.address_of(signed) == signed


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
SLOW: dict[str, tuple[bytes, bytes]] = {
    "a body": (HEAD, b"1"),
    "a head": (b"HTTP/1.1 200 OK\r\nX: ", b"1"),
    "the size of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "a refusal": (b"HTTP/1.1 503 No\r\nContent-Length: 100000\r\n\r\n", b"1"),
}


@pytest.mark.parametrize("case", SLOW)
def test_a_byte_at_a_time_ends_in_time(
    case: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "DOWNLOAD_LIMIT", 0.15)
    monkeypatch.setattr(web, "ANSWER_LIMIT", 0.15)
    with speaking(*SLOW[case], pause=0.02, again=True) as address:
        start = time.monotonic()
        with pytest.raises(UnreachableError, match=r"in time|timed out|HTTP 503"):
            download(f"{address}/a", tmp_path / "a", waits=())
        with pytest.raises(UnreachableError, match=r"in time|timed out|HTTP 503"):
            Server(address, "secret", "q", 1, waits=()).message()
        assert time.monotonic() - start < 2


@pytest.mark.parametrize("before", [0, 285, 1000, 1990, 1993])
@pytest.mark.parametrize("token", ["0123456789" * 4, "x"])
def test_no_part_of_the_token_is_logged(before: int, token: str, store: Store) -> None:
    """Not where the text is cut for the log, and not where the reading of it ends."""
    said = b"-" * before + token.encode() * 100
    with (
        speaking(b"HTTP/1.0 400 No\r\n\r\n", said) as address,
        pytest.raises(RefusedError, match=r"HTTP 400: [-<]") as raised,
    ):
        Server(address, token, "q", 1, waits=()).message()
    shown = str(raised.value).split("HTTP 400: ")[1]
    assert not set(shown) & set(token)
