"""Requests that are patient with a network and short with everybody else; and the download of a submission's file.

A request is tried again after an error of the network, a 5xx, or a 429 (too many requests), and after no other
answer. Addresses are http or https. Nothing here knows a token.
"""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar
from urllib.parse import urlsplit

from protocol.findings import plain
from submission.files import REFUSALS

WAITS = (1.0, 4.0, 16.0)  # seconds before each further try
MAX_WAIT = 60.0  # seconds, whatever a server asks for
ANSWER_TIMEOUT = 30.0  # seconds without a byte
DOWNLOAD_LIMIT = 1800.0  # seconds for a whole file
MAX_FILE = 2 * 2**30  # bytes of a submission
CHUNK = 1 << 20
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
        """The next request; RefusedError for any other kind of address."""
        scheme = urlsplit(newurl).scheme
        if scheme not in SCHEMES or (urlsplit(req.full_url).scheme == "https" and scheme != "https"):
            raise RefusedError(f"{host_of(req.full_url)} redirects to {plain(scheme, 20)}:, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(*more: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        *more,
    ):
        opener.add_handler(handler)
    return opener


def host_of(url: str) -> str:
    """Host and port of ``url``, to be named in a log."""
    parts = urlsplit(url)
    port = "" if parts.port is None else f":{parts.port}"
    return plain(f"{parts.hostname or ''}{port}", 100)


def answer_of(request: urllib.request.Request, limit: int, waits: tuple[float, ...] = WAITS) -> bytes:
    """The body of the answer to ``request``, at most ``limit`` bytes. Redirects are not followed.

    Raises RefusedError, with the start of what the server said, and UnreachableError.
    """

    def once() -> bytes:
        with _opener().open(request, timeout=ANSWER_TIMEOUT) as answer:
            body: bytes = answer.read(limit + 1)
        if len(body) > limit:
            raise RefusedError(f"{host_of(request.full_url)} answered with more than {limit} bytes")
        return body

    return _patiently(request.full_url, once, waits)


def download(url: str, target: Path, *, limit: int = MAX_FILE, waits: tuple[float, ...] = WAITS) -> None:
    """Write what lies at ``url`` to the new file ``target``. Redirects are followed.

    Raises TooLargeError above ``limit`` bytes, RefusedError for an address that is neither http nor https and for
    what the server refuses, UnreachableError where it can't be had whole.
    """
    if urlsplit(url).scheme not in SCHEMES or not urlsplit(url).hostname:
        raise RefusedError("the address of the file is neither http nor https")

    def once() -> None:
        end = time.monotonic() + DOWNLOAD_LIMIT
        with _opener(_Redirects()).open(url, timeout=ANSWER_TIMEOUT) as answer, target.open("wb") as sink:
            declared, size = answer.headers.get("Content-Length"), 0
            while chunk := answer.read(CHUNK):
                size += len(chunk)
                if size > limit:
                    raise TooLargeError(f"the file is larger than {limit} bytes")
                if time.monotonic() > end:
                    raise _PassingError(f"not whole after {DOWNLOAD_LIMIT:.0f} s")
                sink.write(chunk)
        if declared is not None and declared != str(size):
            raise _PassingError(f"{size} bytes of {plain(declared, 20)}")

    _patiently(url, once, waits)


def _patiently(url: str, once: Callable[[], T], waits: tuple[float, ...]) -> T:
    """The result of ``once``, tried again after each of ``waits`` while what is wrong may pass."""
    for wait in (*waits, None):
        try:
            return _classified(url, once)
        except _PassingError as error:
            if wait is None:
                raise UnreachableError(f"{host_of(url)}: {error} ({len(waits) + 1} tries)") from None
            time.sleep(max(wait, error.after))
    raise AssertionError("unreachable")


def _classified(url: str, once: Callable[[], T]) -> T:
    """Run ``once``; an error becomes one of ours. Errors of writing a file stay what they are."""
    try:
        return once()
    except urllib.error.HTTPError as error:
        with error:
            status, said = error.code, _start_of(error)
        if status >= 500 or status == 429:
            raise _PassingError(f"HTTP {status}", _asked_wait(error.headers.get("Retry-After"))) from None
        raise RefusedError(f"{host_of(url)}: HTTP {status}{said}", status) from None
    except urllib.error.URLError as error:
        raise _PassingError(plain(error.reason, 200)) from None
    except http.client.HTTPException as error:
        raise _PassingError(f"a broken answer ({type(error).__name__})") from None
    except OSError as error:
        if error.errno in REFUSALS or error.filename is not None:  # the disk's
            raise
        raise _PassingError(plain(error.strerror or error, 200)) from None


def _start_of(error: urllib.error.HTTPError) -> str:
    try:
        said = plain(error.read(2000).decode("utf-8", "replace").strip(), 300)
    except (OSError, http.client.HTTPException):
        return ""
    return f": {said}" if said else ""


def _asked_wait(value: str | None) -> float:
    return min(float(value), MAX_WAIT) if value is not None and value.isascii() and value.isdigit() else 0.0
