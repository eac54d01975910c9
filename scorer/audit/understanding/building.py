"""Prediction sets from the rows of a table: one a model, seed, calibrator and task."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.types import Kind
from scorer.audit.shapes import AuditError, Codes, Finding, Floats, PredictionSet, Role, Scale, Scaled
from scorer.audit.understanding import labels as told
from scorer.audit.understanding.attaching import Rows
from scorer.audit.understanding.blocks import Block, argmax, blocks, sampled
from scorer.audit.understanding.joining import key_of
from scorer.audit.understanding.labels import Indexed, Truth
from scorer.audit.understanding.scale import Result, of_classes, of_findings, of_one
from scorer.audit.understanding.wishes import Wishes
from splits.units import coded

MOST_SETS = 20_000


@dataclass(frozen=True)
class Codings:
    """(N,) codes of the rows of one table, by what they stand for; None where nothing is known."""

    unit: Codes | None
    cluster: Codes | None
    site: Codes | None
    split: Codes | None
    fold: Codes | None


@dataclass(frozen=True)
class Group:
    """Rows of one run: the texts of its model, seed, calibrator and task, '' where no column tells."""

    model: str
    seed: str
    calibrator: str
    task: str
    rows: NDArray[np.intp] | None  # None: all


def groups(rows: Rows) -> list[Group]:
    """The runs in a table, in the order of their texts."""
    table = rows.table
    parts: list[pl.Series | None] = []
    for names in (*((table.roles.of(role)) for role in (Role.MODEL, Role.SEED, Role.CALIBRATOR)), table.tasks):
        parts.append(_joined(table.frame, names) if names else None)
    facts = table.loaded.facts
    plain = [facts.get("model", ""), facts.get("seed", ""), facts.get("calibrator", ""), facts.get("task", "")]
    known = [(k, coded(part)) for k, part in enumerate(parts) if part is not None]
    if not known:
        return [_group(plain, None)]
    whole = np.zeros(table.frame.height, dtype=np.int64)
    for _, one in known:
        whole = np.unique(whole * (len(one.names) + 1) + one.codes + 1, return_inverse=True)[1]
    order = np.argsort(whole, kind="stable")
    starts = np.flatnonzero(np.concatenate(([True], np.diff(whole[order]) > 0)))
    if len(starts) > MOST_SETS:
        raise AuditError(
            f"{table.loaded.name}: {len(starts):,} runs by model, seed, calibrator and task; map fewer columns"
        )
    out = []
    for at in np.split(order, starts[1:]):
        texts = list(plain)
        for k, one in known:
            code = int(one.codes[at[0]])
            texts[k] = str(one.names[code]) if code >= 0 else ""
        out.append(_group(texts, at if len(starts) > 1 else None))
    return out


def _group(texts: Sequence[str], rows: NDArray[np.intp] | None) -> Group:
    model, seed, calibrator, task = texts
    return Group(model, seed, calibrator, task, rows)


def _joined(frame: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """Texts of columns put together with a comma."""
    parts = [key_of(frame, [name]).fill_null("").alias(str(k)) for k, name in enumerate(names)]
    return pl.DataFrame(parts).select(pl.concat_str(pl.all(), separator=", ").alias("task")).to_series()


def numbers(frame: pl.DataFrame, columns: Sequence[str]) -> Floats:
    """(N, K) float64 of ``columns``, NaN where a cell is no number."""
    out = np.empty((frame.height, len(columns)), dtype=np.float64, order="F")
    for k, name in enumerate(columns):
        out[:, k] = frame[name].cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
    return out


@dataclass
class Builder:
    """Builds the sets of one table; ``label`` names the file among several, '' for one."""

    rows: Rows
    codings: Codings
    wishes: Wishes
    label: str
    findings: list[Finding]

    def sets(self) -> Iterator[PredictionSet]:
        """The sets, without names that are unique among files."""
        table = self.rows.table
        runs = groups(self.rows)
        columns = table.roles.of(Role.SCORE)
        if columns:
            scores = numbers(table.frame, columns)
            for run in runs:
                own = scores if run.rows is None else scores[run.rows]
                yield from self._scored(run, columns, own)
        elif table.roles.of(Role.CONFIDENCE) and table.roles.of(Role.PREDICTED):
            for run in runs:
                yield self._top_one(run)
        else:
            for run in runs:
                yield self._without(run)

    def _truths(self, run: Group) -> tuple[Truth, ...]:
        if run.rows is None:
            return self.rows.truths
        out = []
        for one in self.rows.truths:
            codes = one.codes[run.rows]
            used = np.unique(codes[codes >= 0])
            table = np.full(len(one.names) + 1, -1, dtype=np.int64)
            table[used] = np.arange(len(used))
            names = tuple(one.names[k] for k in used.tolist())
            out.append(Truth(one.column, names, table[codes], int((codes < 0).sum()), 0))
        return tuple(out)

    def _scored(self, run: Group, columns: Sequence[str], scores: Floats) -> Iterator[PredictionSet]:
        loaded = self.rows.table.loaded
        precision = dict(zip(columns, (loaded.precision.get(name, "float64") for name in columns), strict=True))
        truths = self._truths(run)
        whole = blocks(
            columns, sampled(scores), tuple(precision.values()), truths, self.wishes.kind,
            header=loaded.header, told=self.wishes.scale, chosen=self.wishes.classes,
        )  # fmt: skip
        for block in whole:
            at = [columns.index(name) for name in block.columns]
            own = scores if at == list(range(len(columns))) else scores[:, at]
            yield self._one(run, block, own, tuple(precision[name] for name in block.columns), truths, len(whole))

    def _one(
        self, run: Group, block: Block, scores: Floats, precision: tuple[str, ...], truths: tuple[Truth, ...], of: int
    ) -> PredictionSet:
        scaled, p = self._scale(block, scores, precision)
        indexed = self._labels(block, truths, run.task)
        if indexed is not None:
            self.findings += indexed.findings
        classes = indexed.classes if indexed is not None else _classes(block, self.wishes.classes)
        kind = block.kind
        columns = block.columns
        notes = tuple(text for text in (block.note, indexed.note if indexed else "") if text)
        if kind == "binary" and len(columns) == 2:
            scores, columns, precision = scores[:, 1:], columns[1:], precision[1:]
            p = None if p is None else p[:, 1:]
            if scaled.scale is Scale.PROBABILITIES:
                scaled = Scaled(Scale.PROBABILITY, scaled.usable, scaled.ranked, scaled.why, scaled.changed)
        parts = self._parts(run)
        several = of > 1
        name = " / ".join(part for part in (*parts, block.model if several else "") if part)
        model = run.model or (block.model if several else "") or self.label or _stem(self.rows.table.loaded.name)
        y = None if indexed is None else indexed.y
        return self._set(run, name or block.columns[0] if len(columns) == 1 else name or model, model, kind, classes,
                         columns, scaled, scores, p, y, precision, notes)  # fmt: skip

    def _parts(self, run: Group) -> list[str]:
        seed = f"seed {run.seed}" if run.seed else ""
        file = "" if self.label or run.model or not (seed or run.calibrator) else _stem(self.rows.table.loaded.name)
        return [self.label or file, run.model, seed, run.calibrator]

    def _set(
        self, run: Group, name: str, model: str, kind: Kind | None, classes: tuple[str, ...], columns: tuple[str, ...],
        scaled: Scaled, scores: Floats, p: Floats | None, y: Codes | None, precision: tuple[str, ...],
        notes: tuple[str, ...],
    ) -> PredictionSet:  # fmt: skip
        def own(codes: Codes | None) -> Codes | None:
            return codes if codes is None or run.rows is None else codes[run.rows]

        c = self.codings
        return PredictionSet(
            name=name, model=model, seed=run.seed, calibrator=run.calibrator, task=run.task,
            source=self.rows.table.loaded.name, kind=kind, classes=classes, columns=columns, scale=scaled,
            scores=scores, p=p, y=y, precision=precision, unit=own(c.unit), cluster=own(c.cluster), site=own(c.site),
            split=own(c.split), fold=own(c.fold), notes=notes,
        )  # fmt: skip

    def _scale(self, block: Block, scores: Floats, precision: tuple[str, ...]) -> Result:
        facts = self.rows.table.loaded.facts
        if block.kind == "multilabel":
            flags = [f"percent:{name}" in facts for name in block.columns]
            return of_findings(scores, block.columns, precision, self.wishes.scale, flags)
        if len(block.columns) == 1:
            name = block.columns[0]
            scaled, p = of_one(scores[:, 0], name, precision[0], self.wishes.scale, f"percent:{name}" in facts)
            return scaled, None if p is None else p[:, None]
        return of_classes(scores, block.columns, precision, self.wishes.scale)

    def _labels(self, block: Block, truths: tuple[Truth, ...], task: str) -> Indexed | None:
        if not truths:
            return None
        chosen = self.wishes.classes
        if block.kind == "multilabel":
            return told.multilabel(truths, block.classes, self.wishes.findings)
        if len(block.columns) == 1:
            finding = block.finding or next((one for one in task.split(", ") if one and _named(truths, one)), "")
            if finding and (len(truths) > 1 or truths[0].names):
                many = told.multilabel(truths, (finding,), self.wishes.findings)
                if many.y is not None:
                    return Indexed(many.y[:, 0], ("0", "1"), many.findings, f"the event is the finding {finding!r}")
            if len(truths) > 1:
                return _no_one(truths, block)
            return told.binary(truths[0], block.columns[0], chosen, block.classes[0])
        if len(truths) > 1:
            return _one_hot(truths, block)
        several = told.multiclass(truths[0], block.classes, chosen, named=block.named)
        if several.y is None and block.kind == "binary" and not chosen:
            return told.binary(truths[0], block.columns[1])  # p_0, p_1 and labels in words
        return several

    def _top_one(self, run: Group) -> PredictionSet:
        """Confidence of the predicted class: the event is that this class is right."""
        table = self.rows.table
        column, predicted = table.roles.of(Role.CONFIDENCE)[0], table.roles.of(Role.PREDICTED)[0]
        scores = numbers(table.frame, [column])
        classes = told.truth_of(table.frame[predicted])
        codes = classes.codes
        if run.rows is not None:
            scores, codes = scores[run.rows], codes[run.rows]
        precision = (table.loaded.precision.get(column, "float64"),)
        scaled, p = of_one(scores[:, 0], column, precision[0], self.wishes.scale)
        y = None
        truths = self._truths(run)
        if len(truths) == 1 and set(truths[0].names) & set(classes.names):
            names = {name: k for k, name in enumerate(classes.names)}
            known = np.array([*(names.get(name, -2) for name in truths[0].names), -1], dtype=np.int64)[truths[0].codes]
            y = np.where((known == -1) | (codes == -1), -1, (known == codes).astype(np.int64))
        usable = scaled.usable and y is not None
        why = f"the confidence of the predicted class alone ({predicted!r}); {scaled.why}"
        scale = Scaled(Scale.TOP_ONE, usable, scaled.ranked, why, scaled.changed)
        name = " / ".join(part for part in self._parts(run) if part) or column
        note = "the event is that the predicted class is right: only top-label calibration is defined"
        model = run.model or self.label or _stem(table.loaded.name)
        table_p = p[:, None] if p is not None and usable else None
        return self._set(run, name, model, "binary", ("wrong", "right"), (column,), scale, scores, table_p, y,
                         precision, (note,))  # fmt: skip

    def _without(self, run: Group) -> PredictionSet:
        """A set without any score: predicted classes or texts."""
        table = self.rows.table
        n = table.frame.height if run.rows is None else len(run.rows)
        predicted, text = table.roles.of(Role.PREDICTED), table.roles.of(Role.TEXT)
        if predicted:
            why = (
                f"column {predicted[0]!r} has the predicted class and no column has a score: no confidence to calibrate"
            )
            scale = Scaled(Scale.HARD_LABELS, False, False, why)
        elif text:
            scale = Scaled(Scale.NONE, False, False, f"no confidence: text only (column {text[-1]!r})")
        else:
            said = ", ".join(repr(name) for name in table.frame.columns[:10])
            raise AuditError(
                f"{table.loaded.name}: no column is a score; it has {said}; say which with --map score=COLUMN"
            )
        name = " / ".join(part for part in self._parts(run) if part) or (predicted or text)[-1]
        model = run.model or self.label or _stem(table.loaded.name)
        column = (predicted or text)[-1:]
        scores = np.full((n, 1), np.nan)
        return self._set(run, name, model, None, (), tuple(column), scale, scores, None, None, ("float64",), ())


def _classes(block: Block, chosen: Sequence[str]) -> tuple[str, ...]:
    if block.kind == "binary":
        return tuple(chosen) if len(chosen) == 2 else ("0", "1")
    return tuple(chosen) if len(chosen) == len(block.columns) else block.classes


def _named(truths: Sequence[Truth], finding: str) -> bool:
    if len(truths) > 1:
        return any(told.bare(one.column).casefold() == finding.casefold() for one in truths)
    lists = any(mark in name for name in truths[0].names for mark in told.SEPARATORS)
    return lists and told.listed(truths[0], finding) is not None


def _no_one(truths: Sequence[Truth], block: Block) -> Indexed:
    said = ", ".join(repr(one.column) for one in truths[:6])
    title = f"{len(truths)} label columns ({said}) and the score {block.columns[0]!r}: which is its label is not plain"
    return told.refused(f"{title}; name it with --map label=COLUMN", ("0", "1"))


def _one_hot(truths: Sequence[Truth], block: Block) -> Indexed:
    """Class indices from one label column of 0 and 1 a class."""
    many = told.multilabel(truths, block.classes, {})
    if many.y is None or (many.y == -1).all(axis=0).any():
        return told.refused("label columns do not name the classes of the scores; use --map label", block.classes)
    known = (many.y != -1).all(axis=1)
    if not (many.y[known].sum(axis=1) == 1).all():
        title = "label columns have several or no classes in a row, and rows of scores are distributions over classes"
        return told.refused(f"{title}; say --kind multilabel if findings do not exclude each other", block.classes)
    y = np.where(known, argmax(many.y.astype(np.float64)), -1)
    return Indexed(y, block.classes, (), "labels are one column of 0 and 1 a class")


def _stem(name: str) -> str:
    return PurePath(name.split(": ")[-1]).name.split(".")[0] or name
