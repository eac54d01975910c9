"""Printed figures beside those that the table gives."""

import math
from collections.abc import Mapping

from scorer.audit.shapes import AuditError, Finding, Level
from scorer.audit.table.cells import half_unit, number
from scorer.audit.table.layout import Alternative

Figures = Mapping[str, int | float]


def agrees(printed: str, value: float, slack: float = 0.0) -> bool:
    """Whether ``value``, known within ``slack``, can be printed as ``printed``: '0.0881', or '<0.001'.

    Raises AuditError for what is no number.
    """
    text, below = _bare(printed)
    return value < float(text) + slack if below else abs(float(text) - value) <= half_unit(text) + slack


def chance_of(printed: str | int, lowest: float, highest: float, slack: float = 0.0) -> float:
    """The share of numbers between ``lowest`` and ``highest`` that agree with what is printed."""
    if isinstance(printed, int):
        return 1 / (1 + max(0.0, math.floor(highest) - math.ceil(lowest)))
    text, below = _bare(printed)
    width = float(text) - lowest if below else 2 * (half_unit(text) + slack)
    return min(1.0, max(0.0, width / (highest - lowest))) if highest > lowest else 1.0


def below_level(printed: str, level: float = 0.05) -> bool:
    """Whether a printed p-value is below ``level``."""
    text, below = _bare(printed)
    return float(text) <= level if below else float(text) < level


def _bare(printed: str) -> tuple[str, bool]:
    text = printed.strip().removeprefix("p").strip().removeprefix("=")
    below = text.startswith("<")
    read = number(text.removeprefix("<"))
    if read is None or read.percent:
        raise AuditError(f"the layout states {printed!r} where a number is wanted; write it as printed, '0.0881'")
    return read.text, below


def compared(
    name: str,
    printed: Mapping[str, str | int | None],
    found: Figures,
    how: str,
    ranges: Mapping[str, tuple[float, float]],
    slack: float = 0.0,
) -> Finding:
    """Printed figures beside those found; counts must be equal, others agree within rounding.

    ``ranges`` has what each figure could be at least and at most: from it comes how often it would agree by chance.
    """
    stated = {key: text for key, text in printed.items() if text is not None}
    if not stated:
        raise AuditError(f"{name}: the layout states no figure; give one of {', '.join(printed)}")
    wrong = [
        key for key, text in stated.items()
        if (text != found[key] if isinstance(text, int) else not agrees(text, float(found[key]), slack))
    ]  # fmt: skip
    said = tuple(
        (f"{key}: printed {printed[key]}, found " if printed.get(key) is not None else f"{key}: found ") + _said(value)
        for key, value in found.items()
    )
    each = {key: chance_of(text, *ranges[key], slack=slack) for key, text in stated.items()}
    tail = f"{len(stated) - len(wrong)} of {len(stated)} printed figures reproduce" + (
        f"; {', '.join(wrong)} do not" if wrong else ""
    )
    return Finding(
        Level.CONTRADICTION if wrong else Level.NOTE, "figures-differ" if wrong else "figures-reproduced",
        f"{name}: {tail}", max(1, len(wrong)), said, assumption=how,
        chance="a figure anywhere in its range would agree by chance in "
        + ", ".join(f"{share:.2g} ({key})" for key, share in each.items()) + " of cases",
        explanation="another choice of methods or places, or values before rounding" if wrong else "",
    )  # fmt: skip


def p_value(
    name: str, test: str, printed: str, stated: Alternative | None, found: Mapping[tuple[Alternative, str], float],
    assumption: str,
) -> Finding:  # fmt: skip
    """A printed p-value beside those of each alternative and method."""
    matching = [key for key, value in found.items() if agrees(printed, value)]
    two = next(value for (alternative, _), value in found.items() if alternative == "two-sided")
    said = tuple(f"{alternative}, {method}: {value:.4f}" for (alternative, method), value in found.items())
    wanted = stated or "two-sided"
    if any(alternative == wanted for alternative, _ in matching):
        level, code, tail = Level.NOTE, "p-reproduced", f"reproduces as {_listed(matching)}"
    elif matching:
        level, code = Level.WARNING, "p-of-another-alternative"
        tail = f"reproduces only as {_listed(matching)}; two-sided it is {two:.4f}"
        if (two < 0.05) != below_level(printed):
            tail += ", on the other side of 0.05"
    else:
        level, code, tail = Level.WARNING, "p-not-reproduced", f"does not reproduce; two-sided it is {two:.4f}"
    share = min(1.0, chance_of(printed, 0.0, 1.0) * len(found))
    return Finding(
        level, code, f"{name}: {test} p = {printed} {tail}", 1, said,
        assumption=assumption
        + (f"the source says {stated}" if stated else "no alternative is stated, so two-sided is expected"),
        chance=f"{len(found)} tests were tried; a p printed with as many digits agrees with one of them by chance in "
        f"about {share:.1%} of cases",
        explanation=""
        if code == "p-reproduced"
        else "a directed hypothesis that the text does not state, or values before rounding",
    )  # fmt: skip


def _listed(keys: list[tuple[Alternative, str]]) -> str:
    return " or ".join(f"{alternative} ({method})" for alternative, method in keys)


def _said(value: float) -> str:
    return str(value) if isinstance(value, int) else format(value, ".4f")
