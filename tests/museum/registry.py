"""The museum's register: every exhibit with its name, its story and what the referee must say of it."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Make = Callable[[Path], Path | None]
ROOMS = ("archives", "parquet", "csv", "records", "calibrators", "names", "values", "filesystem")


@dataclass(frozen=True)
class Exhibit:
    """A hostile or broken input. ``make`` spoils a good bundle's folder and may return another path to check.

    ``rules`` are all that reject, the one that owns the offence first; none: the input is harmless and accepted.
    ``usage`` is there where there is no bundle at all (exit code 2). ``process`` has the command run as a process, with
    its decoder as another: for inputs that could break or starve one.
    """

    name: str
    story: str
    rules: tuple[str, ...]
    make: Make
    process: bool
    usage: bool


EXHIBITS: dict[str, Exhibit] = {}


def show(name: str, story: str, *rules: str, make: Make, process: bool = False, usage: bool = False) -> None:
    """Put an exhibit on show."""
    assert name not in EXHIBITS, name
    EXHIBITS[name] = Exhibit(name, story, rules, make, process, usage)


def exhibit(*rules: str, process: bool = False, usage: bool = False) -> Callable[[Make], Make]:
    """Put the decorated function on show under its name; its docstring is the story."""

    def register(make: Make) -> Make:
        show(make.__name__, make.__doc__ or "", *rules, make=make, process=process, usage=usage)
        return make

    return register


def all_exhibits() -> dict[str, Exhibit]:
    """Every exhibit by name, room by room."""
    for room in ROOMS:
        importlib.import_module(f"tests.museum.{room}")
    return EXHIBITS
