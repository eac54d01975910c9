"""Step 1: declare the task and fix the splits (protocol, 3.1)."""

from collections.abc import Mapping

from protocol.facts import Sql, Table
from protocol.findings import Finding, Level, NotApplicable, counted
from protocol.rules import Result, Rule
from protocol.submission import Submission
from protocol.task import Task

FOUR = "('train', 'val', 'calib', 'test')"
EVALUATED = "SELECT DISTINCT image FROM splits WHERE split IN ('test', 'external')"
# Images that lie in two of the four splits, by identifier or by content: owned by MVC102.
SHARED_IMAGES = f"""
    SELECT image FROM splits WHERE split IN {FOUR} GROUP BY image HAVING count(DISTINCT split) > 1
    UNION
    SELECT image FROM splits WHERE content_hash IN (
        SELECT content_hash FROM splits WHERE split IN {FOUR} AND content_hash IS NOT NULL
        GROUP BY content_hash HAVING count(DISTINCT split) > 1)
"""


def no_patients(record: Submission) -> bool:
    """True when the record says that patient identifiers are unavailable."""
    return record.splits.patient_ids == "unavailable"


class MVC101(Rule):
    """A patient lies in two of the splits train, val, calib and test"""

    slug = "patient-in-two-splits"
    why = "If images of one patient fall on both sides of a split, the test is contaminated (protocol, 2.3 and 3.1)."
    mend = "Split by patient, not by image."
    requires = frozenset({"MVC110"})

    @staticmethod
    def check(record: Submission, splits: Table, sql: Sql) -> Result:
        if no_patients(record):
            return NotApplicable("patient identifiers are unavailable")
        rows = sql(
            f"""SELECT patient_id, string_agg(DISTINCT split, ' and ' ORDER BY split) AS found
            FROM splits JOIN patients USING (patient)
            WHERE split IN {FOUR} AND image NOT IN ({SHARED_IMAGES})
            GROUP BY patient_id HAVING count(DISTINCT split) > 1 ORDER BY patient_id"""
        )
        if not rows:
            return []
        samples = tuple(f"patient {patient} in {found}" for patient, found in rows)
        return [
            Finding(
                splits.file,
                f"{counted(len(rows), 'patient')} in two splits: {samples[0]}",
                "each patient in one",
                len(rows),
                samples,
            )
        ]


class MVC102(Rule):
    """An image lies in two of the splits train, val, calib and test"""

    slug = "image-in-two-splits"
    why = "The same image, or the same content under another name, on both sides of a split is a leak (protocol, 3.1)."
    mend = "Keep each image in one split; drop copies."

    @staticmethod
    def check(splits: Table, sql: Sql) -> Result:
        rows = sql(
            f"""SELECT image_id, string_agg(DISTINCT split, ' and ' ORDER BY split)
            FROM splits JOIN images USING (image)
            WHERE split IN {FOUR} AND image IN ({SHARED_IMAGES}) GROUP BY image_id ORDER BY image_id"""
        )
        if not rows:
            return []
        samples = tuple(f"image {image} in {found}" for image, found in rows)
        return [
            Finding(
                splits.file,
                f"{counted(len(rows), 'image')} shared by splits: {samples[0]}",
                "each image in one",
                len(rows),
                samples,
            )
        ]


class MVC103(Rule):
    """Identifiers are not hashed"""

    slug = "identifiers-not-hashed"
    why = "Table 1 asks for split files with patient identifiers hashed; raw numbers identify people."
    mend = "Hash identifiers: HMAC-SHA256 of namespace and id under a secret salt, 64 lower-case hex characters."

    @staticmethod
    def check(splits: Table, sql: Sql, reversed_ids: Mapping[str, str]) -> Result:
        found = []
        for what, table in (("image_id", "images"), ("patient_id", "patients")):
            listed = "WHERE image IN (SELECT image FROM splits)" if table == "images" else ""
            rows = sql(f"SELECT {what} FROM {table} {listed} ORDER BY {what}")
            bad = [
                i for (i,) in rows if i not in reversed_ids and not (len(i) == 64 and set(i) <= set("0123456789abcdef"))
            ]
            if bad:
                wanted = "64 lower-case hex characters"
                found.append(
                    Finding(
                        f"{splits.file}: {what}",
                        f"{counted(len(bad), 'identifier')} such as {bad[0]}",
                        wanted,
                        len(bad),
                        tuple(bad),
                    )
                )
        return found


class MVC104(Rule):
    """Identifiers are plain digests that can be reversed"""

    slug = "hash-reversible"
    why = "A digest of a number or a file name without a secret salt is that name: anyone can try them all."
    mend = "Hash the names again with `mvc split hash`: HMAC-SHA256 under a secret salt that is kept apart."

    @staticmethod
    def check(splits: Table, reversed_ids: Mapping[str, str]) -> Result:
        if not reversed_ids:
            return []
        pairs = sorted(reversed_ids.items())
        samples = tuple(f"{digest} = {image}" for digest, image in pairs)
        saw = f"{counted(len(pairs), 'identifier')} reversed: {samples[0]}"
        return [Finding(splits.file, saw, "a keyed hash", len(pairs), samples)]


class MVC105(Rule):
    """There is no calibration split"""

    slug = "calibration-split-missing"
    why = "The split reserved for recalibration is the one most often missing in published work (protocol, 3.1)."
    mend = "Reserve patients as split calib, or declare calibration.cross_fit."

    @staticmethod
    def check(record: Submission, splits: Table, sql: Sql) -> Result:
        if record.calibration.cross_fit is not None:
            return NotApplicable("cross-fitting replaces the calibration split")
        if sql("SELECT 1 FROM splits WHERE split = 'calib' LIMIT 1"):
            return []
        return [Finding(f"{splits.file}: split", "no row with calib", "a calibration split")]


class MVC106(Rule):
    """There is no test split"""

    slug = "test-split-missing"
    why = "The protocol asks for a test split that nothing is fitted on (3.1)."
    mend = "Reserve patients as split test."

    @staticmethod
    def check(splits: Table, sql: Sql) -> Result:
        if sql("SELECT 1 FROM splits WHERE split = 'test' LIMIT 1"):
            return []
        return [Finding(f"{splits.file}: split", "no row with test", "a test split")]


class MVC107(Rule):
    """A class is absent from calibration or test"""

    slug = "class-absent"
    level = Level.WAIVABLE
    why = "Class-wise error and discrimination are undefined for a class that is not there (protocol, 3.4)."
    mend = "Stratify the splits by label, or waive this with the reason."
    requires = frozenset({"MVC105", "MVC106", "MVC108"})
    reads_test_labels = True

    @staticmethod
    def check(task: Task, record: Submission, splits: Table, sql: Sql) -> Result:
        wanted = ("test",) if record.calibration.cross_fit is not None else ("calib", "test")
        found = []
        for split in wanted:
            for name, absent in _absent(task, sql, split):
                saw = f"no image of {absent} in {split}"
                found.append(Finding(f"{splits.file}: {name}", saw, "each declared class in calib and in test"))
        return found


def _absent(task: Task, sql: Sql, split: str) -> list[tuple[str, str]]:
    """(label column, what is absent) in ``split``."""
    absent = []
    for name in task.label_columns:
        present = {value for (value,) in sql(f"SELECT DISTINCT {name} FROM splits WHERE split = ?", (split,))}
        if task.kind == "multilabel":
            finding = task.classes[int(name.removeprefix("label_"))]
            absent += [(name, f"{finding} = {value}") for value in (0, 1) if value not in present]
        else:
            absent += [(name, f"class {label}") for k, label in enumerate(task.classes) if k not in present]
    return absent


class MVC108(Rule):
    """A label lies outside the declared classes, or is missing where it is scored"""

    slug = "label-outside-declared-classes"
    why = "The class list comes from the task, never from the labels present (protocol, 3.1)."
    mend = "Write the class index from 0; multilabel: 0, 1, or null for not labelled."
    reads_test_labels = True

    @staticmethod
    def check(task: Task, splits: Table, sql: Sql) -> Result:
        top = 2 if task.kind == "multilabel" else len(task.classes)
        found = []
        for name in task.label_columns:
            null = (
                "" if task.kind == "multilabel" else f" OR ({name} IS NULL AND split IN ('calib', 'test', 'external'))"
            )
            rows = sql(
                f"""SELECT row, {name} FROM splits
                WHERE ({name} IS NOT NULL AND {name} NOT BETWEEN 0 AND ?){null} ORDER BY row""",
                (top - 1,),
            )
            if rows:
                samples = tuple(f"row {row}: {'null' if value is None else value}" for row, value in rows)
                saw = f"{counted(len(rows), 'label')} outside: {samples[0]}"
                found.append(Finding(f"{splits.file}: {name}", saw, f"0 to {top - 1}", len(rows), samples))
        return found


class MVC109(Rule):
    """Patient identifiers are unavailable"""

    slug = "patient-ids-unavailable"
    level = Level.WAIVABLE
    why = "Without patients neither the split nor the bootstrap can keep a person's images together (protocol, 3.5)."
    mend = "Give hashed patient identifiers, or waive this with the reason: intervals are then by image."

    @staticmethod
    def check(record: Submission) -> Result:
        if not no_patients(record):
            return []
        reason = record.splits.patient_ids_reason or "no reason given"
        return [Finding("submission.yaml: splits.patient_ids", f"unavailable ({reason})", "available")]


class MVC110(Rule):
    """The patient column is made up"""

    slug = "patient-column-fake"
    level = Level.WAIVABLE
    why = "A patient column that is unique per image, or constant, hides repeated patients (protocol, 2.3)."
    mend = "Use the true patient of each image; correct splits.images_per_patient if each patient has one image."

    @staticmethod
    def check(record: Submission, splits: Table, sql: Sql) -> Result:
        if no_patients(record):
            return NotApplicable("patient identifiers are unavailable")
        if record.splits.images_per_patient <= 1:
            return []
        images, patients = sql("SELECT count(DISTINCT image), count(DISTINCT patient) FROM splits")[0]
        if 1 < patients < images:
            return []
        saw = f"{patients} patients on {images} images"
        wanted = f"about {record.splits.images_per_patient:g} images a patient, as declared"
        return [Finding(f"{splits.file}: patient_id", saw, wanted)]


class MVC111(Rule):
    """The split file is not the one that the record or the task names"""

    slug = "split-digest-differs"
    why = "Split files are published so that others evaluate on identical cases (protocol, 3.1)."
    mend = "Use the published split file, or correct splits.sha256."

    @staticmethod
    def check(task: Task, record: Submission, splits: Table, files: Mapping[str, str]) -> Result:
        digest = files[splits.file]
        found = []
        for where, named in (
            ("submission.yaml: splits.sha256", record.splits.sha256),
            ("task.yaml", task.splits_sha256),
        ):
            if named not in (None, digest):
                found.append(Finding(where, f"{named} named, the file has {digest}", "the digest of the split file"))
        return found


class MVC112(Rule):
    """The target or the source of its labels is not declared"""

    slug = "target-or-label-source-undeclared"
    why = (
        "The benchmark begins with a written definition of the target and of how labels were obtained (protocol, 3.1)."
    )
    mend = "Fill in target, label_source and label_definition in task.yaml."

    @staticmethod
    def check(task: Task) -> Result:
        fields = ("target", "label_source", "label_definition")
        blank = [name for name in fields if not getattr(task, name).strip()]
        if not blank:
            return []
        return [Finding("task.yaml", f"blank: {', '.join(blank)}", "a written definition", len(blank))]


class MVC113(Rule):
    """Training or validation rows are missing from the split file"""

    slug = "train-or-validation-rows-missing"
    level = Level.WAIVABLE
    why = "That training and test share no patient can be seen only if both are listed (protocol, 3.1)."
    mend = "List the train and val images too (hashed identifiers only), or waive this with the reason."

    @staticmethod
    def check(record: Submission, splits: Table, sql: Sql) -> Result:
        present = {split for (split,) in sql("SELECT DISTINCT split FROM splits")}
        wanted = ("train",) if record.calibration.cross_fit is not None else ("train", "val")
        missing = [split for split in wanted if split not in present]
        if not missing:
            return []
        return [Finding(f"{splits.file}: split", f"no row with {' or '.join(missing)}", "rows of train and val")]


class MVC114(Rule):
    """An image is listed twice in one split"""

    slug = "image-listed-twice"
    why = "A repeated row would count its patient twice."
    mend = "Keep one row an image."

    @staticmethod
    def check(splits: Table, sql: Sql) -> Result:
        rows = sql(
            """SELECT image_id, split, count(*) FROM splits JOIN images USING (image)
            GROUP BY image_id, split HAVING count(*) > 1 ORDER BY image_id"""
        )
        if not rows:
            return []
        samples = tuple(f"image {image} {n} times in {split}" for image, split, n in rows)
        return [
            Finding(
                splits.file,
                f"{counted(len(rows), 'image')} listed twice: {samples[0]}",
                "one row an image",
                len(rows),
                samples,
            )
        ]
