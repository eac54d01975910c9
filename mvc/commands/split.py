"""``mvc split``: make, hash, verify, check, datasets."""

import json
import os
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from mvc.commands import split_check, split_datasets
from mvc.commands.bundle import JsonOption, _loading, _spinner
from mvc.commands.split_choices import (
    DEFAULT_PROPORTIONS,
    UnitName,
    files_by_set,
    is_text,
    named_files,
    namespace_of,
    parse_proportions,
    parse_seeds,
    refuse_unused,
)
from mvc.commands.split_show import show_made

app = typer.Typer(
    name="split",
    no_args_is_help=True,
    help="Split a data set by patient, hash its identifiers, find leaks in split files.",
)
app.command("check")(split_check.check)
app.command("datasets")(split_datasets.datasets)

FilesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="Metadata table (CSV, TSV, Parquet, Excel), or the label files of --dataset."
    ),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="NAME=FILE", help="With --dataset: an optional map that mvc split datasets names."),
]
SaltOption = Annotated[Path, typer.Option("--salt-file", help="The secret salt of the split.")]


@app.command("make")
def make(
    files: FilesArgument,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="New folder: public/ to publish, private/ to keep.")
    ],
    patient: Annotated[str | None, typer.Option(metavar="COL", help="Column of the patients.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="Column of the classes; repeated: a column a finding (1, 0, empty)."),
    ] = None,
    image: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of the images; default: by its name.")
    ] = None,
    site: Annotated[str | None, typer.Option(metavar="COL", help="Column of the sites.")] = None,
    external: Annotated[
        list[str] | None, typer.Option(metavar="SITE", help="Site that is the external split; repeat for more.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="Column of a further group that stays together: lesion, slide, exam."),
    ] = None,
    stratify: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="Balance this column too (the label always is).")
    ] = None,
    subgroup: Annotated[list[str] | None, typer.Option(metavar="COL", help="Keep this column as a subgroup.")] = None,
    proportions: Annotated[
        str | None, typer.Option(help=f"Share of patients of each split; default: {DEFAULT_PROPORTIONS}.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the draw.")] = 1,
    classes: Annotated[
        str | None, typer.Option(help="Class names in order (two: NEGATIVE,POSITIVE); default: by number or alphabet.")
    ] = None,
    label_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The label column lists findings, parted by this.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Deal train patients to this many folds, for a cross-fit without calib.")
    ] = None,
    shots: Annotated[int | None, typer.Option(min=1, help="Also draw this many training images a class (16).")] = None,
    shot_seeds: Annotated[str | None, typer.Option(help="Seeds of the few-shot draws; default: 1,2,3.")] = None,
    shots_by_image: Annotated[
        bool, typer.Option("--shots-by-image", help="Draw shots among images, not one a patient first.")
    ] = False,
    patients_unavailable: Annotated[
        str | None, typer.Option(metavar="REASON", help="Why there is no patient; images (or --group) are split then.")
    ] = None,
    patients_per_site: Annotated[
        bool, typer.Option("--patients-per-site", help="Each site numbers its own patients: 7 of A is not 7 of B.")
    ] = False,
    unit: Annotated[UnitName | None, typer.Option(help="What the patient column or the group identifies.")] = None,
    drop_unlabelled: Annotated[
        bool, typer.Option("--drop-unlabelled", help="Leave images without a label out.")
    ] = False,
    drop_shared: Annotated[
        bool, typer.Option("--drop-shared", help="Leave external images of patients seen elsewhere out.")
    ] = False,
    ids_as_written: Annotated[bool, typer.Option("--ids-as-written", help="007 and 7 are different patients.")] = False,
    dataset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="FILE are the official label files of a data set (mvc split datasets)."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A published setting; FILE are DATASET=FILE, one or more a data set."),
    ] = None,
    maps: MapOption = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of a text table; default: utf-8.")] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Hashed with each identifier; default: the name of the data set or of FILE.")
    ] = None,
    salt_file: Annotated[
        Path | None, typer.Option("--salt-file", help="Use this salt; default: a new one in DIR/private.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Deal whole patients to train, val, calib and test, stratified by label; hash every identifier.

    DIR/public gets splits.parquet, split.json, the blocks splits and shift of submission.yaml and few_shot.parquet;
    DIR/private the secret salt and the images by name. The same rows and seed give the same splits, on any machine, in
    any order.

    Example: mvc split make metadata.csv --patient patient_id --label grade --site hospital --external B --out my-split
    """
    known = dataset or recipe
    is_text("--out", str(out))
    is_text("--patients-unavailable", patients_unavailable)
    if dataset and recipe:
        raise typer.BadParameter("a recipe names its data sets; leave it out", param_hint="--dataset")
    if known:
        named = {"--patient": patient, "--label": label, "--image": image, "--site": site, "--group": group}
        how = {"--classes": classes, "--label-separator": label_separator, "--encoding": encoding, "--unit": unit}
        ids = {"--patients-unavailable": patients_unavailable, "--patients-per-site": patients_per_site}
        refuse_unused(named | how | ids | {"--ids-as-written": ids_as_written}, "the data set's adapter knows this")
    else:
        _need_columns(patient, label, group, patients_unavailable, unit)
        if len(label or ()) > 1:
            of_one = {"--classes": classes, "--label-separator": label_separator}
            refuse_unused(of_one, "it is for one --label column; each of several is a finding of its own")
        refuse_unused({"--map": maps}, "it belongs to --dataset or --recipe")
        if not site:
            refuse_unused({"--patients-per-site": patients_per_site, "--external": external}, "there is no --site")
    if recipe:
        refuse_unused({"--external": external}, "the recipe names its external sets")
    elif shots is None:
        refuse_unused({"--shot-seeds": shot_seeds, "--shots-by-image": shots_by_image}, "there are no --shots")
    shares = parse_proportions(proportions or DEFAULT_PROPORTIONS)
    with _loading():
        from mvc.commands.split_choices import known_dataset, known_recipe
        from splits.errors import SplitError
        from splits.making import make as make_split
        from splits.plan import ColumnNames, Plan
        from splits.sources import load, settled
        from splits.writing import FolderTakenError, need_free, write

    setting = known_recipe(recipe) if recipe else None
    if dataset:
        known_dataset(dataset)
    seeds = parse_seeds(shot_seeds or "1,2,3") if shots is not None or shot_seeds else ()
    if setting is not None:
        shares = parse_proportions(proportions) if proportions else dict(setting.proportions)
        shots, seeds = shots or setting.shots, seeds or setting.seeds
        external = list(setting.external)
    if not external:
        refuse_unused({"--drop-shared": drop_shared}, "there is no external site")
    paths = files_by_set(files, (setting.development, *setting.external) if setting else ())
    mapped = named_files(maps or [], "--map")
    if unit is None and patients_unavailable and group:
        raise typer.BadParameter("say what --group identifies, such as --unit lesion", param_hint="--unit")
    if unit is None:
        unit = UnitName("image" if patients_unavailable else "patient")
    plan = Plan(
        columns=ColumnNames(
            image=image,
            patient=patient,
            labels=tuple(label or ()),
            label_separator=label_separator,
            site=site,
            groups=tuple(group or ()),
            stratify=tuple(stratify or ()),
            subgroups=tuple(subgroup or ()),
        ),
        dataset=dataset,
        recipe=recipe,
        encoding=encoding or "utf-8",
        classes=tuple(name.strip() for name in classes.split(",")) if classes else (),
        unit=unit.value,
        unavailable=patients_unavailable or "",
        patients_per_site=patients_per_site,
        ids_as_written=ids_as_written,
        drop_unlabelled=drop_unlabelled,
        external=tuple(external or ()),
        drop_shared=drop_shared,
        proportions=shares,
        seed=seed,
        folds=folds,
        shots=shots,
        shot_seeds=seeds,
        shots_by_image=shots_by_image,
        namespace=namespace_of(namespace, known or Path(files[0]).name.partition(".")[0]),
    )
    if salt_file is not None:
        _warn_of_salt(salt_file)
    try:
        with _spinner("reading the metadata") as progress:
            need_free(out)
            gathered, sources = load(plan, paths, mapped)
            plan = settled(plan, gathered)
            written = write(out, make_split(gathered, plan, progress), plan, sources, salt_file, progress)
    except FolderTakenError as error:
        raise typer.BadParameter(str(error), param_hint="--out") from None
    except SplitError as error:
        fail(error)
    except OSError as error:
        raise typer.BadParameter(f"{out} can't be written ({error.strerror or error})", param_hint="--out") from None
    if as_json:
        document = {
            "folder": str(written.folder),
            "files": list(written.files),
            "record": written.record.model_dump(mode="json"),
        }
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        show_made(written, plan)


@app.command("hash")
def hash_(
    table: Annotated[
        Path, typer.Argument(metavar="FILE", help="Table with names of images, such as your predictions.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="New file: .csv, or .parquet (keeps the types).")],
    record: Annotated[
        Path | None, typer.Option("--record", help="split.json of the split whose identifiers these are.")
    ] = None,
    salt_file: Annotated[
        Path | None,
        typer.Option("--salt-file", help="The secret salt; default: private/salt of the --record's folder."),
    ] = None,
    new_salt: Annotated[bool, typer.Option("--new-salt", help="Make a new salt and store it in --salt-file.")] = False,
    namespace: Annotated[str | None, typer.Option(help="Without --record: hashed with each identifier.")] = None,
    image: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of the images; default: by its name.")
    ] = None,
    patient: Annotated[str | None, typer.Option(metavar="COL", help="Column of the patients, if there is one.")] = None,
    site: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of the sites, where each numbers its own patients.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of a text table.")] = "utf-8",
    as_json: JsonOption = False,
) -> None:
    """Write a table again with image_id and patient_id, keyed hashes (HMAC-SHA256), in place of names.

    Example: mvc split hash predictions.csv --record my-split/public/split.json --out predictions.hashed.csv
    """
    if (record is None) == (namespace is None):
        raise typer.BadParameter(
            "name the split (--record split.json) or a namespace of your own", param_hint="--record"
        )
    if record is not None and salt_file is None:
        salt_file = Path(os.path.abspath(record)).parent.parent / "private" / "salt"
    if salt_file is None:
        raise typer.BadParameter("name the file of the secret salt", param_hint="--salt-file")
    if out.suffix not in (".csv", ".parquet"):
        raise typer.BadParameter(f"{out}: the name ends in .csv or .parquet", param_hint="--out")
    with _loading():
        from splits.errors import SplitError
        from splits.hashed_tables import hash_table, salt_for

    if not new_salt:
        _warn_of_salt(salt_file)
    try:
        with _spinner("hashing"), salt_for(salt_file, record, out, new=new_salt) as salt:
            done = hash_table(
                table,
                out,
                salt,
                record=record,
                namespace=namespace,
                image=image,
                patient=patient,
                site=site,
                encoding=encoding,
            )
    except SplitError as error:
        fail(error)
    except OSError as error:
        raise typer.BadParameter(f"{out} can't be written ({error.strerror or error})", param_hint="--out") from None
    if as_json:
        document = {"file": str(out), "salt_file": str(salt_file), "new_salt": new_salt}
        typer.echo(json.dumps(document | {"hashed": done.counts, "in_split": done.in_split}, indent=2))
        return
    for column, count in done.counts.items():
        known = "" if done.in_split is None else f", {done.in_split[column]} of them in the split"
        typer.echo(f"{column}: {count} identifiers hashed{known}")
    if record is not None and done.in_split is None:
        typer.echo("note: no splits.parquet beside the record; nothing says whether these names are in the split")
    if new_salt:
        typer.echo(f"{salt_file}: the new secret salt; keep it, away from what you publish")
    typer.echo(str(out))


@app.command("verify")
def verify(
    splits: Annotated[Path, typer.Argument(metavar="SPLITS", help="The published splits.parquet.")],
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="The metadata that it was made from.")],
    salt_file: SaltOption,
    record: Annotated[
        Path | None, typer.Option("--record", help="The published split.json; default: beside SPLITS.")
    ] = None,
    maps: MapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prove that a published split is yours: make it again from metadata and salt, compare. Exit 1 where it differs.

    Example: mvc split verify my-split/public/splits.parquet metadata.csv --salt-file my-split/private/salt
    """
    mapped = named_files(maps or [], "--map")
    with _loading():
        from mvc.commands.split_choices import known_recipe
        from splits.errors import SplitError
        from splits.proving import read_record
        from splits.proving import verify as prove

    _warn_of_salt(salt_file)
    try:
        with _spinner("reading") as progress:
            made = read_record(record or splits.parent / "split.json")
            setting = known_recipe(made.plan.recipe) if made.plan.recipe else None
            paths = files_by_set(files, (setting.development, *setting.external) if setting else ())
            proof = prove(splits, made, paths, mapped, salt_file, progress)
    except SplitError as error:
        fail(error)
    except OSError as error:
        fail(SplitError(f"no room to make the split again ({error.strerror or error})"))
    if as_json:
        typer.echo(json.dumps(proof.to_dict(), indent=2, ensure_ascii=False))
    else:
        for check in proof.checks:
            typer.echo(f"{'same' if check.ok else 'DIFFERS':8}{check.name}: {check.saw}")
        if proof.holds:
            typer.echo("MVC SPLIT VERIFIED the metadata and the salt give this split")
        else:
            wrong = ", ".join(check.name for check in proof.checks if not check.ok)
            typer.echo(f"MVC SPLIT NOT VERIFIED {wrong} differ{'s' if ',' not in wrong else ''}")
    raise typer.Exit(0 if proof.holds else 1)


def _need_columns(
    patient: str | None,
    label: list[str] | None,
    group: list[str] | None,
    unavailable: str | None,
    unit: UnitName | None,
) -> None:
    if not label:
        raise typer.BadParameter("name the column that holds the classes", param_hint="--label")
    if not patient and not unavailable:
        raise typer.BadParameter(
            "name the column of the patients; if none is known, say why: --patients-unavailable REASON "
            "(with --group for lesions, slides or exams)",
            param_hint="--patient",
        )
    if patient and unavailable:
        raise typer.BadParameter("the patients are named by --patient", param_hint="--patients-unavailable")
    if patient and unit not in (None, UnitName.PATIENT):
        raise typer.BadParameter(
            f"the column of --patient is published as patients; for {unit.value}s say "
            f"--group {patient} --patients-unavailable REASON",
            param_hint="--unit",
        )
    if unavailable and not group and unit not in (None, UnitName.IMAGE):
        raise typer.BadParameter(f"name the column of the {unit.value}s: --group COL", param_hint="--unit")


def _warn_of_salt(salt_file: Path) -> None:
    from protocol.findings import plain
    from splits.hashing import salt_warnings

    for warning in salt_warnings(salt_file):
        typer.echo(f"warning: {plain(warning, 2000)}", err=True)


def fail(error: Exception) -> NoReturn:
    """Say what is wrong with the input and leave with 1."""
    from protocol.findings import plain

    typer.echo(f"error: {plain(str(error), 2000)}", err=True)
    raise typer.Exit(1)
