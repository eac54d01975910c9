"""Excel sheets as text."""

import datetime
import sys
import zipfile
from pathlib import Path

import pytest
import xlwt

from splits.errors import SplitError
from splits.metadata import Columns, Reading, gather
from splits.reading import read_table
from splits.sheets import read_sheet

Cells = list[list[object]]


def xls(path: Path, rows: Cells) -> Path:
    book = xlwt.Workbook()
    page = book.add_sheet("first")
    date = xlwt.easyxf(num_format_str="YYYY-MM-DD")
    for line, row in enumerate(rows):
        for column, cell in enumerate(row):
            if cell is not None:
                style = [date] if isinstance(cell, datetime.date) else []
                page.write(line, column, cell, *style)
    book.add_sheet("second").write(0, 0, "not read")
    book.save(str(path))
    return path


def xlsx(path: Path, rows: Cells) -> Path:
    """The smallest workbook that Excel opens: inline text, numbers as written."""
    space = "http://schemas.openxmlformats.org"
    main = f'xmlns="{space}/spreadsheetml/2006/main"'
    office = f"{space}/officeDocument/2006/relationships"
    cells = "".join(f"<row>{''.join(_cell(cell) for cell in row)}</row>" for row in rows)
    relation = f'<Relationships xmlns="{space}/package/2006/relationships"><Relationship Id="r1" '
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{space}/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kinds}.sheet.main+xml"/>'
        f'<Override PartName="/xl/sheet1.xml" ContentType="{kinds}.worksheet+xml"/></Types>',
        "_rels/.rels": f'{relation}Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/_rels/workbook.xml.rels": f'{relation}Type="{office}/worksheet" Target="sheet1.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{office}"><sheets>'
        '<sheet name="first" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/sheet1.xml": f"<worksheet {main}><sheetData>{cells}</sheetData></worksheet>",
    }
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in parts.items():
            packed.writestr(name, text)
    return path


def _cell(cell: object) -> str:
    if cell is None:
        return "<c/>"
    if isinstance(cell, bool):
        return f'<c t="b"><v>{int(cell)}</v></c>'
    return f"<c><v>{cell}</v></c>" if isinstance(cell, int | float) else f'<c t="inlineStr"><is><t>{cell}</t></is></c>'


@pytest.mark.parametrize("write", [xls, xlsx])
def test_cells_are_text(tmp_path: Path, write: object) -> None:
    assert callable(write)
    file = write(tmp_path / "table", [["id", "age", "site "], ["007", 7, " St. Étienne "], [3.5, 1e20, True]])
    assert read_sheet(file).to_dict(as_series=False) == {
        "id": ["007", "3.5"],
        "age": ["7", "1e+20"],
        "site": ["St. Étienne", "true"],
    }
    assert read_table(file).frame["id"].to_list() == ["007", "3.5"]


def test_blank_rows_dates_and_columns_without_a_name(tmp_path: Path) -> None:
    day = datetime.date(2005, 10, 19)
    rows: Cells = [[None, None, None, None], ["image", None, "", "day"], ["a", None, "x", day], [], ["b"]]
    assert read_sheet(xls(tmp_path / "t.xls", rows)).to_dict(as_series=False) == {
        "image": ["a", "b"],
        "unnamed_3": ["x", None],
        "day": ["2005-10-19", None],
    }


def test_midnight_is_a_date(tmp_path: Path) -> None:
    day = datetime.datetime(2005, 10, 19)
    rows: Cells = [["id", "seen"], ["a", day], ["b", day.replace(hour=9)]]
    assert read_sheet(xls(tmp_path / "t.xls", rows))["seen"].to_list() == ["2005-10-19", "2005-10-19T09:00:00"]


def test_a_float_that_lost_digits_is_seen_as_such(tmp_path: Path) -> None:
    file = xlsx(tmp_path / "t.xlsx", [["image", "patient", "label"], ["a", 2.0**53, "no"], ["b", 2.0**54, "yes"]])
    with pytest.raises(
        SplitError, match=r"'patient' holds '1\.8014398509481984e\+16' \(1 such cells\): numbers that lost"
    ):
        gather(read_table(file), Columns("patient", ("label",)), Reading())


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["a", "b", "a "], [1, 2, 3]], "the column name 'a' comes 2 times"),
        ([["a"], [1, 2]], "row 2: a cell beyond the last named column"),
        ([], "the first sheet is empty"),
    ],
)
def test_what_is_refused(tmp_path: Path, rows: Cells, said: str) -> None:
    with pytest.raises(SplitError, match=said):
        read_sheet(xls(tmp_path / "t.xls", rows))


def test_files_that_are_no_sheet(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv.zip"
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("labels.csv", "image,level\n")
    with pytest.raises(SplitError, match=r"is a zip archive \(labels\.csv\), no table; unpack it"):
        read_sheet(file)
    file.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(SplitError, match="can't be read as an Excel sheet"):
        read_sheet(file)


def test_without_the_package_the_mend_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(SplitError, match=r"needs python-calamine: pip install 'mvc-kit\[data\]', or save"):
        read_sheet(xls(tmp_path / "t.xls", [["a"], [1]]))
