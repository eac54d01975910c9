"""Write a made split: a public folder to publish, a private one to keep; both whole or neither."""

import contextlib
import importlib.metadata
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from pyarrow import parquet

from splits.errors import SplitError
from splits.hashing import hash_column, new_salt, read_salt, salt_check, write_salt
from splits.making import APART, Split
from splits.plan import Plan, Source, SplitRecord
from splits.reading import digest_of_file
from splits.sealing import seal

PUBLIC, PRIVATE = "public", "private"
SPLITS_FILE, RECORD_FILE, BLOCK_FILE, SHOTS_FILE = (
    "splits.parquet",
    "split.json",
    "submission-splits.yaml",
    "few_shot.parquet",
)
SALT_FILE, IMAGES_FILE = "salt", "images.csv"
DIFFERS = "EXAMPLE: one or more of institution, device, protocol, population, labels"
MOST_CSV = 1_000_000  # rows; beyond it the private list of images is Parquet


class FolderTakenError(SplitError):
    """The output folder exists and is not empty."""


@dataclass(frozen=True)
class Written:
    """What :func:`write` made; ``salt_file`` is the new one inside the private folder, or the one that was given."""

    folder: Path
    files: tuple[str, ...]
    salt_file: Path
    record: SplitRecord


def write(
    folder: Path,
    split: Split,
    plan: Plan,
    sources: tuple[Source, ...],
    salt_file: Path | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Written:
    """Write ``split`` under ``folder``, which must be new or empty and no link; it appears whole or not at all.

    So do the folders above it that are missing. ``public/`` holds the hashed splits.parquet, split.json (what was
    done), the blocks of a submission.yaml that the split fixes, and few_shot.parquet where shots were drawn.
    ``private/`` (mode 0700) holds the salt (0600), unless ``salt_file`` names one to be used, and a list of the images
    under their own names.

    Raises :class:`SplitError` (:class:`FolderTakenError`; a salt that can't be read), ``OSError`` when nothing can be
    written.
    """
    need_free(folder)
    salt = new_salt() if salt_file is None else salt_of(salt_file)
    with (
        _parents(folder),
        tempfile.TemporaryDirectory(dir=folder.parent, prefix=".mvc-", ignore_cleanup_errors=True) as name,
    ):
        stage = Path(name, "split")
        (stage / PUBLIC).mkdir(parents=True)
        (stage / PRIVATE).mkdir(mode=0o700)
        progress("hashing identifiers")
        with ThreadPoolExecutor(1) as beside:  # hashing keeps one core busy, and writing asks for little of Python
            listed = beside.submit(_write_images, stage / PRIVATE, split, plan)
            sealed = seal(split, plan, salt)
            listed.result()
        progress("writing")
        write_table(stage / PUBLIC / SPLITS_FILE, _ahead(sealed.parts()))
        if split.few_shot is not None:
            write_table(stage / PUBLIC / SHOTS_FILE, [hashed_shots(split.few_shot, plan, salt)])
        record = record_of(split, plan, sources, salt, stage / PUBLIC)
        (stage / PUBLIC / RECORD_FILE).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (stage / PUBLIC / BLOCK_FILE).write_text(block(record, _levels(split)), encoding="utf-8")
        if salt_file is None:
            write_salt(stage / PRIVATE / SALT_FILE, salt)
        files = tuple(sorted(path.relative_to(stage).as_posix() for path in stage.rglob("*") if path.is_file()))
        try:
            os.replace(stage, folder)
        except OSError:
            need_free(folder)
            raise
    return Written(folder, files, salt_file or folder / PRIVATE / SALT_FILE, record)


def need_free(folder: Path) -> None:
    """FolderTakenError where ``folder`` is neither new nor an empty folder; a link is neither."""
    if folder.is_symlink():
        raise FolderTakenError(f"{folder} is a link; name a new folder, or the empty one that it leads to")
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise FolderTakenError(f"{folder} exists and is not an empty folder")


@contextlib.contextmanager
def _parents(folder: Path) -> Iterator[None]:
    """The folders above ``folder``, made where they are missing; those go again on an error, where they are empty."""
    missing = [above for above in folder.parents if not above.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for above in missing:
            with contextlib.suppress(OSError):
                above.rmdir()
        raise


def salt_of(path: Path) -> bytes:
    """The salt in ``path``; SplitError where there is none."""
    try:
        return read_salt(path)
    except FileNotFoundError:
        raise SplitError(f"{path}: no such salt file") from None
    except OSError as error:
        raise SplitError(f"{path} can't be read ({error.strerror})") from None
    except ValueError as error:
        raise SplitError(str(error)) from None


def record_of(split: Split, plan: Plan, sources: tuple[Source, ...], salt: bytes, public: Path) -> SplitRecord:
    """What ``split.json`` says of a split whose tables lie in ``public``."""
    shots = public / SHOTS_FILE
    return SplitRecord(
        software=f"mvc-kit {importlib.metadata.version('mvc-kit')}",
        sources=sources,
        plan=plan,
        kind=split.kind,
        classes=split.classes,
        salt_check=salt_check(salt),
        splits_sha256=digest_of_file(public / SPLITS_FILE),
        few_shot_sha256=digest_of_file(shots) if shots.exists() else None,
        sites=tuple(split.frame["site"].unique().sort().to_list()),
        counts=split.counts,
        images_per_unit=split.images_per_unit,
        images_per_patient=split.images_per_patient,
        notes=split.notes,
    )


def _levels(split: Split) -> dict[str, list[str]]:
    """The levels of each subgroup that is published."""
    return {name: split.frame[name].drop_nulls().unique().sort().to_list() for name in split.subgroups}


def block(record: SplitRecord, levels: Mapping[str, Sequence[str]]) -> str:
    """The blocks of a submission.yaml that this split fixes, as YAML: ``splits``, and ``shift`` where it has one.

    ``levels`` are those of each published subgroup.
    """
    plan = record.plan
    shares = ", ".join(f"{split} {share:g}" for split, share in plan.proportions.items())
    strata = ", ".join(["label", *plan.columns.stratify])
    folds = f", train to {plan.folds} folds" if plan.folds else ""
    ties = f", kept together by {', '.join(plan.columns.groups)}" if plan.columns.groups else ""
    recipe = f"recipe {plan.recipe}: " if plan.recipe else ""
    outside = f"; external: {', '.join(plan.external)}" if plan.external else ""
    dealt = f"{recipe}whole {plan.unit}s{ties} dealt at random to {shares}{folds}, stratified by {strata}{outside}"
    document: dict[str, Any] = {
        "file": SPLITS_FILE,
        "sha256": record.splits_sha256,
        "unit": plan.unit,
        "how": f"{dealt}, by {record.software} (split.json)",
        "seed": plan.seed,
        "hash": {"scheme": "hmac-sha256", "namespace": plan.namespace, "salt_custody": "EXAMPLE: who keeps the salt"},
        "patient_ids": "unavailable" if plan.unavailable else "available",
    }
    if plan.unavailable:
        document["patient_ids_reason"] = plan.unavailable
    else:
        document["images_per_patient"] = record.images_per_patient
    shift: dict[str, Any] = {}
    if plan.external:
        shift["external"] = [{"name": name, "differs_in": [DIFFERS]} for name in record.sites if name in plan.external]
    known = {name: list(own) for name, own in levels.items() if own}
    if known:
        shift["subgroups"] = [{"column": name, "levels": own} for name, own in known.items()]
    blocks = {"splits": document} | ({"shift": shift} if shift else {})
    return yaml.safe_dump(blocks, sort_keys=False, allow_unicode=True, width=100)


def _ahead(parts: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """``parts``, each made while the one before it is used."""
    with ThreadPoolExecutor(1) as beside:
        coming = beside.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = beside.submit(next, parts, None)
            yield part


def write_table(path: Path, parts: Iterable[pl.DataFrame]) -> None:
    """Write ``parts`` one below the other as Parquet, the same bytes for the same rows."""
    with contextlib.ExitStack() as stack:
        writer = None
        for part in parts:
            table = part.to_arrow(compat_level=pl.CompatLevel.oldest())
            if writer is None:
                unlike = [name for name in table.column_names if not name.endswith("_id")]
                writer = stack.enter_context(
                    parquet.ParquetWriter(
                        path, table.schema, compression="zstd", compression_level=1, use_dictionary=unlike
                    )
                )
            writer.write_table(table)


def hashed_shots(shots: pl.DataFrame, plan: Plan, salt: bytes) -> pl.DataFrame:
    """The few-shot draws under hashed identifiers: image_id, seed, split, label."""
    image = hash_column(salt, f"{plan.namespace}/image", shots["image"]).alias("image_id")
    return shots.select(image, "seed", "split", "label").sort("seed", "split", "label", "image_id")


def _write_images(private: Path, split: Split, plan: Plan) -> None:
    """The images under their own names, for training; readable by the owner alone."""
    names = split.patients.names
    if plan.patients_per_site:
        names = names.str.splitn(APART, 2).struct.field("field_1")
    known = pl.Series(split.patients.codes)
    codes = pl.select(pl.when(known >= 0).then(known)).to_series()
    fold = ["fold"] if "fold" in split.frame.columns else []
    patient = names.gather(codes).alias("patient")
    rows = split.frame.select("image", patient, "split", *fold, "site", *split.label_columns)
    path = private / (IMAGES_FILE if rows.height <= MOST_CSV else "images.parquet")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    if path.suffix == ".csv":
        rows.write_csv(path)
    else:
        write_table(path, [rows])
