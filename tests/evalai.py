"""EvalAI on the loopback, as far as a remote worker meets it, and the store of uploaded files on another port.

It is as strict as EvalAI's views (Cloud-CV/EvalAI at 0f04039, apps/jobs/views.py), and stricter where those would
answer with 500: NaN in a result.
"""

import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlsplit

TOKEN, QUEUE, CHALLENGE, PHASE = "a-token-of-a-host", "calibration-challenge-queue.fifo", 2389, 4723
LABELS = ("brier_binary", "brier_binary_lo", "brier_binary_hi", "accuracy", "n_images")
UPDATE = {"challenge_phase", "submission", "stdout", "stderr", "submission_status", "metadata", "result"}


class Refusal(Exception):
    """An answer with another status than 200, and where it points to."""

    def __init__(self, status: int, said: str, location: str = "") -> None:
        super().__init__(said)
        self.status, self.said, self.headers = status, said, {"Location": location} if location else {}


@dataclass
class EvalAI:
    """The state of one challenge; ``log`` has what was asked, ``trusted`` those paths that were shown the token.

    ``broken`` has answers to give instead of the true one, ``moved`` where paths redirect to.
    """

    splits: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"test_split": LABELS})
    ranked: str = "brier_binary"
    url: str = ""
    submissions: dict[int, dict[str, Any]] = field(default_factory=dict)
    queue: list[dict[str, Any]] = field(default_factory=list)
    handed: dict[str, dict[str, Any]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    trusted: set[str] = field(default_factory=set)
    broken: dict[str, list[int]] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    updates: list[dict[str, str]] = field(default_factory=list)
    leaderboard: dict[int, dict[str, float]] = field(default_factory=dict)

    def submit(self, pk: int, url: str | None, challenge: int = CHALLENGE) -> None:
        """A team has uploaded a file."""
        self.submissions[pk] = {"id": pk, "challenge_phase": PHASE, "status": "submitted", "input_file": url}
        # EvalAI writes some keys as text
        self.queue.append({"submission_pk": pk, "challenge_pk": str(challenge), "phase_pk": str(PHASE)})

    def count(self, start: str) -> int:
        """How many requests began so."""
        return sum(line.startswith(start) for line in self.log)

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> Any:
        """The answer to a request; raises Refusal."""
        self.log.append(f"{method} {path}")
        if "Authorization" in headers:
            self.trusted.add(path)
        if path in self.moved:
            raise Refusal(302, "moved", self.moved[path])
        for start, codes in self.broken.items():
            if f"{method} {path}".startswith(start) and codes and (code := codes.pop(0)):
                raise Refusal(code, "broken for now")
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refusal(401, "Authentication credentials were not provided.")
        if body and headers.get("Content-Type") != "application/x-www-form-urlencoded":
            raise Refusal(415, "Unsupported media type")
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True)) if body else {}
        pk = path.rstrip("/").rsplit("/", 1)[-1]
        match method, path.replace(pk, "*") if pk.isdigit() else path:
            case "GET", p if p == f"/api/jobs/challenge/queues/{QUEUE}/":
                return self._next()
            case "POST", p if p == f"/api/jobs/queues/{QUEUE}/":
                return self._deleted(fields)
            case "GET", "/api/jobs/submission/*":
                if int(pk) not in self.submissions:
                    raise Refusal(404, f"Submission {pk} does not exist")
                return self.submissions[int(pk)]
            case "PATCH" | "PUT", p if p == f"/api/jobs/challenge/{CHALLENGE}/update_submission/":
                return self._started(fields) if method == "PATCH" else self._updated(fields)
            case "GET", p if p == f"/api/challenges/{CHALLENGE}/challenge_phase_split":
                return [self._row(number) for number in range(len(self.splits))]
            case "GET", "/api/challenges/challenge/create/dataset_split/*/":
                return {"id": int(pk), "name": "A split", "codename": list(self.splits)[int(pk)], "config_id": 1}
        raise Refusal(404, "Not found.")

    def _next(self) -> Any:
        """Out of sight for a while, and behind the others when it comes back: as SQS does."""
        if not self.queue:
            return {"body": None, "receipt_handle": None}
        message = self.queue.pop(0)
        receipt = f"receipt+/{len(self.handed)}="
        self.handed[receipt] = message
        return {"body": message, "receipt_handle": receipt}

    def come_again(self) -> None:
        """What was handed out and not deleted can be seen once more."""
        self.queue += self.handed.values()
        self.handed.clear()

    def _deleted(self, fields: dict[str, str]) -> Any:
        if self.handed.pop(fields["receipt_handle"], None) is None:
            raise Refusal(400, "no such receipt")
        return {"success": "Message deleted successfully from the queue"}

    def _row(self, number: int) -> dict[str, Any]:
        schema = {"labels": list(list(self.splits.values())[number]), "default_order_by": self.ranked}
        return {"id": 9, "dataset_split": number, "challenge_phase": PHASE, "leaderboard_schema": schema}

    def _started(self, fields: dict[str, str]) -> Any:
        if fields.get("submission_status", "").lower() not in ("queued", "running"):
            raise Refusal(400, "Sorry, submission status is invalid")
        submission = self.submissions[int(fields["submission"])]
        submission["status"] = "running"
        return submission

    def _updated(self, fields: dict[str, str]) -> Any:
        if set(fields) != UPDATE:
            raise Refusal(400, f"fields {sorted(fields)}")
        status, pk = fields["submission_status"].lower(), int(fields["submission"])
        if status not in ("finished", "failed", "cancelled") or int(fields["challenge_phase"]) != PHASE:
            raise Refusal(400, "Sorry, submission status is invalid")
        for row in json.loads(fields["result"], parse_constant=_nan) if status == "finished" else []:
            if row["split"] not in self.splits:
                raise Refusal(400, "Challenge Phase Split does not exist")
            for label, value in row["accuracies"].items():
                if label not in self.splits[row["split"]]:
                    raise Refusal(400, f"Following metrics are missing in the leaderboard data: {label}")
                if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                    raise Refusal(400, f"Values for following metrics are not of float/int: {label}")
            self.leaderboard[pk] = row["accuracies"]
        self.updates.append(fields)
        self.submissions[pk]["status"] = status
        return {"success": "Submission result has been successfully updated"}


@dataclass
class Store:
    """Where uploaded files lie; ``seen`` has path and headers of every request, ``short`` paths lose bytes once."""

    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    short: list[str] = field(default_factory=list)
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""


def _nan(name: str) -> NoReturn:
    raise Refusal(400, f"Values for following metrics are not of float/int: {name}")


class _Quiet(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Send an answer."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _api(state: EvalAI) -> type[_Quiet]:
    class Api(_Quiet):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, headers = 200, dict[str, str]()
            try:
                answer = state.answer(self.command, self.path, self.headers, body)
            except Refusal as refused:
                answer, status, headers = {"error": refused.said}, refused.status, refused.headers
            except (KeyError, ValueError, TypeError) as error:
                answer, status = {"error": repr(error)}, 400
            self.reply(status, json.dumps(answer).encode(), headers)

        do_POST = do_PUT = do_PATCH = do_GET

    return Api


def _store(store: Store) -> type[_Quiet]:
    class Files(_Quiet):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            store.seen.append((path, dict(self.headers)))
            if path in store.redirects:
                self.reply(302, b"", {"Location": store.redirects[path]})
            elif path in store.files:
                body = store.files[path]
                if path in store.short:
                    store.short.remove(path)
                    self.reply(200, body[:-1], {"Content-Length": str(len(body))})
                    self.close_connection = True
                else:
                    self.reply(200, body)
            else:
                self.reply(403, b"<Error><Code>AccessDenied</Code></Error>")

    return Files


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server on a free port of the loopback; yields its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def evalai(**fields: Any) -> Iterator[tuple[EvalAI, Store]]:
    """A challenge and the store of its files, each on its own port."""
    state, store = EvalAI(**fields), Store()
    with serving(_api(state)) as state.url, serving(_store(store)) as store.url:
        yield state, store
