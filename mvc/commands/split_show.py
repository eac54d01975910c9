"""What ``mvc split make`` prints."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from splits.plan import Plan
    from splits.writing import Written


def show_made(written: "Written", plan: "Plan") -> None:
    """Print the counts of a split, what is to be said of it, and where it lies."""
    from rich.markup import escape
    from rich.table import Table

    from mvc.show import MAX_ROWS, console
    from protocol.findings import plain

    record, out = written.record, console()
    by_patient = [count.patients for count in record.counts]
    tied = None not in by_patient and by_patient != [count.units for count in record.counts]
    unnamed = tied or len(plan.columns.groups) > 1 or (plan.unavailable and plan.unit == "patient")
    units = "units" if unnamed else f"{plan.unit}s"
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for count in record.counts:
        table.add_column(count.split, justify="right")
    table.add_row("images", *(str(count.images) for count in record.counts))
    if plan.unit != "image":
        table.add_row(units, *(str(count.units) for count in record.counts))
    if tied:
        table.add_row("patients", *map(str, by_patient))
    for index, name in enumerate(record.classes[:MAX_ROWS]):
        table.add_row(escape(plain(name, 40)), *(str(count.images_per_class[index]) for count in record.counts))
    out.print(table)
    if len(record.classes) > MAX_ROWS:
        out.print(f"... {len(record.classes) - MAX_ROWS} more classes in split.json")
    for note in record.notes:
        start = "" if note.startswith("warning: ") else "note: "
        out.print(f"{start}{escape(plain(note, 400))}")
    if plan.unavailable:
        out.print(f"note: patients unavailable (waive MVC109): {escape(plain(plan.unavailable, 400))}")
    if "external" not in [count.split for count in record.counts]:
        out.print("note: no external site (waive MVC601, or name one with --external)")
    if plan.shots is not None:
        seeds = ", ".join(map(str, plan.shot_seeds))
        out.print(f"{plan.shots}-shot draws for seeds {seeds}: few_shot.parquet")
    out.print(f"seed {plan.seed}; split.json says how to draw it again")
    folder = os.path.relpath(written.folder) if not written.folder.is_absolute() else written.folder
    out.print(f"{escape(str(folder))}/public: {', '.join(_within(written.files, 'public/'))}", soft_wrap=True)
    out.print(
        f"{escape(str(folder))}/private: {', '.join(_within(written.files, 'private/'))} (never publish this folder)",
        soft_wrap=True,
    )
    salt = "" if "private/salt" in written.files else f" --salt-file {written.salt_file}"
    hashing = f"mvc split hash PREDICTIONS --record {folder}/public/split.json{salt} --out predictions.hashed.csv"
    out.print(
        "into a bundle: splits.parquet as it is, submission-splits.yaml in place of these blocks of submission.yaml,"
    )
    out.print(f"and your predictions hashed alike: {escape(hashing)}", soft_wrap=True)


def _within(files: Sequence[str], start: str) -> list[str]:
    return [name.removeprefix(start) for name in files if name.startswith(start)]
