"""The declared objective of a calibration method, read out of its words (step 3).

What a method leaves out is none, and its loss is that of its family. The words understood are those below; others are
no offence, but what they mean can't be checked.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from protocol.submission import Family, Method

Loss = Literal["nll", "squared", "ece"]
Binning = tuple[Literal["equal-mass", "equal-width"], int]
MAX_GRID = 100_000
STRONGEST = 1e12  # of a penalty: beyond it sums overflow

NLL = ("mean negative log-likelihood", "negative log-likelihood", "nll", "log loss", "log-loss", "cross-entropy",
       "cross entropy", "mean cross-entropy")  # fmt: skip
SQUARED = ("mean squared error", "squared error", "mse", "brier", "brier score", "least squares")
ECE = re.compile(r"(?:ece|expected calibration error)(?: with (\d+) equal-(mass|width) bins)?")
NUMBER = r"([0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?)"
RANGE = re.compile(rf"(?:temperature|t|values)?[ =]*(?:from |in )?[\[(]?{NUMBER}(?: to |, | - |,|-){NUMBER}[\])]?")
LOSS_OF: dict[Family, Loss] = {"isotonic": "squared", "histogram": "squared"}  # all others: nll


@dataclass(frozen=True)
class Objective:
    """What a calibrator minimises on the calibration rows.

    ``loss`` is a mean over rows: ``nll`` (natural log), ``squared`` or ``ece`` (with ``binning``). ``ridge`` adds ridge
    times the sum of squared slopes (intercepts are free); ``ridge_c`` is the same with 1/(2 C n) in place of ridge;
    ``odir`` (lambda, mu) adds lambda times the mean squared off-diagonal weight and mu times the mean squared
    intercept. ``smoothing`` moves the targets: ``platt`` puts (n1 + 1)/(n1 + 2) and 1/(n0 + 2) for 1 and 0, a number e
    puts (1 - e) times the one-hot target plus e/K. ``bounds`` and ``grid`` are of the temperature
    (``bounds`` also of isotonic values); ``binning`` is also
    that of a histogram.
    """

    loss: Loss
    ridge: float = 0.0
    ridge_c: float | None = None
    odir: tuple[float, float] | None = None
    smoothing: Literal["none", "platt"] | float = "none"
    bounds: tuple[float, float] | None = None
    grid: tuple[float, ...] | None = None
    binning: Binning | None = None

    @property
    def penalised(self) -> bool:
        """True when the objective is more than its loss."""
        return self.ridge > 0 or self.ridge_c is not None or self.odir is not None


def objective_of(method: Method) -> Objective | str:
    """The objective that ``method`` declares, or a sentence that says which part of it is not understood."""
    parts: dict[str, object] = {"loss": LOSS_OF.get(method.family, "nll")}
    readers: dict[str, Callable[[str], dict[str, object] | None]] = {
        "loss": _loss,
        "penalty": _penalty,
        "target_smoothing": _smoothing,
        "bounds": _bounds,
        "grid": _grid,
    }
    for name, read in readers.items():
        text = " ".join((getattr(method, name) or "none").casefold().split()).rstrip(".")
        if text in ("none", "no", "not used"):
            continue
        found = read(text)
        if found is None:
            return f"{name} of method {method.name} is not in words that the referee knows (PROTOCOL.md, section 6)"
        parts |= found
    if method.family in ("histogram", "scaling-binning"):
        parts.setdefault("binning", ("equal-mass", 15))
    return Objective(**parts)  # type: ignore[arg-type]


def _loss(text: str) -> dict[str, object] | None:
    text = re.sub(r" (?:per|of each) (?:finding|class)$", "", text)
    if text in NLL or text in SQUARED:
        return {"loss": "nll" if text in NLL else "squared"}
    if found := ECE.fullmatch(text):
        bins = (f"equal-{found[2]}", int(found[1])) if found[1] else ("equal-mass", 15)
        return {"loss": "ece", "binning": bins} if 1 <= bins[1] <= 1000 else None
    return None


def _penalty(text: str) -> dict[str, object] | None:
    if found := re.fullmatch(rf"l2 {NUMBER}", text):
        return {"ridge": float(found[1])} if float(found[1]) <= STRONGEST else None
    if found := re.fullmatch(rf"l2 with c ?= ?{NUMBER}", text):
        return {"ridge_c": float(found[1])} if 1.0 / STRONGEST <= float(found[1]) < math.inf else None
    if found := re.fullmatch(rf"odir (?:lambda )?{NUMBER},? (?:mu )?{NUMBER}", text):
        odir = float(found[1]), float(found[2])
        return {"odir": odir} if max(odir) <= STRONGEST else None
    return None


def _smoothing(text: str) -> dict[str, object] | None:
    if text in ("platt", "platt targets", "platt's targets"):
        return {"smoothing": "platt"}
    found = re.fullmatch(rf"label smoothing {NUMBER}", text)
    return {"smoothing": float(found[1])} if found and 0 < float(found[1]) < 1 else None


def _bounds(text: str) -> dict[str, object] | None:
    if text.replace(" ", "") in ("temperature>0", "t>0", "positive", "a,b>=0", "a>=0,b>=0"):
        return {}  # what the family promises anyway
    found = RANGE.fullmatch(text)
    if not found or not 0 < float(found[1]) < float(found[2]) < math.inf:
        return None
    return {"bounds": (float(found[1]), float(found[2]))}


def _grid(text: str) -> dict[str, object] | None:
    if found := re.fullmatch(r"(\d+) equal-(mass|width) bins", text):
        return {"binning": (f"equal-{found[2]}", int(found[1]))} if 1 <= int(found[1]) <= 1000 else None
    grid: tuple[float, ...] = ()
    if found := re.fullmatch(rf"(?:from )?{NUMBER} to {NUMBER} by {NUMBER}", text):
        low, high, step = (float(found[i]) for i in (1, 2, 3))
        if 0 < low < high < math.inf and step > 0 and (high - low) / step < MAX_GRID:
            grid = tuple(low + i * step for i in range(int((high - low) / step + 1e-9) + 1))
    elif found := re.fullmatch(rf"(?:from )?{NUMBER} to {NUMBER} in (\d+) (log )?steps", text):
        low, high, count = float(found[1]), float(found[2]), int(found[3])
        if 0 < low < high < math.inf and 1 <= count < MAX_GRID:
            shares = [i / count for i in range(count + 1)]
            grid = tuple(low * (high / low) ** s if found[4] else low + (high - low) * s for s in shares)
    elif re.fullmatch(rf"{NUMBER}(?:, ?{NUMBER})+", text):
        grid = tuple(sorted(float(part) for part in text.split(",")))
    return {"grid": grid} if grid and grid[0] > 0 and grid[-1] < math.inf else None
