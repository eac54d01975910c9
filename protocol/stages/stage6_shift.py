"""Step 6: evaluate under shift and within subgroups (protocol, 3.6)."""

from protocol.declaration import Declaration, changed_sections
from protocol.facts import Sql, Table
from protocol.findings import Finding, Level, NotApplicable, counted
from protocol.hosting import Receipt, receipt_differences
from protocol.rules import Result, Rule
from protocol.stages.stage1_splits import FOUR, no_patients
from protocol.submission import Submission
from protocol.tables import PERSONAL_NAMES, bare
from protocol.task import Task


class MVC601(Rule):
    """There is no external site"""

    slug = "no-external-site"
    level = Level.WAIVABLE
    why = "The metric set is computed again on at least one test set from elsewhere (protocol, 3.6)."
    mend = "Add a test set of another institution or device, or waive this with the reason."

    @staticmethod
    def check(record: Submission, splits: Table, sql: Sql) -> Result:
        if record.shift.external or sql("SELECT 1 FROM splits WHERE split = 'external' LIMIT 1"):
            return []
        return [Finding(f"{splits.file}: split", "no external row and no external site", "one external site or more")]


class MVC602(Rule):
    """External data share patients or images with development"""

    slug = "external-shares-patients"
    why = "A patient seen in development is no outside evidence (protocol, 3.1 and 3.6)."
    mend = "Take shared patients and images out of the external split."
    requires = frozenset({"MVC110"})

    @staticmethod
    def check(record: Submission, splits: Table, sql: Sql) -> Result:
        patients = [] if no_patients(record) else _shared(sql, "patient_id", "patient")
        if patients:  # their images go with them
            return [_said(splits, "patient", patients)]
        images = _shared(sql, "image_id", "image") or _shared(sql, "content_hash", "content_hash")
        return [_said(splits, "image", images)] if images else []


def _shared(sql: Sql, shown: str, key: str) -> list[tuple[str, str]]:
    """(name, splits) of each ``key`` that lies in external and in development."""
    return [
        (name, found)
        for name, found in sql(
            f"""SELECT {shown}, string_agg(DISTINCT split, ' and ' ORDER BY split)
            FROM splits LEFT JOIN images USING (image) LEFT JOIN patients USING (patient)
            WHERE {key} IN (SELECT {key} FROM splits WHERE split = 'external')
              AND {key} IN (SELECT {key} FROM splits WHERE split IN {FOUR})
            GROUP BY {shown} ORDER BY {shown}"""
        )
    ]


def _said(splits: Table, what: str, shared: list[tuple[str, str]]) -> Finding:
    samples = tuple(f"{what} {name} in {found}" for name, found in shared)
    return Finding(splits.file, f"{counted(len(shared), what)} shared", f"no {what} in common", len(shared), samples)


class MVC603(Rule):
    """Subgroups in the split file and in the record differ"""

    slug = "subgroup-undeclared"
    why = "Results are broken down by subgroups that were named before the analysis (protocol, 3.6)."
    mend = "Declare each subgroup column with all its levels before the analysis, and keep the others out of the file."
    requires = frozenset({"MVC106"})

    @staticmethod
    def check(task: Task, record: Submission, splits: Table, sql: Sql) -> Result:
        declared = {group.column: group.levels for group in record.shift.subgroups}
        found = []
        for name in splits.extras:
            if name not in declared and bare(name) not in PERSONAL_NAMES:
                found.append(
                    Finding(f"{splits.file}: {name}", "a column that is not declared", "declared subgroups only")
                )
        for group in task.subgroups:
            if declared.get(group.column) != group.levels:
                where = f"submission.yaml: shift.subgroups, {group.column}"
                found.append(Finding(where, "not as the task has it", f"levels {', '.join(group.levels)}"))
        for column, levels in declared.items():
            where = f"{splits.file}: {column}"
            if column not in splits.extras:
                found.append(Finding(where, "no such column", "a column per declared subgroup"))
                continue
            alias = f"g_{splits.extras.index(column)}"
            rows = sql(
                f"""SELECT DISTINCT split, {alias} FROM splits
                WHERE split IN ('test', 'external') AND {alias} IS NOT NULL ORDER BY ALL"""
            )
            present = {level for _, level in rows}
            tested = {level for split, level in rows if split == "test"}
            odd = [f"level {level} is not declared" for level in sorted(present - set(levels))]
            odd += [f"level {level} is not in test" for level in levels if level not in tested]
            if odd:
                found.append(Finding(where, "; ".join(odd[:3]), f"levels {', '.join(levels)}", len(odd), tuple(odd)))
        return found


RECEIPT_WANTED = "the receipt of this lock as the task's host signed it, or no receipt"


class MVC604(Rule):
    """The record or a receipt differs from the declaration, or there is no declaration"""

    slug = "declaration-changed"
    why = "What is fixed in advance can't be changed once the test set was seen (Table 1; protocol, 3.6)."
    mend = (
        "Run mvc declare before the analysis; if the plan must change, mvc declare --force declares anew, dated now, "
        "and the host signs a new receipt."
    )

    @staticmethod
    def check(
        task: Task,
        record: Submission,
        splits: Table,
        lock: Declaration | None,
        receipt: Receipt | str | None,
        files: dict[str, str],
    ) -> Result:
        if lock is None:
            return [Finding("declaration.lock", "absent", "the lock that mvc declare writes")]
        changed = changed_sections(lock, task, record, files.get(splits.file))
        found = []
        if changed:
            saw = f"changed since: {', '.join(changed)}"
            found.append(Finding("declaration.lock", saw, "as declared", len(changed), changed))
        if isinstance(receipt, str):
            found.append(Finding("receipt.json", receipt, RECEIPT_WANTED))
        elif receipt is not None and (other := receipt_differences(receipt, task, lock)):
            found.append(Finding("receipt.json", f"of another lock: {other[0]}", RECEIPT_WANTED, len(other), other))
        return found


class MVC605(Rule):
    """An external site is also a development site"""

    slug = "external-site-is-a-development-site"
    why = "The external set is drawn from a different institution or device (protocol, 3.6)."
    mend = "Name the sites apart, or move the rows into the development splits."

    @staticmethod
    def check(splits: Table, sql: Sql) -> Result:
        rows = sql(
            f"""SELECT DISTINCT site FROM splits WHERE split = 'external'
            AND site IN (SELECT site FROM splits WHERE split IN {FOUR}) ORDER BY site"""
        )
        return [Finding(f"{splits.file}: site", f"{site} in both", "a site of its own") for (site,) in rows]


class MVC606(Rule):
    """A site grades by another scale and the task has no map for it"""

    slug = "site-labels-differ-undeclared"
    level = Level.WAIVABLE
    why = (
        "Under another definition of the label a shift of the label looks like a shift of calibration (protocol, 3.6)."
    )
    mend = "Write how the site's grades map onto the classes into label_maps of task.yaml."

    @staticmethod
    def check(task: Task, record: Submission) -> Result:
        if not record.shift.external:
            return NotApplicable("no external site is declared")
        return [
            Finding(f"task.yaml: label_maps, {site.name}", "no map", "a map, since the site differs in labels")
            for site in record.shift.external
            if "labels" in site.differs_in and site.name not in task.label_maps
        ]


class MVC607(Rule):
    """External sites in the split file and in the record differ"""

    slug = "external-sites-differ"
    why = "External sites are named in advance, and all of them are reported (protocol, 3.6)."
    mend = "Declare every external site, and give its rows."

    @staticmethod
    def check(record: Submission, splits: Table, sql: Sql) -> Result:
        present = {site for (site,) in sql("SELECT DISTINCT site FROM splits WHERE split = 'external'")}
        declared = {site.name for site in record.shift.external}
        odd = [f"site {site} has no external row" for site in sorted(declared - present)]
        odd += [f"site {site} is not declared" for site in sorted(present - declared)]
        if not odd:
            return []
        return [
            Finding(f"{splits.file}: site", "; ".join(odd[:3]), "the declared external sites", len(odd), tuple(odd))
        ]
