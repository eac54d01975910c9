"""What a claim search found, for programs and for people."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from protocol.findings import plain
from scorer.audit.claims.claim import Claim
from scorer.audit.claims.matching import CUT, PERCENT, ROUNDED

MANY = 4  # claims of one metric on several targets: one line each, the joint table says the rest
MAX_LINES = 40
MAX_SAMPLES = 10


@dataclass(frozen=True)
class Match:
    """Definitions in words that give ``low`` .. ``high`` (fractions), ``count`` of them, on the predictions ``where``;
    ``how`` is 'rounded' or 'cut off', ``scale`` 'fraction' or 'percent'."""

    words: str
    low: float
    high: float
    count: int
    where: str
    how: str
    scale: str

    @property
    def shown(self) -> str:
        """The value, and in which way it is the claim."""
        size, sign = (100.0, "%") if self.scale == PERCENT else (1.0, "")
        value = f"{self.low * size:.6g}{sign}"
        if self.high - self.low > 1e-9:
            value += f" to {self.high * size:.6g}{sign}"
        return value + (" (digits cut off)" if self.how == CUT else "")


@dataclass(frozen=True)
class Searched:
    """One claim. ``matches`` are those by rounding, then by cutting digits off; ``reproduced`` counts definitions that
    match by rounding, ``cut`` those that match only with digits cut off. ``nearest`` is the nearest miss, ``distance``
    away (a fraction). ``tried`` definitions gave ``distinct`` values; ``chance`` is the share of numbers near the claim
    that one of them would reproduce for no reason. ``left_out`` names definitions not tried for want of time,
    ``problem`` says why the claim can't be checked; '' for nothing."""

    claim: Claim
    where: str = ""
    matches: tuple[Match, ...] = ()
    reproduced: int = 0
    cut: int = 0
    nearest: Match | None = None
    distance: float = float("nan")
    tried: int = 0
    distinct: int = 0
    chance: float = float("nan")
    left_out: str = ""
    problem: str = ""

    @property
    def status(self) -> str:
        """'reproduced', 'cut off' (only then), 'not reproduced' or 'cannot be checked'."""
        if self.problem:
            return "cannot be checked"
        return "reproduced" if self.reproduced else "cut off" if self.cut else "not reproduced"

    @property
    def head(self) -> str:
        """The claim and what came of it, in one line."""
        of = f" [{self.claim.where}]" if self.claim.where else ""
        start = f"{self.claim.metric}{of} = {plain(self.claim.text.split('=')[-1].strip(), 40)}: "
        if self.problem:
            return f"{start}cannot be checked: {plain(self.problem, 600)}"
        tried = f"{_count(self.tried, 'definition')} tried, {_count(self.distinct, 'distinct value')}"
        luck = f"a number near it matches one by chance in {_percent(self.chance)} of cases"
        if self.reproduced:
            return f"{start}reproduced by {self.reproduced:,} ({tried}; {luck})"
        if self.cut:
            return f"{start}reproduced by {self.cut:,} only if digits are cut off, by none if rounded ({tried})"
        return f"{start}reproduced by none ({tried})"

    @property
    def miss(self) -> str:
        """The nearest miss in words, '' without one."""
        if self.nearest is None:
            return ""
        size, sign = (100.0, "%") if self.nearest.scale == PERCENT else (1.0, "")
        where = f" [{self.nearest.where}]" if self.nearest.where != self.where else ""
        off = f"{self.distance * size:.2g}{sign}"
        return f"nearest miss {self.nearest.shown}, off by {off}: {self.nearest.words}{where}"


@dataclass(frozen=True)
class Ranked:
    """Definitions that give the same values on all targets, in words, how many ``definitions`` they are, and how many
    claims they reproduce; ``how`` as in :class:`Match`."""

    words: tuple[str, ...]
    definitions: int
    reproduced: int
    how: str


@dataclass(frozen=True)
class Joint:
    """Claims of one metric on several targets. ``best`` are the definitions that reproduce most, falling; ``beside``
    the first of them with other usual numbers of bins. ``average`` is how many claims a definition reproduces on
    average over the ``distinct`` ones; ``missed`` are claims that the best one does not reproduce."""

    metric: str
    column: str
    scale: str
    claims: int
    best: tuple[Ranked, ...]
    beside: tuple[Ranked, ...]
    tried: int
    distinct: int
    average: float
    missed: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """For people."""
        name = f"{self.metric} (column {plain(self.column, 60)})" if self.column else self.metric
        yield (
            f"{name}: {self.claims} claims together, {self.tried:,} definitions tried, {self.distinct:,} distinct;"
            f" one reproduces {self.average:.1f} on average"
        )
        if self.best[0].reproduced < 2:
            yield f"    no definition reproduces more than {self.best[0].reproduced} of them"
            return
        for one in (*self.best, *self.beside):
            cut = " (digits cut off)" if one.how == CUT else ""
            same = f" (the same here: {'; '.join(one.words[1:4])})" if len(one.words) > 1 else ""
            more = f" and {len(one.words) - 4} more" if len(one.words) > 4 else ""
            yield f"    {one.reproduced} of {self.claims}{cut}: {one.words[0]}{same}{more}"
        if self.missed:
            left = self.claims - self.best[0].reproduced - len(self.missed)
            rest = f" and {left} more" if left > 0 else ""
            yield f"    not reproduced by the first: {'; '.join(self.missed)}{rest}"


@dataclass(frozen=True)
class ClaimSearch:
    """All claims in the order given, and those of one metric on several targets together."""

    claims: tuple[Searched, ...]
    joint: tuple[Joint, ...] = ()

    def of(self, status: str) -> tuple[Searched, ...]:
        """The claims of a :attr:`Searched.status`."""
        return tuple(one for one in self.claims if one.status == status)

    @property
    def summary(self) -> str:
        """One line that counts the claims by what came of them."""
        kinds = ("reproduced", "cut off", "not reproduced", "cannot be checked")
        words = {"cut off": "reproduced only with digits cut off"}
        counts = [(kind, len(self.of(kind))) for kind in kinds]
        parts = [f"{count} {words.get(kind, kind)}" for kind, count in counts if count]
        return f"{_count(len(self.claims), 'claim')}: {', '.join(parts) or 'none'}"

    def lines(self) -> list[str]:
        """For people: escaped, joint tables first, then each claim with every match by rounding (those with digits
        cut off where there is no other), or one line a claim where many are shown together."""
        out = [line for joint in self.joint for line in joint.lines()]
        together = {(one.metric, one.column) for one in self.joint if one.claims >= MANY}
        for one in self.claims:
            short = (one.claim.metric, one.claim.column) in together
            out += one.head, *(() if one.problem else _rest(one, short))
        return out

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with every match; NaN is null."""
        return {
            "summary": self.summary,
            "claims": [_jsonable({**asdict(one), "status": one.status, "text": one.head}) for one in self.claims],
            "joint": [_jsonable(asdict(one)) for one in self.joint],
        }


def _rest(one: Searched, short: bool) -> Iterator[str]:
    shown = [match for match in one.matches if match.how == ROUNDED or not one.reproduced]
    for match in () if short and one.reproduced else shown[:MAX_LINES]:
        where = f" [{match.where}]" if match.where != one.where else ""
        yield f"    {match.shown}: {match.words}{where}"
    if len(shown) > MAX_LINES and not (short and one.reproduced):
        yield f"    and {len(shown) - MAX_LINES} more lines of matches; the JSON output has them all"
    if one.miss and not (short and one.reproduced):
        yield f"    {one.miss}"
    if one.left_out and not one.reproduced:
        yield f"    not tried, since there are so many rows and classes: {one.left_out}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _percent(share: float) -> str:
    return "under 0.1 %" if share < 0.001 else f"{share * 100:.2g} %" if share < 0.995 else "nearly all"


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _jsonable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(one) for one in value]
    return None if isinstance(value, float) and not (abs(value) < float("inf")) else value
