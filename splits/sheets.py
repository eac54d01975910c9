"""Excel sheets as text (.xls and .xlsx), by the optional package python-calamine."""

import datetime
import zipfile
from pathlib import Path
from typing import Any

import polars as pl

from splits.errors import SplitError

MEND = "pip install 'mvc-kit[data]', or save the sheet as CSV"


def read_sheet(path: Path) -> pl.DataFrame:
    """The first sheet of ``path``; its first row that isn't empty names the columns, every column is ``pl.String``.

    An empty cell is null, a whole number '7' and not '7.0', a date ISO 8601, a truth value 'true' or 'false'.
    Raises :class:`SplitError` where python-calamine is missing, and for a file that is no sheet, an empty one, and a
    row that is wider than the names.
    """
    held = _packed(path)
    if held and not any(name.startswith("xl/") for name in held):
        raise SplitError(
            f"{path} is a zip archive ({', '.join(held[:3])}), no table; unpack it and name the file inside"
        )
    rows = _rows(path)
    while rows and not any(_text(cell) for cell in rows[0]):
        rows.pop(0)
    if not rows:
        raise SplitError(f"{path}: the first sheet is empty; put the table there, or save it as CSV")
    names = [_text(cell) or "" for cell in rows[0]]
    while names and not names[-1]:
        names.pop()
    body = [[_text(cell) for cell in row] for row in rows[1:]]
    body = [row for row in body if any(row)]
    for number, row in enumerate(body, start=2):
        if any(row[len(names) :]):
            raise SplitError(f"{path}, row {number}: a cell beyond the last named column; name its column or clear it")
    columns = [[row[index] if index < len(row) else None for row in body] for index in range(len(names))]
    empty = [index for index, name in enumerate(names) if not name]
    for index in reversed(empty):
        if any(columns[index]):
            names[index] = f"unnamed_{index + 1}"
        else:
            del names[index], columns[index]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SplitError(
            f"{path}: the column name {twice!r} comes {names.count(twice)} times; give each column its own"
        )
    return pl.DataFrame([pl.Series(name, cells, pl.String) for name, cells in zip(names, columns, strict=True)])


def _packed(path: Path) -> list[str]:
    """Names in a zip; none where it is no zip or its directory is damaged."""
    try:
        with zipfile.ZipFile(path) as packed:
            return packed.namelist()
    except Exception:  # zipfile raises what it likes for damaged bytes; the workbook's reader says what is wrong
        return []


def _rows(path: Path) -> list[list[Any]]:
    try:
        from python_calamine import CalamineWorkbook, PasswordError
    except ImportError:
        raise SplitError(f"{path} is an Excel sheet, which needs python-calamine: {MEND}") from None
    try:
        with CalamineWorkbook.from_path(path) as book:
            if not book.sheet_names:
                raise SplitError(f"{path}: the workbook has no sheet")
            return book.get_sheet_by_index(0).to_python()
    except PasswordError:
        raise SplitError(f"{path} is locked with a password; save it without one, or as CSV") from None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the reader, which damaged bytes bring about, is no Exception
        raise SplitError(f"{path} can't be read as an Excel sheet ({str(error)[:200]}); save it as CSV") from None


def _text(cell: Any) -> str | None:
    """A cell as people see it; null where it is blank."""
    if isinstance(cell, bool):
        text = str(cell).lower()
    elif isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        text = str(int(cell))
    elif isinstance(cell, datetime.datetime):
        text = (cell.date() if cell.time() == datetime.time() else cell).isoformat()
    elif isinstance(cell, datetime.date | datetime.time):
        text = cell.isoformat()
    else:
        text = str(cell)
    return text.strip() or None
