"""Step 7: release the artefacts (protocol, 3.7)."""

import re
from collections.abc import Iterator, Mapping

from protocol.facts import Sql, Table
from protocol.findings import Finding, counted
from protocol.rules import Result, Rule
from protocol.stages.stage0_intake import Problems, texts_of
from protocol.stages.stage1_splits import EVALUATED
from protocol.submission import Artefact, Submission
from protocol.tables import PERSONAL_NAMES, bare

PERSONAL_VALUES = {
    "an e-mail address": re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.]{2,}"),
    "a DICOM UID": re.compile(r"(?<![\d.])[0-2](?:\.(?:0|[1-9]\d*)){5,}(?![\d.])"),
    "GPS coordinates": re.compile(r"(?<![\d.])-?\d{1,2}\.\d{4,}\s*[,;]\s*-?\d{1,3}\.\d{4,}"),
}
# The contact may be reached, and citations may name people.
EXEMPT_FIELDS = frozenset({"contact", "team", "title", "url", "doi", "code_url"})


class MVC701(Rule):
    """The licence is missing or is no SPDX expression"""

    slug = "licence-missing"
    why = "Artefacts are released under a stated licence (protocol, 3.7)."
    mend = "Write an SPDX identifier such as CC-BY-4.0 into release.licence."

    @staticmethod
    def check(record: Submission) -> Result:
        licence = (record.release.licence or "").strip()
        if licence and _is_spdx(licence):
            return []
        return [Finding("submission.yaml: release.licence", licence or "nothing", "an SPDX expression")]


def _is_spdx(text: str) -> bool:
    from license_expression import ExpressionError, get_spdx_licensing

    try:
        return not get_spdx_licensing().validate(text).errors
    except ExpressionError:
        return False


class MVC702(Rule):
    """A released artefact is missing or differs from its digest"""

    slug = "artefact-missing"
    why = "The benchmark is reproducible only if its parts are available (protocol, 3.7)."
    mend = "Put the file into the bundle, with its SHA-256."

    @staticmethod
    def check(record: Submission, files: Mapping[str, str], problems: Problems) -> Result:
        found = []
        told = {problem.where for problem in problems}  # what intake could not read is told there
        if record.calibration.parameters not in files:
            told.add(record.calibration.parameters)  # MVC310 owns that
        for name, artefact in _artefacts(record):
            if artefact.file is None or artefact.file in told:
                continue
            digest = files.get(artefact.file)
            if digest is None or artefact.sha256 not in (None, digest):
                where = f"submission.yaml: release.{name}, {artefact.file}"
                found.append(Finding(where, digest or "absent from the bundle", artefact.sha256 or "the file"))
        return found


def _artefacts(record: Submission) -> Iterator[tuple[str, Artefact]]:
    for name in ("code", "splits", "predictions", "parameters"):
        artefact = getattr(record.release, name)
        if artefact is not None:
            yield name, artefact


class MVC703(Rule):
    """Some runs lack images that other runs have"""

    slug = "predictions-ragged"
    why = "Models are set side by side on identical cases (protocol, 3.1 and 3.7)."
    mend = "Give every model, seed and calibrator for every test and external image."
    requires = frozenset({"MVC405"})

    @staticmethod
    def check(splits: Table, predictions: Table, sql: Sql) -> Result:
        rows = sql(
            f"""WITH wanted AS ({EVALUATED} INTERSECT SELECT image FROM predictions),
            present AS (SELECT run, count(*) AS n FROM predictions SEMI JOIN wanted USING (image) GROUP BY run),
            short AS (SELECT run FROM runs LEFT JOIN present USING (run)
                      SEMI JOIN declared_runs USING (model, seed, calibrator)
                      WHERE coalesce(n, 0) < (SELECT count(*) FROM wanted))
            SELECT model, seed, calibrator, image_id FROM short CROSS JOIN wanted
            ANTI JOIN predictions USING (run, image) JOIN runs USING (run) JOIN images USING (image) ORDER BY ALL"""
        )
        if not rows:
            return []
        samples = tuple(f"model {m}, seed {s}, calibrator {c}: image {i}" for m, s, c, i in rows)
        return [
            Finding(
                predictions.file,
                f"{counted(len(rows), 'row')} missing: {samples[0]}",
                "every image in every run",
                len(rows),
                samples,
            )
        ]


class MVC704(Rule):
    """Personal data stand in the tables"""

    slug = "personal-data-in-tables"
    why = "Released files hold hashed identifiers and predictions, nothing that names a person (protocol, section 4)."
    mend = "Drop the column, or replace the values by a hash or a coarse level."

    @staticmethod
    def check(record: Submission, splits: Table, predictions: Table, sql: Sql) -> Result:
        found = []
        for table in (splits, predictions):
            for name in table.columns:
                if bare(name) in PERSONAL_NAMES:
                    found.append(
                        Finding(f"{table.file}: {name}", "a column named like personal data", "no such column")
                    )
        places = [("site", "SELECT DISTINCT site FROM splits")]
        places += [(name, f"SELECT DISTINCT g_{i} FROM splits") for i, name in enumerate(splits.extras)]
        for column, query in places:
            found += _personal(f"{splits.file}: {column}", [str(value) for (value,) in sql(query) if value is not None])
        for where, text in texts_of(record.model_dump(mode="json"), "submission.yaml"):
            if not EXEMPT_FIELDS & set(where.partition(": ")[2].split(".")):
                found += _personal(where, [text], note=True)
        return found


def _personal(where: str, values: list[str], note: bool = False) -> list[Finding]:
    found = []
    for what, pattern in PERSONAL_VALUES.items():
        hits = [value for value in values if pattern.search(value)]
        if hits:
            # The value itself is not repeated: a report must not spread what it warns of.
            found.append(Finding(where, f"{what} in {len(hits)} values", "no personal data", len(hits), note=note))
    return found


class MVC705(Rule):
    """Code or predictions have no location"""

    slug = "code-or-predictions-unlocated"
    why = "Per-image predictions allow a later reader to compute a metric that the authors did not (protocol, 3.7)."
    mend = "Give release.code and release.predictions a url, doi or file; or release.restricted: true with the reason."

    @staticmethod
    def check(record: Submission) -> Result:
        release = record.release
        if release.restricted and release.reason.strip():
            return []
        missing = [name for name in ("code", "predictions") if getattr(release, name) is None]
        if not missing:
            return []
        return [
            Finding(
                "submission.yaml: release", f"no place for {' and '.join(missing)}", "url, doi or file", len(missing)
            )
        ]
