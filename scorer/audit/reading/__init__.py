"""Reading of released files: any common form of table, and never anything that runs code."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from scorer.audit.reading import archives, arrays, columnar, delimited, forms, records
from scorer.audit.reading.source import Source, gunzipped, opened
from scorer.audit.shapes import AuditError, Loaded

__all__ = ["read"]


def read(path: Path, *, encoding: str = "utf-8") -> tuple[Loaded, ...]:
    """The tables in ``path``, one at least: CSV, TSV and other text, Parquet, JSON (lines), XLSX, NPY and NPZ, each
    also packed with gzip or zip.

    The form is told by the first bytes, then by the name. An archive, NPZ or JSON file can hold several tables.
    Missing numbers are null, NaN too. Raises :class:`AuditError` for what can't be read, or must not be: pickles.
    """
    source = opened(path, encoding)
    with TemporaryDirectory(prefix="mvc-audit-", ignore_cleanup_errors=True) as folder:
        return _tables(source, Path(folder))


def _tables(source: Source, folder: Path, packed: str = "") -> tuple[Loaded, ...]:
    form = forms.form_of(source)
    if form == "gzip":
        if packed:
            source.refuse(f"is packed with gzip inside {packed}; unpack the outer one")
        return _tables(gunzipped(source, folder), folder, "gzip")
    if form == "zip":
        form = archives.kind_of(source)
    if form == "zip":
        if packed:
            source.refuse(f"is a zip archive inside {packed}; unpack the outer one")
        return _members(source, folder)
    if form in ("xlsx", "xls"):
        if form == "xlsx":
            archives.bounded_sheet(source)
        return (delimited.sheet(source),)
    if form == "parquet":
        return (columnar.parquet(source),)
    if form == "npy":
        return (arrays.npy(source),)
    if form == "npz":
        return arrays.npz(source)
    if form in ("json", "jsonl"):
        return records.json_tables(source, lines=form == "jsonl")
    return (delimited.text_table(source),)


def _members(source: Source, folder: Path) -> tuple[Loaded, ...]:
    found, notes = archives.members(source, folder)
    if len(found) == 1:
        return _tables(found[0].noted(*notes), folder, "zip")
    loaded: list[Loaded] = []
    for member in found:
        try:
            loaded.extend(_tables(member, folder, "zip"))
        except AuditError as error:
            if forms.tabular(member):
                raise
            notes.append(f"not read: {error}")
    if not loaded:
        raise AuditError("; ".join(notes[:3]) or f"{source.name}: no table in it")
    return (replace(loaded[0], notes=(*notes, *loaded[0].notes)), *loaded[1:])
