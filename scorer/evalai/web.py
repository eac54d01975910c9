"""Requests that are patient with a network and short with everybody else; and the download of a submission's file.

A request is tried again after an error of the network, a 5xx, or a 429 (too many requests), and after no other
answer. Addresses are http or https, and every request has an end in time, however slowly a server sends.
"""

import http.client
import io
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from protocol.findings import plain
from submission.files import REFUSALS

WAITS = (1.0, 4.0, 16.0)  # seconds before each further try
MAX_WAIT = 60.0  # seconds, whatever a server asks for
ANSWER_TIMEOUT = 30.0  # seconds without a byte
ANSWER_LIMIT = 120.0  # seconds for a whole answer
DOWNLOAD_LIMIT = 1800.0  # seconds for a whole file
MAX_FILE = 2 * 2**30  # bytes of a submission
MAX_SAID = 2000  # bytes of what comes with a refusal
CHUNK = 1 << 20
SAFE = "/%:@!$&'()*+,;=?~"  # what stays in an address as it is, beside letters, digits, _, . and -
SCHEMES = ("http", "https")

T = TypeVar("T")


class WebError(Exception):
    """A request came to nothing; the text is safe to log and names no address in full, which may hold a signature."""


class UnreachableError(WebError):
    """No usable answer, also after all tries."""


class RefusedError(WebError):
    """The server understood and said no; ``status`` is the HTTP status, 0 where no server was asked."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class TooLargeError(WebError):
    """The file is larger than what a submission may have."""


class _PassingError(Exception):
    """What may be over at the next try, ``after`` so many seconds."""

    def __init__(self, text: str, after: float = 0.0) -> None:
        super().__init__(text)
        self.after = after


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects to http and https alone, and never from https to http."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """The next request; RefusedError for any other kind of address, and for one that is none."""
        scheme = urlsplit(newurl).scheme
        if scheme not in SCHEMES or (urlsplit(req.full_url).scheme == "https" and scheme != "https"):
            raise RefusedError(f"{host_of(req.full_url)} redirects to {plain(scheme, 20)}:, which is not followed")
        fp.close()  # else urllib reads all of what comes with a redirect
        return super().redirect_request(req, fp, code, msg, headers, address_of(newurl))


class _Bytes(io.RawIOBase):
    """The bytes of the socket ``sock`` until ``end`` of ``time.monotonic``; TimeoutError from then on."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self._sock, self._end = sock, end
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """One read of the socket, which ends in time."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("not whole in time")
        self._sock.settimeout(min(ANSWER_TIMEOUT, left))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Give the socket back."""
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer that is over at ``end``: its head, its body, and what comes with an error."""

    def __init__(self, sock: socket.socket, *more: Any, end: float, **named: Any) -> None:
        super().__init__(sock, *more, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_Bytes(sock, end))


def _connection(
    kind: type[http.client.HTTPConnection], end: float, host: str, *, timeout: float, **more: Any
) -> http.client.HTTPConnection:
    made = kind(host, timeout=timeout, **more)
    made.response_class = partial(_Response, end=end)  # type: ignore[assignment]
    return made


class _Http(urllib.request.HTTPHandler):
    """Answers until ``end``."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self._end = end

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """The answer."""
        return self.do_open(partial(_connection, http.client.HTTPConnection, self._end), req)


class _Https(urllib.request.HTTPSHandler):
    """Answers until ``end``."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self._end = end

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """The answer."""
        return self.do_open(partial(_connection, http.client.HTTPSConnection, self._end), req)


def _opener(limit_s: float, *more: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """For one request, redirects and all, that has ``limit_s`` seconds from now."""
    end = time.monotonic() + limit_s
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        _Http(end),
        _Https(end),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        *more,
    ):
        opener.add_handler(handler)
    return opener


def address_of(url: str) -> str:
    """``url`` with path and query quoted; RefusedError, which does not name it, where nothing can lie there."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.hostname:
            raise RefusedError("the address of the file is neither http nor https")
        parts.hostname.encode("idna")  # fails as the request would, and so does a port that is none
        if parts.port == 0:
            raise ValueError("a port that is none")
        return urlunsplit(parts._replace(path=quote(parts.path, SAFE), query=quote(parts.query, SAFE), fragment=""))
    except ValueError:
        raise RefusedError("the address of the file is broken") from None


def host_of(url: str) -> str:
    """Host and port of ``url``, to be named in a log."""
    parts = urlsplit(url)
    port = "" if parts.port is None else f":{parts.port}"
    return plain(f"{parts.hostname or ''}{port}", 100)


def answer_of(
    request: urllib.request.Request, limit: int, waits: tuple[float, ...] = WAITS, *, secret: str = ""
) -> bytes:
    """The body of the answer to ``request``, at most ``limit`` bytes. Redirects are not followed.

    Raises RefusedError, with the start of what the server said but for ``secret``, and UnreachableError.
    """

    def once() -> bytes:
        with _opener(ANSWER_LIMIT).open(request, timeout=ANSWER_TIMEOUT) as answer:
            body: bytes = answer.read(limit + 1)
        if len(body) > limit:
            raise RefusedError(f"{host_of(request.full_url)} answered with more than {limit} bytes")
        return body

    return _patiently(request.full_url, once, waits, secret)


def download(url: str, target: Path, *, limit: int = MAX_FILE, waits: tuple[float, ...] = WAITS) -> None:
    """Write what lies at ``url`` to the new file ``target``. Redirects are followed.

    Raises TooLargeError above ``limit`` bytes, RefusedError for an address that is none or neither http nor https and
    for what the server refuses, UnreachableError where it can't be had whole.
    """
    url = address_of(url)

    def once() -> None:
        opener = _opener(DOWNLOAD_LIMIT, _Redirects())
        with opener.open(url, timeout=ANSWER_TIMEOUT) as answer, target.open("wb") as sink:
            declared, size = answer.headers.get("Content-Length"), 0
            while chunk := answer.read(CHUNK):
                size += len(chunk)
                if size > limit:
                    raise TooLargeError(f"the file is larger than {limit} bytes")
                sink.write(chunk)
        if declared is not None and declared != str(size):
            raise _PassingError(f"{size} bytes of {plain(declared, 20)}")

    _patiently(url, once, waits)


def _patiently(url: str, once: Callable[[], T], waits: tuple[float, ...], secret: str = "") -> T:
    """The result of ``once``, tried again after each of ``waits`` while what is wrong may pass."""
    for wait in (*waits, None):
        try:
            return _classified(url, once, secret)
        except _PassingError as error:
            if wait is None:
                raise UnreachableError(f"{host_of(url)}: {error} ({len(waits) + 1} tries)") from None
            time.sleep(max(wait, error.after))
    raise AssertionError("unreachable")


def _classified(url: str, once: Callable[[], T], secret: str) -> T:
    """Run ``once``; an error becomes one of ours. Errors of writing a file stay what they are."""
    try:
        return once()
    except urllib.error.HTTPError as error:
        with error:
            status, said = error.code, _start_of(error, secret)
        if status >= 500 or status == 429:
            raise _PassingError(f"HTTP {status}", _asked_wait(error.headers.get("Retry-After"))) from None
        raise RefusedError(f"{host_of(url)}: HTTP {status}{said}", status) from None
    except urllib.error.URLError as error:
        raise _PassingError(plain(error.reason, 200)) from None
    except http.client.InvalidURL:
        raise RefusedError(f"{host_of(url)}: an address there is broken") from None
    except http.client.HTTPException as error:
        raise _PassingError(f"a broken answer ({type(error).__name__})") from None
    except OSError as error:
        if error.errno in REFUSALS or error.filename is not None:  # the disk's
            raise
        raise _PassingError(plain(error.strerror or error, 200)) from None
    except (ValueError, OverflowError):  # of an address that a redirect names
        raise RefusedError(f"{host_of(url)}: an address there is broken") from None


def _start_of(error: urllib.error.HTTPError, secret: str) -> str:
    """What the server said, cut after ``secret`` is out of it: else the cut could leave a part of it."""
    try:
        data = error.read(MAX_SAID)
    except (OSError, http.client.HTTPException):
        return ""
    said = data.decode("utf-8", "replace")
    if secret:
        said = said.replace(secret, "<token>")
        if len(data) == MAX_SAID:
            said = _before_start_of(secret, said)
    said = plain(said.strip(), 300)
    return f": {said}" if said else ""


def _before_start_of(secret: str, text: str) -> str:
    """``text`` without a start of ``secret`` at its end."""
    for size in range(len(secret) - 1, 0, -1):
        if text.endswith(secret[:size]):
            return text[:-size]
    return text


def _asked_wait(value: str | None) -> float:
    return min(float(value), MAX_WAIT) if value is not None and value.isascii() and value.isdigit() else 0.0
