"""What the user says about the files; it goes before everything that content or names tell."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from protocol.findings import plain
from protocol.types import Kind
from scorer.audit.shapes import AuditError, Loaded, Role
from scorer.audit.understanding.scale import TOLD

ROLES = tuple(role.value for role in Role if role is not Role.OTHER)
IGNORE = "none"
GRAMMAR = f"write role=column[,column]; the roles are {', '.join(ROLES)}, and {IGNORE} to ignore a column"


@dataclass(frozen=True)
class Wishes:
    """The roles and words that the user gave; empty where content and names are to tell.

    ``columns`` has column names by role; ``findings`` the label column of a finding (``label:Mass=mass_gt``).
    ``unit`` and ``cluster`` are words for people (breast, exam). ``pattern`` is a named pattern or a regex whose
    group 1 is the patient. ``classes`` are the classes in the order of the scores (binary: negative, positive), and
    ``scale`` is a key of ``TOLD``.
    """

    columns: Mapping[Role, tuple[str, ...]] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    findings: Mapping[str, str] = field(default_factory=dict)
    kind: Kind | None = None
    unit: str = ""
    cluster: str = ""
    pattern: str = ""
    classes: tuple[str, ...] = ()
    scale: str = ""

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in get_args(Kind):
            raise AuditError(f"--kind {plain(self.kind)!r} is none; the kinds are {', '.join(get_args(Kind))}")
        if self.scale and self.scale not in TOLD:
            raise AuditError(f"--scale {plain(self.scale)!r} is none; the scales are {', '.join(TOLD)}")
        twice = sorted({one for one in self.classes if self.classes.count(one) > 1})
        if twice:
            raise AuditError(f"--classes names {plain(twice[0])!r} twice; name each class once, in the order of scores")

    def named(self) -> tuple[str, ...]:
        """All columns that the user named, in the order of roles."""
        return tuple(dict.fromkeys(name for names in self.columns.values() for name in names))


def parse_map(texts: Sequence[str], **other: object) -> Wishes:
    """The wishes that ``--map`` tells, each ``role=column[,column]``; ``other`` are further fields of Wishes.

    The same role may come several times. A comma that belongs to a column's name is written ``\\,``. Raises
    :class:`AuditError` for what is no such text, an unknown role, and a column with two roles.
    """
    columns: dict[Role, tuple[str, ...]] = {}
    findings: dict[str, str] = {}
    ignored: set[str] = set()
    for text in texts:
        said, equals, rest = text.partition("=")
        names = _names(rest)
        if not equals or not names:
            raise AuditError(f"--map {plain(text)!r}: {GRAMMAR}")
        word, _, finding = said.strip().partition(":")
        role = _role(word.casefold(), text)
        if role is None:
            ignored |= set(names)
            continue
        if finding and (role is not Role.LABEL or len(names) != 1):
            raise AuditError(f"--map {plain(text)!r}: only label:FINDING=column takes a finding, with one column")
        if finding:
            findings[finding.strip()] = names[0]
        columns[role] = (*columns.get(role, ()), *names)
    _once(columns, ignored)
    return replace(Wishes(columns, frozenset(ignored), findings), **other)  # type: ignore[arg-type]


def _names(rest: str) -> tuple[str, ...]:
    parts = rest.replace("\\,", "\x00").split(",")
    return tuple(part.strip().replace("\x00", ",") for part in parts if part.strip())


def _role(word: str, text: str) -> Role | None:
    if word == IGNORE:
        return None
    word = {"scores": "score", "labels": "label", "probabilities": "score", "id": "unit", "image": "unit"}.get(
        word, word
    )
    if word in ROLES:
        return Role(word)
    near = difflib.get_close_matches(word, (*ROLES, IGNORE), n=1)
    hint = f"; meant is {near[0]!r}?" if near else ""
    raise AuditError(f"--map {plain(text)!r}: no role {plain(word)!r}{hint}; {GRAMMAR}")


def _once(columns: Mapping[Role, Sequence[str]], ignored: set[str]) -> None:
    seen: dict[str, str] = dict.fromkeys(ignored, IGNORE)
    for role, names in columns.items():
        for name in names:
            if name in seen:
                raise AuditError(
                    f"--map gives column {plain(name)!r} two roles, {seen[name]} and {role.value}; keep one"
                )
            seen[name] = role.value


def need(wishes: Wishes, tables: Sequence[Loaded]) -> None:
    """:class:`AuditError` where a column that the user named is in none of ``tables``; it names near ones."""
    there = list(dict.fromkeys(name for one in tables for name in one.frame.columns))
    for name in (*wishes.named(), *sorted(wishes.ignored)):
        if name in there:
            continue
        near = difflib.get_close_matches(name.casefold(), [one.casefold() for one in there], n=1, cutoff=0.6)
        meant = next((one for one in there if near and one.casefold() == near[0]), "")
        hint = f"; meant is {plain(meant)!r}?" if meant else ""
        listed = ", ".join(repr(plain(one, 60)) for one in there[:12]) + (" ..." if len(there) > 12 else "")
        raise AuditError(f"--map: no file has a column {plain(name)!r}{hint}; the columns are {listed}")
