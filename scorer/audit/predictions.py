"""Audit of released predictions: read, understand, measure, judge, and search what was claimed."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from scorer.audit.claims import Claim, parse_claim, read_claims, search
from scorer.audit.judging.findings import findings_of
from scorer.audit.judging.listed import Listed, listed
from scorer.audit.judging.measure import MOST, measure
from scorer.audit.judging.releases import Facts
from scorer.audit.judging.report import PredictionAudit
from scorer.audit.judging.steps import steps_of
from scorer.audit.reading import read
from scorer.audit.shapes import AuditError, Loaded
from scorer.audit.understanding import Wishes, parse_map, understand
from splits.errors import SplitError

Progress = Callable[[str], None]


def audit_predictions(
    files: Sequence[Path],
    *,
    labels: Path | None = None,
    splits: Path | None = None,
    wishes: Wishes | None = None,
    claims: Sequence[str] = (),
    claim_file: Path | None = None,
    encoding: str = "utf-8",
    resamples: int = MOST,
    progress: Progress | None = None,
) -> PredictionAudit:
    """Audit the predictions in ``files`` against the protocol.

    ``labels`` and ``splits`` are tables joined by id. ``claims`` are texts such as ``ece=3.43%``, ``claim_file`` a
    table of them; values that a file's name states are claims too. ``progress(what)`` is told each step. Raises
    :class:`scorer.audit.shapes.AuditError` for what can't be used: what was seen and the mend.
    """
    tell: Progress = progress or (lambda what: None)
    stated = [parse_claim(text) for text in claims]
    if resamples < 1:
        raise AuditError(f"resamples must be 1 or more, not {resamples}")
    try:
        tell("reading")
        loaded = [table for file in files for table in read(file, encoding=encoding)]
        label_table = _single(labels, "labels", encoding)
        split_table = _single(splits, "splits", encoding)
        if claim_file is not None:
            stated += [claim for table in read(claim_file, encoding=encoding) for claim in read_claims(table)]
        tell("understanding")
        evidence = understand(loaded, label_table, split_table, wishes or Wishes())
    except SplitError as error:
        raise AuditError(str(error)) from error
    named = list(_in_names(loaded))
    tell("measuring")
    measures = measure(evidence, most=resamples, progress=tell)
    lists = Listed()
    if splits is not None:
        tell("checking splits")
        lists = listed(splits, pattern=wishes.pattern if wishes else "", encoding=encoding)
    findings = findings_of(evidence, measures, lists.findings)
    tell("searching claims")
    searched = search([*stated, *(claim for claim, _ in named)], evidence.sets, tell)
    counts = len(searched.of("reproduced")) + len(searched.of("cut off")), len(searched.of("not reproduced"))
    facts = Facts(evidence, measures, findings, (*counts, len(searched.of("cannot be checked"))), lists)
    return PredictionAudit(
        evidence=evidence,
        measures=measures,
        findings=findings,
        steps=steps_of(facts),
        claims=searched,
        notes=tuple(note for _, note in named),
    )


def wishes_of(mapped: Sequence[str], *, classes: str = "", **words: str) -> Wishes:
    """The wishes of ``--map`` and its companions, all as texts; ``classes`` are separated by commas."""
    names = tuple(name.strip() for name in classes.split(",")) if classes.strip() else ()
    return parse_map(mapped, classes=names, kind=words.pop("kind", "") or None, **words)


def _single(path: Path | None, what: str, encoding: str) -> Loaded | None:
    if path is None:
        return None
    tables = read(path, encoding=encoding)
    if len(tables) != 1:
        names = ", ".join(table.name for table in tables[:5])
        raise AuditError(f"{what}: {path} holds {len(tables)} tables ({names}); give one file with one table")
    return tables[0]


def _in_names(tables: Sequence[Loaded]) -> Iterator[tuple[Claim, str]]:
    """Claims that the names of files state, each with a note that says so."""
    for table in tables:
        for key, value in table.facts.items():
            if key.startswith("claim:"):
                metric = key.removeprefix("claim:")
                yield parse_claim(f"{metric}={value}"), f"claim {metric}={value} is from the name of {table.name}"
