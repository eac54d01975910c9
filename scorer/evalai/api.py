"""What EvalAI is asked and told by a remote worker.

Source: Cloud-CV/EvalAI at 0f04039, ``apps/jobs`` and ``apps/challenges`` (urls.py, views.py, serializers.py). Requests
carry form fields, answers are JSON. The token goes to one server alone: no redirect is followed here.
"""

import contextlib
import json
import re
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from protocol.findings import plain
from scorer.evalai.web import WAITS, RefusedError, UnreachableError, address_of, answer_of

MAX_ANSWER = 8 * 2**20  # bytes
TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
QUEUE = re.compile(r"[A-Za-z0-9_.-]{1,80}")


class SetupError(Exception):
    """What the host of the challenge has to mend before anything can be scored."""


@dataclass(frozen=True)
class Message:
    """A message of the queue: which submission waits, and the receipt by which the message is deleted."""

    submission: int
    challenge: int
    receipt: str


@dataclass(frozen=True)
class Waiting:
    """A submission as EvalAI has it: its phase, its state and the address of its file.

    The address is '' where there is no file, and may be one that nothing can have.
    """

    pk: int
    phase: int
    status: str
    url: str


@dataclass(frozen=True)
class Phase:
    """A phase's split: its code name, the leaderboard's labels and the one that ranks by default."""

    pk: int
    split: str
    labels: tuple[str, ...]
    ranked: str


@dataclass(frozen=True)
class Report:
    """What is sent of a submission; ``why`` is for the host's log alone and is not sent.

    ``result`` is a list of one split with its numbers, empty where there is none.
    """

    finished: bool
    stdout: str = ""
    stderr: str = ""
    result: tuple[dict[str, Any], ...] = ()
    metadata: str = ""
    why: str = ""


@dataclass(frozen=True)
class Server:
    """An EvalAI server as one of its challenges' hosts sees it; ``url`` is scheme and host.

    Raises ValueError where a field can't be one; the text never has the token.
    """

    url: str
    token: str = field(repr=False)
    queue: str
    challenge: int
    waits: tuple[float, ...] = WAITS

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(address_of(self.url))
        except RefusedError:
            parts = urlsplit("")
        if not parts.hostname or parts.path.strip("/") or parts.query or parts.username:
            raise ValueError("the server is no address like https://eval.ai")
        if not TOKEN.fullmatch(self.token):
            raise ValueError("the token is empty, or has blanks or characters that no token has")
        if not QUEUE.fullmatch(self.queue):
            raise ValueError("the queue's name has other characters than letters, digits, _, . and -")
        object.__setattr__(self, "url", f"{parts.scheme}://{parts.netloc}")

    def message(self) -> Message | None:
        """The next message of the queue, None where nothing waits. It stays in the queue until it is deleted."""
        answer = self._object("GET", f"/api/jobs/challenge/queues/{self.queue}/")
        body, receipt = answer.get("body"), answer.get("receipt_handle")
        if not body:
            return None
        if not isinstance(body, dict) or not isinstance(receipt, str) or not _encodes(receipt):
            raise UnreachableError("a message of the queue has another form than EvalAI's")
        return Message(_number(body, "submission_pk"), _number(body, "challenge_pk"), receipt)

    def delete(self, message: Message) -> None:
        """Take ``message`` out of the queue."""
        self._object("POST", f"/api/jobs/queues/{self.queue}/", {"receipt_handle": message.receipt})

    def submission(self, pk: int) -> Waiting:
        """The submission ``pk``."""
        answer = self._object("GET", f"/api/jobs/submission/{pk}")
        file, status = answer.get("input_file"), answer.get("status")
        url = file if isinstance(file, str) else ""
        if url:
            with contextlib.suppress(ValueError):  # who downloads it says what is wrong with it
                url = urljoin(self.url, url)
        return Waiting(pk, _number(answer, "challenge_phase"), status if isinstance(status, str) else "", url)

    def started(self, waiting: Waiting) -> None:
        """Say that the submission is being worked on: EvalAI starts its clock."""
        self._object("PATCH", self._update, {"submission": waiting.pk, "submission_status": "RUNNING"})

    def finished(self, waiting: Waiting, report: Report) -> None:
        """Say what became of the submission. EvalAI takes the same report again."""
        said = {
            "challenge_phase": waiting.phase,
            "submission": waiting.pk,
            "stdout": report.stdout,
            "stderr": report.stderr,
            "submission_status": "FINISHED" if report.finished else "FAILED",
            "metadata": report.metadata,
            # JSON inside a form field: a list of {split, show_to_participant, accuracies}, and no other shape
            "result": json.dumps(report.result, allow_nan=False) if report.finished else "",
        }
        self._object("PUT", self._update, said)

    def phase(self, pk: int, split: str | None = None) -> Phase:
        """The split of phase ``pk``: the only one, or the one with the code name ``split``; SetupError in doubt."""
        try:
            rows = self._ask("GET", f"/api/challenges/{self.challenge}/challenge_phase_split")
            found = [self._split(pk, row) for row in rows if row["challenge_phase"] == pk]
        except RefusedError as error:
            raise SetupError(f"the splits of phase {pk} can't be read: {error}") from None
        except (KeyError, TypeError, AttributeError):
            raise UnreachableError("the splits of the challenge have another form than EvalAI's") from None
        chosen = [phase for phase in found if split in (None, phase.split)]
        if len(chosen) == 1:
            return chosen[0]
        names = ", ".join(plain(phase.split, 100) for phase in found) or "none"
        if split is None:
            raise SetupError(f"phase {pk} has the splits {names}; say with --split which one is scored")
        raise SetupError(f"phase {pk} has no split {plain(split, 100)}; it has {names}")

    def _split(self, pk: int, row: dict[str, Any]) -> Phase:
        """One row of the challenge's phase splits; its code name is told by the split alone."""
        schema, number = row["leaderboard_schema"], _number(row, "dataset_split")
        known = self._object("GET", f"/api/challenges/challenge/create/dataset_split/{number}/")
        name, labels, ranked = known["codename"], schema["labels"], schema["default_order_by"]
        if not isinstance(labels, list) or not all(isinstance(text, str) for text in (name, ranked, *labels)):
            raise TypeError("no texts")
        return Phase(pk, name, tuple(labels), ranked)

    @property
    def _update(self) -> str:
        return f"/api/jobs/challenge/{self.challenge}/update_submission/"

    def _object(self, method: str, path: str, fields: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self._ask(method, path, fields)
        if not isinstance(answer, dict):
            raise UnreachableError(f"{method} {path}: answered with another form than EvalAI's")
        return answer

    def _ask(self, method: str, path: str, fields: dict[str, Any] | None = None) -> Any:
        """The JSON that answers."""
        data = None if fields is None else urlencode(fields).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, method=method)
        request.add_header("Accept", "application/json")
        request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            body = answer_of(request, MAX_ANSWER, self.waits, secret=self.token)
        except RefusedError as error:
            raise RefusedError(f"{method} {path}: {error}", error.status) from None
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise UnreachableError(f"{method} {path}: answered with something else than JSON") from None


def _encodes(text: str) -> bool:
    """Whether ``text`` can be sent: JSON may hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(answer: dict[str, Any], name: str) -> int:
    """A primary key, which EvalAI writes as a number or in quotes."""
    value = answer.get(name)
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise UnreachableError(f"an answer has no {name}")
    return int(text)
