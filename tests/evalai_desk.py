"""A worker for EvalAI at its desk: a scorer that does as it is told, and the EvalAI of tests/evalai.py."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from protocol.findings import Finding, Level, Outcome, RuleResult, Verdict
from scorer.evalai.api import Server
from scorer.evalai.runs import Run
from scorer.evalai.worker import Worker
from tests.evalai import CHALLENGE, QUEUE, TOKEN, EvalAI, Store, evalai

PROMPT = (0.01, 0.01)
ACCURACIES = {"brier_binary": 0.1234, "brier_binary_lo": 0.1, "accuracy": 0.9, "n_images": 142}
RESULT = [{"split": "test", "show_to_participant": True, "accuracies": ACCURACIES}]
RECORD = b'{"payload":"e30="}'
RULE = RuleResult(
    *("MVC106", "test-split-missing", 1, Level.MUST, "There is no test split", "Reserve patients.", Outcome.FAILED),
    findings=(Finding("splits.csv: \x1b[31msplit", "no row with test", "a test split", 12, ("a\u202eb", "c")),),
)
FOR_THE_HOST = replace(RULE, rule="MVC999", level=Level.HOST, visibility="host")


def documents(*results: RuleResult, result: Any = RESULT) -> dict[str, str]:
    """What a scorer leaves: a verdict, and a result unless it rejects."""
    verdict = json.dumps(Verdict("2026.1", "example-1", "a-task", results).to_dict())
    files = {"record.json": RECORD.decode(), "verdict.json": verdict}
    return files if results else {**files, "result.json": json.dumps(result)}


@dataclass
class Script:
    """A scorer that leaves ``files``, prints what nobody may see, and exits with ``code``; ``more`` is Python."""

    folder: Path
    files: dict[str, str]
    code: int = 0
    more: str = ""

    def why_not(self) -> str:
        """It can be started."""
        return ""

    def started_by(self, run: Run) -> list[str]:
        """Python, with the folders as the layout has them."""
        (self.folder / "files.json").write_text(json.dumps(self.files))
        program = (
            "import json, os, pathlib, sys\n"
            "submission, output, kept = map(pathlib.Path, sys.argv[1:])\n"
            "print('raw output', file=sys.stderr); print('raw output')\n"
            "seen = {'names': os.listdir(submission), 'token': 'AUTH_TOKEN' in os.environ}\n"
            "seen['bytes'] = [p.read_text() for p in submission.iterdir()]\n"
            "(kept / 'seen.json').write_text(json.dumps(seen))\n"
            "left = json.loads((kept / 'files.json').read_text())\n"
            "for name, text in left.items(): (output / name).write_text(text)\n"
            "result = output / 'result.json'\n"
            f"{self.more}\nsys.exit({self.code})\n"
        )
        return [sys.executable, "-S", "-c", program, str(run.submission), str(run.output), str(self.folder)]

    def stopped_by(self, run: Run, *, left: bool = False) -> list[str]:
        """Signals reach it."""
        return []

    def never_ran(self, code: int) -> bool:
        """As a container engine has it."""
        return code == 125

    @property
    def seen(self) -> dict[str, Any]:
        """What the last run found."""
        return dict(json.loads((self.folder / "seen.json").read_text()))


@dataclass
class Desk:
    """A worker, its scorer, and the EvalAI that it works for."""

    state: EvalAI
    store: Store
    worker: Worker
    scorer: Script
    said: list[str]

    def submit(self, pk: int = 7, name: str = "x.zip") -> None:
        """A team uploads a file."""
        self.store.files[f"/media/{name}"] = b"the bundle"
        self.state.submit(pk, f"{self.store.url}/media/{name}?X-Amz-Signature=secret")

    def once(self) -> bool:
        """Handle what is queued; what was left before can be seen again."""
        self.state.come_again()
        return self.worker.run(once=True)

    @property
    def log(self) -> str:
        """What the host reads."""
        return "\n".join(self.said)


@contextmanager
def a_desk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A worker with an accepting scorer and nothing queued."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AUTH_TOKEN", TOKEN)
    (folder / "annotation").mkdir()
    said: list[str] = []
    with evalai() as (state, store):
        server = Server(state.url, TOKEN, QUEUE, CHALLENGE, waits=PROMPT)
        scorer = Script(folder, documents())
        worker = Worker(server, scorer, folder / "annotation", folder / "save", say=said.append)
        yield Desk(state, store, worker, scorer, said)
