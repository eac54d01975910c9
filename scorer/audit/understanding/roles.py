"""Which column of a released table holds what: told by name and by content together."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from protocol.tables import PERSONAL_NAMES
from scorer.audit.shapes import Assigned, Loaded, Role
from scorer.audit.understanding import looks
from scorer.audit.understanding.looks import Look, has
from scorer.audit.understanding.wishes import Wishes
from splits.checking import words

MOST_LABELS = 200
FEW = 20
SCORES = frozenset(
    {"p", "prob", "probs", "proba", "probability", "probabilities", "score", "scores", "softmax", "sigmoid", "logit",
     "logits", "pom", "yprob", "yscore", "likelihood", "risk", "predproba", "predprob", "logprob", "z", "percent"}
)  # fmt: skip
PREDICTED = frozenset(
    {"ypred", "yhat", "pred", "preds", "prediction", "predictions", "predicted", "predict", "argmax", "predlabel",
     "predclass", "predictedlabel", "predictedclass", "decision", "predindexs", "predindex", "output"}
)  # fmt: skip
CONFIDENCE = frozenset({"confidence", "conf", "maxprob", "topprob", "maxconf", "top1prob", "msp", "maxsoftmax"})
NO_SCORE = frozenset(
    {"age", "time", "seconds", "duration", "width", "height", "spacing", "size", "loss", "weight", "bmi", "thickness",
     "density", "pixel", "entropy", "uncertainty", "std", "variance", "lower", "upper", "latitude",
     "longitude", "dose", "volume", "area", "auc", "threshold", "epoch", "year", "date", "psa", "diameter"}
)  # fmt: skip
MODEL = frozenset(
    {"model", "modelname", "modelid", "method", "methodname", "arch", "architecture", "backbone", "network", "reader",
     "readerid", "algorithm", "rater", "classifier", "encoder", "llm"}
)  # fmt: skip
CALIBRATOR = frozenset(
    {"calibrator", "calibration", "calibrationmethod", "calibmethod", "calib", "scaling", "postproc"}
)
SEED = frozenset({"seed", "randomseed", "rngseed", "seedid", "run", "runid", "repeat", "rep", "trial"})
TASK = frozenset({"task", "biomarker", "endpoint", "finding", "pathology", "condition", "gene", "mutation", "disease"})
SIDE = frozenset({"side", "laterality", "eye", "breast", "view", "imageview", "viewposition", "laterality_id"})
TRUTH = ("y", "ytrue", "yt", "truth", "truelabel", "true", "gold", "reference", "actual", "istrue", "groundtruth")
LABEL = (
    *words.LABEL,
    *TRUTH,
    "outcomes",
    "y0",
    "targets",
    "gtlabel",
    "labelidx",
    "truelabels",
    "rdr",
    "pathologyresult",
)
WEAK_TRUTH = frozenset({"true", "gt", "truth", "label", "y", "target", "actual"})
TEXT = frozenset(
    {"question", "prompt", "response", "answertext", "rationale", "explanation", "report", "text", "query", "options"}
)
FLAG = frozenset({"haslabel", "labeled", "labelled", "islabeled", "islabelled"})


@dataclass(frozen=True)
class Roles:
    """The columns of one table by role, and its looks; ``flag`` is a column that says whether a row has a label."""

    assigned: tuple[Assigned, ...]
    looks: dict[str, Look]
    flag: str = ""

    def of(self, role: Role) -> tuple[str, ...]:
        """The columns with ``role``, in the order of the table."""
        return tuple(name for one in self.assigned if one.role is role for name in one.columns)

    def moved(self, columns: Sequence[str], role: Role, why: str) -> "Roles":
        """The same with ``columns`` given ``role``, told by content."""
        rest = [_without(one, columns) for one in self.assigned]
        new = Assigned(role, tuple(columns), "content", why)
        return Roles((*(one for one in rest if one.columns), new), self.looks, self.flag)


def _without(one: Assigned, columns: Iterable[str]) -> Assigned:
    gone = set(columns)
    return Assigned(one.role, tuple(name for name in one.columns if name not in gone), one.by, one.why)


@dataclass
class _Table:
    """A table whose columns are being assigned."""

    loaded: Loaded
    looks: dict[str, Look]
    found: list[Assigned] = field(default_factory=list)

    def free(self) -> list[Look]:
        taken = {name for one in self.found for name in one.columns}
        return [one for name, one in self.looks.items() if name not in taken]

    def give(self, role: Role, chosen: Sequence[Look], by: str, why: str) -> None:
        if chosen:
            self.found.append(Assigned(role, tuple(one.name for one in chosen), by, why))

    def has(self, role: Role) -> bool:
        return any(one.role is role for one in self.found)

    def first(self, wanted: Sequence[str], accept: Callable[[Look], bool]) -> list[Look]:
        """The free column whose name comes first in ``wanted`` and whose content is accepted; [] or one."""
        named = [one for one in self.free() if one.key in wanted and accept(one)]
        return sorted(named, key=lambda one: wanted.index(one.key))[:1]


def find_roles(loaded: Loaded, wishes: Wishes, *, scored: bool = True) -> Roles:
    """The roles of the columns of ``loaded``; ``scored``: it has predictions (else labels or splits alone)."""
    table = _Table(loaded, {column.name: looks.look(column) for column in loaded.frame.iter_columns()})
    _told(table, wishes)
    _aside(table)
    if not table.has(Role.SPLIT):
        table.give(Role.SPLIT, _split(table), "name and content", "its name and values are those of splits")
    if not table.has(Role.FOLD):
        folds = [one for one in table.free() if words.is_fold(one.key) and one.distinct <= 50 and not one.fractions]
        table.give(Role.FOLD, folds[:1], "name", "named as folds, few values")
    for role, names, most in (
        (Role.CALIBRATOR, CALIBRATOR, 100), (Role.MODEL, MODEL, 1_000), (Role.SEED, SEED, 1_000),
    ):  # fmt: skip
        few = [one for one in table.free() if one.key in names and one.distinct <= most and not one.fractions]
        if not table.has(role) and scored:
            table.give(role, few[:1], "name", f"named as a {role.value}, {few[0].distinct if few else 0} values")
    if not table.has(Role.PATIENT):
        patient = table.first(words.PATIENT, lambda one: _names_things(one) and not _topic(table.loaded, one))
        table.give(Role.PATIENT, patient, "name", "named as a patient or case")
    if scored:
        _truth(table)
        _scores(table)
    else:
        _labels_alone(table)
    _unit(table)
    _rest(table)
    flag = next((one.name for one in table.looks.values() if one.key in FLAG), "")
    return Roles(tuple(table.found), table.looks, flag)


def _told(table: _Table, wishes: Wishes) -> None:
    for role, names in wishes.columns.items():
        there = [table.looks[name] for name in names if name in table.looks]
        table.give(role, there, "user", "told by --map")
    ignored = [one for one in table.free() if one.name in wishes.ignored]
    table.give(Role.OTHER, ignored, "user", "ignored, told by --map")


def _aside(table: _Table) -> None:
    """Columns that are no evidence: empty ones, row numbers, personal data, texts."""
    empty = [one for one in table.free() if not one.filled]
    table.give(Role.OTHER, empty, "content", "no cell is filled")
    numbers = [one for one in table.free() if _row_numbers(table.loaded, one)]
    table.give(Role.OTHER, numbers, "content", "the number of the row")
    personal = [one for one in table.free() if one.key in PERSONAL_NAMES - {"accessionnumber", "accession", "name"}]
    table.give(Role.OTHER, personal, "name", "personal data: not used and not shown")
    texts = [one for one in table.free() if one.long or (one.key in TEXT and not one.numeric)]
    texts = [one for one in texts if one.key not in words.IMAGE and not one.files]
    table.give(Role.TEXT, texts, "name and content", "free text")


def _row_numbers(loaded: Loaded, one: Look) -> bool:
    bare = one.key in ("", "index", "unnamed0", "column0", "row", "rowid", "rownumber") or one.key.startswith("unnamed")
    if not loaded.header and one.name == loaded.frame.columns[0]:
        bare = True
    if not bare or not one.whole or not one.numeric or one.filled < one.rows or one.high - one.low != one.rows - 1:
        return False
    import polars as pl

    values = loaded.frame[one.name].cast(pl.Float64, strict=False)
    return bool((values.to_numpy() == np.arange(one.rows) + one.low).all())


def _split(table: _Table) -> list[Look]:
    for one in sorted(table.free(), key=lambda one: one.key not in words.SPLIT):
        if one.numeric or one.distinct > (40 if one.key in words.SPLIT else 8) or one.filled == 0:
            continue
        values = looks.spread(table.loaded.frame[one.name]).drop_nulls().unique().to_list()
        kinds = [bool(words.kind_of(str(value))) for value in values]
        if all(kinds) and (one.key in words.SPLIT or len(values) > 1):
            return [one]
    return []


def _is_label(one: Look) -> bool:
    """Categorical: words, or whole numbers, not too many of them."""
    return one.filled > 0 and not one.fractions and one.distinct <= MOST_LABELS * 10 and not one.long


def _truth(table: _Table) -> None:
    """The label column beside scores; a column of fractions is a score, whatever its name."""
    if table.has(Role.LABEL):
        return
    chosen = table.first(LABEL, lambda one: _is_label(one) and (one.distinct <= MOST_LABELS or not one.numeric))
    if not chosen:
        chosen = [
            one
            for one in table.free()
            if _is_label(one) and one.distinct <= MOST_LABELS and not has(one, SCORES | PREDICTED)
            and {"true", "truth", "gt", "label"} & set(one.tokens) and one.key not in FLAG
        ]  # fmt: skip
        several = [one for one in chosen if one.marks]
        chosen = several if len(several) > 1 else chosen[:1]
    table.give(Role.LABEL, chosen, "name and content", "named as a label, and its values are classes")


def _scores(table: _Table) -> None:
    _given_a_class(table)
    free = [one for one in table.free() if one.numeric and one.filled and not _grouping(one)]
    named = [one for one in free if has(one, SCORES) and not has(one, NO_SCORE)]
    if not table.has(Role.SCORE):
        fractions = [one for one in free if one.fractions and not has(one, NO_SCORE) and one not in named]
        fractions = [one for one in fractions if one.key not in ("seed", "fold")]
        if named and table.loaded.header:
            fractions = []  # a lab value or an image quality among the scores would be taken for a class
        bare = [] if table.loaded.header else [one for one in free if one not in named and one not in fractions]
        chosen = [one for one in free if one in named or one in fractions or one in bare]
        if table.has(Role.PREDICTED) and len(chosen) == 1 and has(chosen[0], CONFIDENCE):
            table.give(Role.CONFIDENCE, chosen, "name and content", "a confidence beside one predicted class")
            return
        chosen = _with_siblings(chosen, free)
        why = "numbers with fractions" if not named else "named as a score, numbers"
        odd = [one for one in chosen if one.key in LABEL]
        if odd:
            why = f"{why}; {odd[0].name!r} holds fractions, so it is a score and no label"
        table.give(Role.SCORE, chosen, "name and content" if named else "content", why)
    if not table.has(Role.SCORE) and not table.has(Role.CONFIDENCE):
        conf = [one for one in table.free() if has(one, CONFIDENCE) and one.numeric]
        table.give(Role.SCORE, conf[:1], "name", "named as a confidence, without a predicted class")


def _given_a_class(table: _Table) -> None:
    """Predicted classes: named so, and their values are classes."""
    if table.has(Role.PREDICTED):
        return
    named = [one for one in table.free() if has(one, PREDICTED) and not has(one, SCORES) and _is_label(one)]
    named = [one for one in named if one.filled and (one.distinct <= FEW * 5) and one.key not in TEXT]
    table.give(Role.PREDICTED, named[:1], "name and content", "named as a prediction, and its values are classes")


def _with_siblings(chosen: list[Look], free: Sequence[Look]) -> list[Look]:
    """``chosen`` with whole-number columns of the same naming: p_2 of p_0, p_1, p_2 may be 0 throughout."""
    if len(chosen) < 2:
        return chosen
    shapes = {tuple(word for word in one.tokens if not word.isdigit()) for one in chosen}
    if len(shapes) != 1:
        return chosen
    return [one for one in free if one in chosen or tuple(w for w in one.tokens if not w.isdigit()) in shapes]


def _grouping(one: Look) -> bool:
    names = (*words.PATIENT, *words.IMAGE, *words.WEAK_IMAGE, *words.GROUP, *SEED, *FLAG)
    return (one.whole and one.key in names) or words.is_fold(one.key)


def _labels_alone(table: _Table) -> None:
    """Labels in a file of their own: one column of classes, or one a finding."""
    if table.has(Role.LABEL):
        return
    named = table.first(LABEL, lambda one: one.filled > 0 and not one.fractions)
    if named:
        table.give(Role.LABEL, named, "name and content", "named as a label")
        return
    marks = [one for one in table.free() if one.marks and not _grouping(one) and not has(one, {"male", "sex", "age"})]
    marks = [one for one in marks if one.key not in FLAG and one.key not in words.PATIENT]
    if len(marks) == 1:
        table.give(Role.LABEL, marks, "content", "the only column of 0 and 1")
    elif marks:
        table.give(Role.LABEL, marks, "content", f"{len(marks)} columns of 0, 1 (and -1), one a finding")
    elif not table.loaded.header and len(table.free()) == 1:
        table.give(Role.LABEL, table.free(), "content", "the only column")


def _unit(table: _Table) -> None:
    if not table.has(Role.UNIT):
        files = [one for one in table.free() if one.files]
        if files:
            best = max(files, key=lambda one: (one.distinct, one.key in words.IMAGE))
            table.give(Role.UNIT, [best], "content", "names of files")
        else:
            image = table.first(words.IMAGE, _names_things) or table.first(words.WEAK_IMAGE, _names_things)
            image = image or [one for one in table.free() if _ends_in_id(one) and _names_things(one)][:1]
            table.give(Role.UNIT, image, "name", "named as an image or id")
    if not table.has(Role.CLUSTER):
        group = table.first(words.GROUP, lambda one: not one.fractions and one.filled > 0)
        if group and (table.has(Role.PATIENT) or table.has(Role.UNIT)):
            table.give(Role.CLUSTER, [] if table.has(Role.PATIENT) else group, "name", "named as a group of images")
        elif group and not table.has(Role.UNIT):
            table.give(Role.UNIT, group, "name", "named as an id")
    if not table.has(Role.SITE):
        site = table.first(words.SITE, lambda one: not one.fractions and one.distinct <= MOST_LABELS)
        table.give(Role.SITE, site, "name", "named as a site or source")


def _topic(loaded: Loaded, one: Look) -> bool:
    """A 'subject' such as History: words without a digit, and few of them."""
    if one.numeric or one.distinct > 100 or one.key not in ("subject", "subjects", "case"):
        return False
    return not bool(looks.spread(loaded.frame[one.name]).drop_nulls().str.contains(r"\d").any())


def _names_things(one: Look) -> bool:
    return not one.fractions and one.filled > 0


def _ends_in_id(one: Look) -> bool:
    return one.key.endswith(("id", "uid", "name", "filename", "path")) and one.key not in words.GROUP


def _rest(table: _Table) -> None:
    if not table.has(Role.TASK):
        tasks = [one for one in table.free() if one.key in TASK and not one.numeric and one.distinct <= 1_000]
        table.give(Role.TASK, tasks[:1], "name", "named as a task, several in one file")
    spare = [one for one in table.free() if one.fractions and table.has(Role.SCORE)]
    table.give(Role.OTHER, spare, "name", "fractions, but not named as the scores are (--map score=... adds them)")
    table.give(Role.OTHER, table.free(), "content", "not needed")
