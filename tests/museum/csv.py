"""CSV: lines without end, columns without number, and numbers as people and programs write them."""

from pathlib import Path

from tests.museum.registry import exhibit, show
from tests.museum.support import as_csv

HEAD = b"image_id,model,seed,calibrator,p_1\n"
ROW = b"a,m,1,none,0.5\n"

for name, data, rule, story in (
    ("empty_csv", b"", "MVC001", "nothing at all"),
    ("blank_lines", b"\n" * 100_000, "MVC001", "nothing but line ends"),
    ("names_only", HEAD, "MVC012", "names and no row"),
    ("no_names", ROW * 3, "MVC002 MVC406", "rows and no names"),
    ("semicolons", HEAD.replace(b",", b";") + ROW.replace(b",", b";"), "MVC001", "semicolons"),
    ("tabs", HEAD.replace(b",", b"\t") + ROW.replace(b",", b"\t"), "MVC001", "tabs"),
    ("open_quote", HEAD + b'"a,m,1,none,0.5\n' * 1000, "MVC014", "quotes that are never closed"),
    ("open_quote_in_names", b'"' + HEAD + ROW * 1000, "MVC001", "a quote in the first line that is never closed"),
    ("line_in_quotes", HEAD + b'"a\nb",m,1,none,0.5\n', "MVC014", "a line end in a quoted value"),
    ("ragged_rows", HEAD + b"a,m,1,none,0.5,0.5,0.5\n", "MVC001", "more values than names"),
    ("short_rows", HEAD + b"a,m\n", "MVC001", "fewer values than names"),
    ("nul_in_csv", HEAD + b"a\0b,m,1,none,0.5\n", "MVC014", "a NUL in a name"),
    ("nul_in_number", HEAD + b"a,m,1,none,0.\x005\n", "MVC003", "a NUL in a number"),
    ("nothing_but_nul", b"\0" * 100_000, "MVC001", "nothing but NUL"),
    ("latin1", HEAD + "é,m,1,none,0.5\n".encode("latin-1"), "MVC001", "Latin-1"),
    ("utf16", (HEAD + ROW).decode().encode("utf-16"), "MVC001", "UTF-16"),
    ("carriage_returns", (HEAD + ROW).replace(b"\n", b"\r"), "MVC202", "carriage returns alone end the lines"),
    ("decimal_commas", HEAD + b'a,m,1,none,"0,5"\n', "MVC003", "decimal commas"),
    ("thousands", HEAD + b'a,m,"1,000",none,0.5\n', "MVC003", "a separator of thousands"),
    ("hex_float", HEAD + b"a,m,1,none,0x1p-1\n", "MVC003", "a hexadecimal float"),
    ("huge_exponent", HEAD + b"a,m,1,none,1e999\n", "MVC401", "a number beyond float64"),
    ("words_for_numbers", HEAD + b"a,m,1,none,high\n", "MVC003", "a word"),
    ("arabic_digits", HEAD + "a,m,1,none,٠.٥\n".encode(), "MVC003", "digits of another script"),
    ("full_width_digits", HEAD + "a,m,1,none,０.５\n".encode(), "MVC003", "digits of double width"),
    ("underscored", HEAD + b"a,m,1_0,none,0.5\n", "MVC003", "a number with an underscore"),
    ("formula_number", HEAD + b"a,m,1,none,=1/2\n", "MVC003", "a formula"),
    ("no_number", HEAD + b"a,m,1,none,\n", "MVC401", "an empty probability"),
    ("nan_in_csv", HEAD + b"a,m,1,none,nan\n", "MVC401", "nan"),
    ("inf_in_csv", HEAD + b"a,m,1,none,-inf\n", "MVC401", "minus infinity"),
    ("long_digits", HEAD + b"a,m,1,none,0." + b"1" * 100_000 + b"\n", "MVC202", "a hundred thousand decimals"),
    ("seed_2_63", HEAD + b"a,m,9223372036854775808,none,0.5\n", "MVC003", "a seed that no machine word holds"),
    ("seed_1e300", HEAD + b"a,m,1e300,none,0.5\n", "MVC003", "a seed with an exponent"),
    ("names_twice", HEAD.replace(b"p_1", b"p_1,P_1") + b"a,m,1,none,0.5,0.5\n", "MVC008", "one name in two cases"),
    ("index_column", b"," + HEAD + b"0," + ROW, "MVC002", "a column without a name"),
):

    def whole_file(folder: Path, data: bytes = data) -> None:
        as_csv(folder, data)

    # One row is what is wrong and all that there is: the images and runs that it lacks are found too.
    lacking = ("MVC202", "MVC403", "MVC404") if rule in ("MVC202", "MVC401") else ()
    show(f"csv_{name}", story, *dict.fromkeys((*rule.split(), *lacking)), make=whole_file)


@exhibit("MVC002")
def csv_columns_120000(folder: Path) -> None:
    """A hundred and twenty thousand columns in the first line."""
    as_csv(folder, b",".join(b"c%d" % n for n in range(120_000)) + b"\n" + ROW)


@exhibit("MVC001")
def csv_first_line(folder: Path) -> None:
    """A first line of eight megabytes: a million columns."""
    as_csv(folder, b",".join(b"c%d" % n for n in range(1_000_000)) + b"\n")


@exhibit("MVC001", process=True)
def csv_one_line(folder: Path) -> None:
    """One value of two hundred megabytes."""
    as_csv(folder, HEAD + b"a" * (200 << 20))


@exhibit("MVC001", process=True)
def csv_one_quoted_line(folder: Path) -> None:
    """A quoted value of a hundred megabytes, full of line ends."""
    as_csv(folder, HEAD + b'"' + b"a\n" * (50 << 20))


@exhibit("MVC005", process=True)
def csv_rows(folder: Path) -> None:
    """Six million rows where some thousands are declared."""
    as_csv(folder, HEAD + ROW * 6_000_000)


@exhibit("MVC001", process=True)
def csv_empty_cells(folder: Path) -> None:
    """A second line of sixty million commas."""
    as_csv(folder, HEAD + b"," * 60_000_000)
