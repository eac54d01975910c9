"""What a terminal shows of a running baseline: a bar a stage; lines from time to time where there is no terminal."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from submission.baseline.seeds import Event

NARROW = 110  # columns of a terminal on which bars and notes are short
EVERY = 10.0  # seconds between two lines of a stage where no bar can be drawn
WORDS = {"images": "image features", "views": "views", "training": "training", "predictions": "predictions"}


class Bars:
    """Shows events and steps on standard error; ``progress`` is rich's, or None where it is no terminal."""

    def __init__(self, console: Any, progress: Any) -> None:
        self._console, self._progress = console, progress
        self._tasks: dict[str, Any] = {}
        self._said: dict[str, float] = {}

    def say(self, line: str) -> None:
        """One line, above the bars."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def report(self, event: "Event") -> None:
        """Show an event of a run."""
        seed = f"seed {event.seed}: " if event.stage != "images" and event.seed else ""
        note = shown(event.values)
        if self._progress is not None and self._console.width < NARROW:
            note = note.replace("val accuracy", "acc").replace("val nll", "nll")
        self.step(f"{seed}{WORDS.get(event.stage, event.stage)}", event.done, event.total, note)

    def step(self, stage: str, done: int, total: int, note: str = "") -> None:
        """``done`` of ``total`` of a stage are done."""
        if self._progress is None:
            now = time.monotonic()
            if done >= total or now - self._said.get(stage, now - EVERY) >= EVERY:
                self._said[stage] = now
                self.say(f"{stage}: {done} of {total} {note}".rstrip())
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=total, note=note)
        self._progress.update(self._tasks[stage], completed=done, total=total, note=note)


def shown(values: Mapping[str, float]) -> str:
    """``loss 0.812  val accuracy 0.702  val nll 0.741``: what is live in an epoch."""
    wanted = [name for name in values if name == "loss" or name.startswith("val_")]
    return "  ".join(f"{name.replace('_', ' ')} {values[name]:.3f}" for name in wanted)


@contextlib.contextmanager
def bars() -> Iterator[Bars]:
    """Bars on standard error while the block runs."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Bars(console, None)
        return
    columns = (  # on a narrow terminal the note wraps, and nothing else
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        BarColumn(bar_width=8 if console.width < NARROW else 24),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console) as progress:
        yield Bars(console, progress)
