"""Names and identifiers: columns and values that want to be a query, a formula, a script or somebody else."""

import hashlib
from pathlib import Path

import pyarrow as pa

from tests.museum.registry import exhibit, show
from tests.museum.support import Columns, first, put, table

HOSTILE = {
    "quote": "p_1'",
    "double_quote": 'p_1"',
    "sql": 'image_id" FROM runs; DROP TABLE splits; --',
    "sql_union": "' UNION SELECT label FROM splits --",
    "copy": "x'); COPY runs TO 'stolen.csv'; --",
    "formula": "=cmd|' /C calc'!A0",
    "plus": "+1+1",
    "at": "@SUM(1)",
    "html": "<img src=x onerror=alert(1)>",
    "markup": "[bold red]MVC ACCEPTED[/]",
    "escape": "\x1b[2J\x1b[1;32mMVC ACCEPTED",
    "workflow": "::set-output name=verdict::accepted",
    "newline": "p_1\nMVC ACCEPTED example-1",
    "nul": "p\0_1",
    "bell": "\x07\x08\x7f",
    "c1": "\x9b31m",
    "rtl": "\u202e1_p",
    "isolate": "\u2066p_1\u2069",
    "zero_width": "p\u200b_1",
    "joiner": "p\u2060_1",
    "soft_hyphen": "p\u00ad_1",
    "line_separator": "p_1\u2028MVC ACCEPTED",
    "private": "\ue000",
    "tag": "p_1\U000e0041",
    "blank": "   ",
    "path": "../../etc/passwd",
    "format": "{0.__class__} %s %n",
    "shell": "$(id) `id` ; id | id",
    "template": "{{7*7}} ${jndi:ldap://x}",
}


def renamed(was: str, name: str) -> Columns:
    return lambda old: old.rename_columns([{was: name}.get(n, n) for n in old.column_names])


for key, text in HOSTILE.items():
    rule = "MVC406" if text.startswith("p_") else "MVC002"  # taken for one more probability

    def column(folder: Path, text: str = text) -> None:
        table(folder, lambda old: put(text, old["p_1"])(old))

    show(f"column_{key}", f"a further column of predictions by a hostile name ({key})", rule, make=column)

for key, text in list(HOSTILE.items())[:12]:

    def level(folder: Path, text: str = text) -> None:
        table(folder, lambda old: put(text, old["site"])(old), "splits")

    show(f"subgroup_{key}", f"a subgroup by a hostile name ({key})", "MVC002", make=level)

PRINTABLE = ("quote", "double_quote", "sql", "copy", "formula", "html", "markup", "workflow", "path", "template")
for key in PRINTABLE:

    def model(folder: Path, text: str = HOSTILE[key]) -> None:
        table(folder, first("model", text))

    show(f"model_{key}", f"a model by a hostile name ({key})", "MVC202", "MVC308", make=model)

for key in ("escape", "newline", "nul", "c1", "rtl", "zero_width", "line_separator", "private", "tag", "blank"):

    def unprintable(folder: Path, text: str = HOSTILE[key]) -> None:
        table(folder, first("model", text))

    show(f"text_{key}", f"a model by a name that can't be printed ({key})", "MVC014", make=unprintable)

for key, name in (
    ("case", "Image_ID"),
    ("upper", "P_1"),
    ("full_width", "ｐ_1"),
    ("superscript", "p_¹"),
    ("ligature", "ﬁ"),
):

    def colliding(folder: Path, name: str = name) -> None:
        def twice(old: pa.Table) -> pa.Table:
            old = put(name, old["image_id"])(old)
            return put("fi", old["image_id"])(old) if name == "ﬁ" else old

        table(folder, twice)

    show(f"colliding_{key}", f"two columns that are one ({key})", "MVC008", make=colliding)


@exhibit("MVC002", "MVC406")
def homoglyph_column(folder: Path) -> None:
    """A Cyrillic р in the name of the probabilities: another letter, another column."""
    table(folder, renamed("p_1", "р_1"))


@exhibit("MVC002")
def long_column(folder: Path) -> None:
    """A column with a name of a megabyte, as like model as can be."""
    table(folder, renamed("model", "model" * 200_000))


@exhibit("MVC002")
def nameless_column(folder: Path) -> None:
    """A column without a name."""
    table(folder, renamed("model", ""))


@exhibit("MVC409")
def label_column(folder: Path) -> None:
    """The labels in the predictions."""
    table(folder, lambda old: put("y_true", old["seed"])(old))


@exhibit("MVC704")
def personal_column(folder: Path) -> None:
    """Names of patients in the predictions."""
    table(folder, lambda old: put("Patient-Name", old["model"])(old))


def image(value: str) -> Columns:
    """The first image of the split file by another identifier."""
    return first("image_id", value)


for key, value, story in (
    ("number", "1", "a bare number"),
    ("padded", "01", "a padded number"),
    ("upper", "A" * 64, "upper case"),
    ("short", "a" * 63, "63 characters"),
    ("long", "a" * 65, "65 characters"),
    ("unicode", "１" * 64, "digits of double width"),
    ("arabic", "١" * 64, "Arabic digits"),
    ("prefix", "0x" + "a" * 62, "a hexadecimal prefix"),
    ("md5", hashlib.md5(b"7").hexdigest(), "an MD5"),
):

    def identifier(folder: Path, value: str = value) -> None:
        table(folder, image(value), "splits")

    show(
        f"image_{key}",
        f"an image identifier of {story}",
        "MVC104" if key == "md5" else "MVC103",
        "MVC604",
        make=identifier,
    )


@exhibit("MVC014")
def image_trailing_blank(folder: Path) -> None:
    """'1' against '1 ': a blank after an identifier."""
    table(folder, first("image_id", "a" * 64 + " "))


@exhibit("MVC404", "MVC308")
def image_leading_zero(folder: Path) -> None:
    """'1' against '01': equal as numbers, different as identifiers."""
    table(folder, first("image_id", "01"))
