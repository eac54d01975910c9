"""Stage 0: bytes, files, tables and records can be read. Intake sees; these rules say."""

from collections.abc import Iterator
from typing import Any

from protocol import EDITION
from protocol.facts import Problem
from protocol.findings import Finding, Level, counted
from protocol.rules import Result, Rule, all_rules
from protocol.submission import Submission
from protocol.task import Task

Problems = tuple[Problem, ...]


def findings_for(slug: str, problems: Problems) -> list[Finding]:
    """The problems that the rule named ``slug`` owns, as findings."""
    return [
        Finding(where=p.where, saw=p.saw, wanted=p.wanted, count=p.count, samples=p.samples)
        for p in problems
        if p.offence == slug
    ]


class MVC001(Rule):
    """A file of the bundle is absent or can't be read"""

    slug = "unreadable-file"
    why = "What can't be read can't be refereed (Table 1 of the protocol: the record to publish)."
    mend = "Put the file in place, written whole and in the format that its name says."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("unreadable-file", problems)


class MVC002(Rule):
    """A table lacks a column, or has one that nobody knows"""

    slug = "wrong-columns"
    why = "Columns are joined by name, never by position; a guessed column is a wrong number."
    mend = "Name the columns as PROTOCOL.md lists them."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("wrong-columns", problems)


class MVC003(Rule):
    """A column has the wrong type"""

    slug = "wrong-dtype"
    why = "Text in a probability column would have to be guessed at."
    mend = "Write numbers as numbers and text as text."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("wrong-dtype", problems)


class MVC004(Rule):
    """A file, or the submission, is larger than it can be"""

    slug = "too-large"
    why = "A scorer that can be filled up can be broken."
    mend = "Send the rows that the record declares and nothing else, and declare no more runs than the task allows."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("too-large", problems)


class MVC005(Rule):
    """A table has far more rows than the record declares"""

    slug = "row-count-bomb"
    why = "Rows expected are images times runs; a small file can claim billions."
    mend = "Write one row per image, model, seed and calibrator."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("row-count-bomb", problems)


class MVC006(Rule):
    """The archive has members that are not plain files inside it"""

    slug = "unsafe-archive"
    why = "Paths that leave the archive, links and nested archives are how scorers are attacked."
    mend = "Zip the bundle's plain files, without links, absolute paths or archives inside."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("unsafe-archive", problems)


class MVC007(Rule):
    """A pickle, or a file that holds one, is in the bundle"""

    slug = "pickle-refused"
    why = "Unpickling runs code."
    mend = "Write Parquet, CSV or JSON."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("pickle-refused", problems)


class MVC008(Rule):
    """Two columns have the same name, or differ in case only"""

    slug = "duplicate-or-colliding-columns"
    why = "Which of the two is scored would be luck."
    mend = "Keep one of the columns."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("duplicate-or-colliding-columns", problems)


class MVC009(Rule):
    """A record does not fit its model"""

    slug = "record-invalid"
    why = "The record of steps 1 to 7 is what makes a result comparable (Table 1)."
    mend = "Correct the field; unknown keys are refused and text stays text (quote dates and numbers)."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("record-invalid", problems)


class MVC010(Rule):
    """The record or the task names an edition that this kit does not know"""

    slug = "edition-unknown"
    why = "A submission is judged by the edition that it names."
    mend = f"Write edition: '{EDITION}', or use the kit of that edition."

    @staticmethod
    def check(task: Task, record: Submission) -> Result:
        named = (("task.yaml", task.edition), ("submission.yaml", record.edition))
        return [
            Finding(where=f"{file}: edition", saw=edition or "nothing", wanted=EDITION)
            for file, edition in named
            if edition != EDITION
        ]


class MVC011(Rule):
    """The record answers another task"""

    slug = "task-mismatch"
    why = "Results are set side by side only within one task."
    mend = "Use the host's task.yaml as it is, and name it in the record, with its digest or without one."

    @staticmethod
    def check(task: Task, record: Submission, problems: Problems) -> Result:
        another = findings_for("task-mismatch", problems)
        if another:
            return another
        if record.task.name != task.name:
            return [Finding(where="submission.yaml: task.name", saw=record.task.name, wanted=task.name)]
        if record.task.sha256 not in (None, task.digest):
            return [Finding(where="submission.yaml: task.sha256", saw=str(record.task.sha256), wanted=task.digest)]
        return []


class MVC012(Rule):
    """A table has no rows"""

    slug = "no-rows"
    why = "Nothing was submitted."
    mend = "Write the rows."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("no-rows", problems)


class MVC013(Rule):
    """A value is missing where one is needed"""

    slug = "value-missing"
    why = "A missing identifier or name can't be joined."
    mend = "Fill the value in, or leave the row out."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("value-missing", problems)


class MVC014(Rule):
    """A text value has blanks at its ends, control characters, or is too long"""

    slug = "malformed-text"
    why = "Values are compared byte by byte; a blank makes another identifier."
    mend = "Strip blanks and control characters; at most 200 characters."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("malformed-text", problems)


class MVC015(Rule):
    """A file could not be decoded within the limits of memory and time"""

    slug = "decoding-stopped"
    why = "Submitted bytes are decoded in a process with limits, so that no file can break the scorer."
    mend = "Write the table anew with a common writer (PyArrow, pandas, DuckDB), plain columns only."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("decoding-stopped", problems)


class MVC016(Rule):
    """A value lies outside what its column can hold"""

    slug = "value-out-of-range"
    why = "Split names, seeds and logits have a range; a value outside it is a slip."
    mend = "Use train, val, calib, test or external; seeds from 0 to 2147483647; finite logits."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("value-out-of-range", problems)


class MVC017(Rule):
    """A waiver names a rule that can't be waived"""

    slug = "waiver-not-allowed"
    why = "Exemptions are data with a reason, and only some rules have them."
    mend = "Take the waiver out, and meet the rule."

    @staticmethod
    def check(record: Submission) -> Result:
        rules = all_rules()
        return [
            Finding(where=f"submission.yaml: waivers, {waiver.rule}", saw=saw, wanted="a rule of level waivable")
            for waiver in record.waivers
            if (saw := _refusal(waiver.rule, rules))
        ]


class MVC018(Rule):
    """Text of the example is left in the records"""

    slug = "example-text-left"
    level = Level.NOTE
    why = "A record that still speaks of the example describes no study (Table 1)."
    mend = "Replace every text that begins with EXAMPLE."

    @staticmethod
    def check(task: Task, record: Submission) -> Result:
        documents = (("task.yaml", task), ("submission.yaml", record))
        left = [
            where
            for file, document in documents
            for where, text in texts_of(document.model_dump(mode="json"), file)
            if text.startswith("EXAMPLE")
        ]
        if not left:
            return []
        return [
            Finding(left[0], f"{counted(len(left), 'text')} of the example", "your own text", len(left), tuple(left))
        ]


def texts_of(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """Every text in a record with the place where it stands (``file: key.key``)."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts_of(item, f"{where}.{key}" if ": " in where else f"{where}: {key}")
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item, where)


def _refusal(rule_id: str, rules: dict[str, type[Rule]]) -> str:
    if rule_id not in rules:
        return "no such rule"
    return "" if rules[rule_id].level is Level.WAIVABLE else f"a rule of level {rules[rule_id].level}"
