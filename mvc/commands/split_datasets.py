"""``mvc split datasets``: the public data sets that the kit can read, and what it can and can't say of each."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from splits.datasets import DataSet


def datasets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One data set, such as eyepacs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the public data sets whose label files mvc split make reads, or say all about one.

    Example: mvc split datasets eyepacs
    """
    from splits.datasets import DATASETS

    chosen = None if name is None else _named(name)
    if as_json:
        shown: Any = _facts(chosen) if chosen else [_facts(data_set) for data_set in DATASETS.values()]
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    elif chosen:
        _show(chosen)
    else:
        _show_all(list(DATASETS.values()))


def _named(name: str) -> "DataSet":
    """The data set of that key; usage error with the near ones."""
    import difflib

    from protocol.findings import plain
    from splits.datasets import DATASETS

    if (found := DATASETS.get(name.casefold())) is not None:
        return found
    near = difflib.get_close_matches(name.casefold(), list(DATASETS), n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}?" if near else "mvc split datasets lists them all"
    raise typer.BadParameter(f"there is no data set {plain(name)!r}; {meant}", param_hint="NAME")


def _facts(data_set: "DataSet") -> dict[str, Any]:
    import dataclasses

    fields = {f.name: getattr(data_set, f.name) for f in dataclasses.fields(data_set) if f.name != "read"}
    return {**fields, "maps": dict(data_set.maps), "recipes": _recipes(data_set.key)}


def _recipes(key: str) -> list[str]:
    """Keys of the recipes that train on the data set or test on it."""
    from splits.recipes import RECIPES

    return [recipe.key for recipe in RECIPES.values() if key in (recipe.development, *recipe.external)]


def _unit(data_set: "DataSet") -> str:
    """Whether patients are known without a map, or what else is."""
    if data_set.unavailable:
        return "no"
    return "yes" if data_set.unit == "patient" else f"no, {data_set.unit}s"


def _show_all(shown: list["DataSet"]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from mvc.show import console

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "modality", "classes", "patients known", "maps", "licence"):
        table.add_column(heading, justify="right" if heading == "classes" else "left", no_wrap=heading == "name")
    for data_set in shown:
        maps, classes = ", ".join(data_set.maps), str(len(data_set.classes))
        cells = (data_set.key, data_set.modality, classes, _unit(data_set), maps, data_set.licence)
        table.add_row(*(escape(cell) for cell in cells))
    out = console()
    out.print(table)
    out.print("mvc split datasets NAME says where to get the files, and what can and can't be guaranteed")


def _show(data_set: "DataSet") -> None:
    from mvc.show import console

    known = f"unavailable; {data_set.unit}s are known, and each stays together"
    patients = data_set.unavailable or ("known" if data_set.unit == "patient" else known)
    scale = ", ordered" if data_set.ordinal else ""
    facts = [
        ("licence", data_set.licence),
        ("get it", data_set.source),
        ("cite", data_set.citation),
        ("files", data_set.files),
        ("patients", patients),
        ("labels", f"{data_set.kind}{scale}, {len(data_set.classes)} classes"),
        ("recipes", ", ".join(_recipes(data_set.key)) or "none"),
    ]
    for index, (name, prompt) in enumerate(zip(data_set.classes, data_set.prompt_classes, strict=True)):
        facts.append((f"class {index}", name if name == prompt else f"{name} (in prompts: {prompt})"))
    facts += [("guaranteed", line) for line in data_set.guarantees]
    facts += [("limit", line) for line in data_set.limits]
    facts += [("map", f"{name}: {text} (--map {name}=FILE)") for name, text in data_set.maps.items()]
    typer.echo(f"{data_set.title} ({data_set.key}): {data_set.modality}")
    width = console().width
    for heading, text in facts:
        typer.echo(_wrapped(heading, text, width))


def _wrapped(heading: str, text: str, width: int) -> str:
    """``text`` behind its heading, wrapped beneath itself; an address that is to be copied stays whole."""
    import textwrap

    indent = " " * 11
    return textwrap.fill(
        text,
        width,
        initial_indent=f"{heading:<11}",
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
