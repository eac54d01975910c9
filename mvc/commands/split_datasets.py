"""``mvc split datasets``: the public data sets and recipes that the kit knows, and how to make a split of each."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from splits.datasets import DataSet
    from splits.recipes import Recipe

UNLABELLED = ("messidor-2", "pannuke")  # the official files have images without a label


def datasets(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A data set or a recipe, such as eyepacs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the public data sets whose label files mvc split make reads, and its recipes, or say all about one.

    Example: mvc split datasets eyepacs
    """
    from splits.datasets import DATASETS
    from splits.recipes import RECIPES

    if name is None:
        if as_json:
            _print_json([_facts(data_set) for data_set in DATASETS.values()])
        else:
            _show_all(list(DATASETS.values()), list(RECIPES.values()))
        return
    key = _known(name)
    if as_json:
        _print_json(_recipe_facts(RECIPES[key]) if key in RECIPES else _facts(DATASETS[key]))
    elif key in RECIPES:
        _show_recipe(RECIPES[key])
    else:
        _show(DATASETS[key])


def _print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def _known(name: str) -> str:
    """The key of that data set or recipe; usage error with the near ones."""
    import difflib

    from protocol.findings import plain
    from splits.datasets import DATASETS
    from splits.recipes import RECIPES

    keys = [*DATASETS, *RECIPES]
    if (key := name.casefold()) in keys:
        return key
    near = difflib.get_close_matches(key, keys, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}?" if near else "mvc split datasets lists them all"
    raise typer.BadParameter(f"there is no data set or recipe {plain(name)!r}; {meant}", param_hint="NAME")


def _facts(data_set: "DataSet") -> dict[str, Any]:
    import dataclasses

    fields = {f.name: getattr(data_set, f.name) for f in dataclasses.fields(data_set) if f.name != "read"}
    more = {"maps": dict(data_set.maps), "recipes": _recipes(data_set.key), "call": _call(data_set)}
    return {**fields, **more}


def _recipe_facts(recipe: "Recipe") -> dict[str, Any]:
    import dataclasses

    fields = {f.name: getattr(recipe, f.name) for f in dataclasses.fields(recipe)}
    plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in fields.items()}
    return {**plain, "call": _recipe_call(recipe)}


def _call(data_set: "DataSet") -> str:
    """The command that splits the data set; what may be left out stands in brackets."""
    maps = [f"[--map {name}=FILE]" for name in data_set.maps]
    drop = ["--drop-unlabelled"] if data_set.key in UNLABELLED else []
    return " ".join(["mvc split make FILE... --dataset", data_set.key, *maps, *drop, "--out my-split"])


def _recipe_call(recipe: "Recipe") -> str:
    """The command that makes the splits of the recipe; what may be left out stands in brackets."""
    from splits.datasets import DATASETS

    keys = (recipe.development, *recipe.external)
    files = [f"{key}=FILE" for key in keys]
    maps = [f"[--map {key}:{name}=FILE]" for key in keys for name in DATASETS[key].maps]
    drop = ["--drop-shared"] if recipe.shared else []
    drop += ["--drop-unlabelled"] if any(key in UNLABELLED for key in keys) else []
    return " ".join(["mvc split make", *files, "--recipe", recipe.key, *maps, *drop, "--out my-split"])


def _recipes(key: str) -> list[str]:
    """Keys of the recipes that train on the data set or test on it."""
    from splits.recipes import RECIPES

    return [recipe.key for recipe in RECIPES.values() if key in (recipe.development, *recipe.external)]


def _unit(data_set: "DataSet") -> str:
    """Whether patients are known without a map, or what else is."""
    if data_set.unavailable:
        return "no"
    return "yes" if data_set.unit == "patient" else f"no, {data_set.unit}s"


def _show_all(data_sets: list["DataSet"], recipes: list["Recipe"]) -> None:
    from mvc.show import console

    out = console()
    rows = [
        (data_set.key, data_set.modality, str(len(data_set.classes)), _unit(data_set), ", ".join(data_set.maps))
        for data_set in data_sets
    ]
    out.print(_table(("data set", "modality", "classes", "patients known", "maps"), rows))
    out.print()
    out.print(_table(("recipe", "title"), [(recipe.key, recipe.title) for recipe in recipes]))
    out.print()
    said = "mvc split datasets NAME says all about one: files, licence, what can and can't be guaranteed, how to call"
    out.print(said)


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> "Table":
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        whole = heading in ("data set", "recipe", "patients known", "maps")
        table.add_column(heading, justify="right" if heading == "classes" else "left", no_wrap=whole)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


def _show(data_set: "DataSet") -> None:
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
    facts.append(("call", _call(data_set)))
    _print_facts(f"{data_set.title} ({data_set.key}): {data_set.modality}", facts)


def _show_recipe(recipe: "Recipe") -> None:
    """What trains, what is external, what the paper states and what the kit decides, warnings, and the command."""
    from splits.datasets import DATASETS

    of = [f"{DATASETS[key].title} ({key})" for key in (recipe.development, *recipe.external)]
    facts = [
        ("source", f"MVC-Bench, {recipe.source}"),
        ("trained on", of[0]),
        *(("external", text) for text in of[1:] or ["none"]),
        ("shots", f"{recipe.shots} a class, seeds {', '.join(map(str, recipe.seeds))}"),
    ]
    for index, name in enumerate(recipe.classes):
        facts.append((f"class {index}", f"{name}: {_answering(recipe, index)}"))
    facts += [("stated", line) for line in recipe.stated]
    facts += [("decided", line) for line in recipe.decided]
    facts += [("warning", line) for line in recipe.warnings]
    for key in (recipe.development, *recipe.external):
        facts.append(("files", f"{key}: {DATASETS[key].files}"))
        facts += [("map", f"{key}:{name}: {text}") for name, text in DATASETS[key].maps.items()]
    facts.append(("call", _recipe_call(recipe)))
    _print_facts(f"{recipe.title} ({recipe.key}): {recipe.modality}", facts)


def _answering(recipe: "Recipe", index: int) -> str:
    """The classes of each data set that stand for one of the recipe's."""
    from splits.datasets import DATASETS

    said = []
    for key, answers in recipe.label_maps.items():
        names = [DATASETS[key].classes[own] for own, k in enumerate(answers) if k == index]
        said.append(f"{key} {' or '.join(names) or 'none'}")
    return "; ".join(said)


def _print_facts(title: str, facts: list[tuple[str, str]]) -> None:
    from mvc.show import console

    typer.echo(title)
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
