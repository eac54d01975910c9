"""Intake: files, archives and records (tables are in ``tables``)."""

import json
import pickle
import stat
import zipfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import polars as pl

from tests.builders import Draft, edit_json
from tests.mutations.registry import mutates

STAMP = (2026, 1, 1, 0, 0, 0)


def overwrite(name: str, data: bytes) -> Callable[[Path], None]:
    """A change that writes ``data`` over the file ``name`` once the bundle is sealed."""

    def change(folder: Path) -> None:
        (folder / name).write_bytes(data)

    return change


def zipped(*extra: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> Callable[[Path], Path]:
    """Pack the folder into a zip with ``extra`` members."""

    def pack(folder: Path) -> Path:
        target = folder.with_name("bundle.zip")
        with zipfile.ZipFile(target, "w", method) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.writestr(zipfile.ZipInfo(str(path.relative_to(folder)), STAMP), path.read_bytes(), method)
            for member, data in extra:
                info = member if isinstance(member, zipfile.ZipInfo) else zipfile.ZipInfo(member, STAMP)
                archive.writestr(info, data)
        return target

    return pack


def link_member() -> zipfile.ZipInfo:
    """A symbolic link, as Unix zips have them."""
    info = zipfile.ZipInfo("link.yaml", STAMP)
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def bomb_member() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("zeros.bin", STAMP)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def encrypted(folder: Path) -> Path:
    """A zip of which a member is flagged as encrypted, in both of its headers."""
    target = zipped(("note.txt", b"secret"))(folder)
    data = bytearray(target.read_bytes())
    local, central = data.rfind(b"PK\x03\x04"), data.rfind(b"PK\x01\x02")
    data[local + 6] |= 1
    data[central + 8] |= 1
    target.write_bytes(data)
    return target


def no_zip(folder: Path) -> Path:
    target = folder.with_name("bundle.zip")
    target.write_bytes(b"Rar!\x1a\x07\x00 and so on")
    return target


def predictions_pickle(folder: Path) -> Path:
    return folder / "predictions.pkl"


def good(draft: Draft) -> None:
    """Nothing is changed: the packing does it."""


for rule, name, pack in (
    ("MVC001", "no_zip", no_zip),
    ("MVC006", "path_that_leaves", zipped(("../evil.yaml", b"x"))),
    ("MVC006", "absolute_path", zipped(("/etc/evil.yaml", b"x"))),
    ("MVC006", "backslashes", zipped(("..\\evil.yaml", b"x"))),
    ("MVC006", "link", zipped((link_member(), b"/etc/passwd"))),
    ("MVC006", "nested_zip", zipped(("more.zip", b"PK\x05\x06" + bytes(18)))),
    ("MVC006", "colliding_names", zipped(("TASK.yaml", b"x"))),
    ("MVC006", "encrypted", encrypted),
    ("MVC006", "control_character", zipped(("a\nb.txt", b"x"))),
    ("MVC006", "deep_folders", zipped(("a/b/c/d.txt", b"x"))),
    ("MVC006", "ratio", zipped((bomb_member(), bytes(2 << 20)))),
    ("MVC006", "other_compression", zipped(method=zipfile.ZIP_BZIP2)),
    ("MVC006", "many_members", zipped(*((f"{n}.txt", b"x") for n in range(200)))),
    ("MVC007", "pickle_in_zip", zipped(("model.pkl", b"x"))),
):

    def unchanged(draft: Draft) -> None:
        good(draft)

    unchanged.__name__ = name
    mutates(rule, pack=pack)(unchanged)


@mutates("MVC001")
def predictions_absent(draft: Draft) -> None:
    draft.after.append(lambda folder: (folder / "predictions.parquet").unlink())


@mutates("MVC001")
def task_absent(draft: Draft) -> None:
    draft.after.append(lambda folder: (folder / "task.yaml").unlink())


@mutates("MVC001")
def record_absent(draft: Draft) -> None:
    draft.after.append(lambda folder: (folder / "submission.yaml").unlink())


@mutates("MVC001")
def splits_absent(draft: Draft) -> None:
    draft.after.append(lambda folder: (folder / "splits.parquet").unlink())


@mutates("MVC001")
def splits_in_the_other_format(draft: Draft) -> None:
    def rename(folder: Path) -> None:
        (folder / "splits.parquet").rename(folder / "splits.csv")

    draft.after.append(rename)


@mutates("MVC001")
def predictions_twice(draft: Draft) -> None:
    draft.after.append(overwrite("predictions.csv", draft.predictions.write_csv().encode()))


@mutates("MVC001")
def predictions_empty(draft: Draft) -> None:
    draft.after.append(overwrite("predictions.parquet", b""))


@mutates("MVC001")
def predictions_truncated(draft: Draft) -> None:
    def cut(folder: Path) -> None:
        data = (folder / "predictions.parquet").read_bytes()
        (folder / "predictions.parquet").write_bytes(data[: len(data) // 2])

    draft.after.append(cut)


@mutates("MVC001")
def csv_named_parquet(draft: Draft) -> None:
    draft.after.append(overwrite("predictions.parquet", draft.predictions.write_csv().encode()))


@mutates("MVC001")
def predictions_linked(draft: Draft) -> None:
    def link(folder: Path) -> None:
        (folder / "predictions.parquet").rename(folder.with_name("elsewhere.parquet"))
        (folder / "predictions.parquet").symlink_to(folder.with_name("elsewhere.parquet"))

    draft.after.append(link)


@mutates("MVC001")
def lock_is_a_folder(draft: Draft) -> None:
    def turn(folder: Path) -> None:
        (folder / "declaration.lock").unlink()
        (folder / "declaration.lock").mkdir()

    draft.after.append(turn)


@mutates("MVC004")
def record_huge(draft: Draft) -> None:
    def grow(folder: Path) -> None:
        with (folder / "submission.yaml").open("ab") as sink:
            sink.write(b"#" * (1 << 20))
        size = (folder / "submission.yaml").stat().st_size
        with (folder / "submission.yaml").open("ab") as sink:
            sink.write(b"#" * ((2 << 20) - size))  # a round size, so that the message stays the same

    draft.after.append(grow)


@mutates("MVC007")
def pickle_named_parquet(draft: Draft) -> None:
    draft.after.append(overwrite("predictions.parquet", pickle.dumps({"p_1": [0.5]})))


@mutates("MVC007", pack=predictions_pickle)
def predictions_pkl(draft: Draft) -> None:
    draft.after.append(overwrite("predictions.pkl", pickle.dumps({"p_1": [0.5]})))


@mutates("MVC009")
def unknown_key(draft: Draft) -> None:
    draft.declared = deepcopy(draft.record)
    draft.record["recipe"]["learning_rat"] = 0.1


@mutates("MVC009")
def date_for_text(draft: Draft) -> None:
    append(draft, b"\nnotes: 2026-01-01\n")


@mutates("MVC009")
def number_for_text(draft: Draft) -> None:
    draft.declared = deepcopy(draft.record)
    draft.record["title"] = 7


@mutates("MVC009")
def word_that_yaml_takes_for_false(draft: Draft) -> None:
    draft.declared = deepcopy(draft.record)
    draft.after.append(lambda folder: replaced(folder / "submission.yaml", "team: ", "team: no # "))


@mutates("MVC009")
def seeds_not_listed(draft: Draft) -> None:
    draft.declared = deepcopy(draft.record)
    draft.record["models"][0]["seeds"] = 2


@mutates("MVC009")
def name_with_blanks(draft: Draft) -> None:
    draft.declared = deepcopy(draft.record)
    draft.record["submission_id"] = "our best model"


@mutates("MVC009")
def parameters_where_results_go(draft: Draft) -> None:
    draft.declared = deepcopy(draft.record)
    draft.record["calibration"]["parameters"] = "results/calibrators.json"


@mutates("MVC009")
def tab_in_record(draft: Draft) -> None:
    append(draft, b"\nnotes:\n\tone: 1\n")


@mutates("MVC009")
def colon_in_record(draft: Draft) -> None:
    append(draft, b"\nnotes: Chest: a study\n")


@mutates("MVC009")
def doubled_key(draft: Draft) -> None:
    append(draft, b"\nedition: '2026.1'\n")


@mutates("MVC009")
def alias_bomb(draft: Draft) -> None:
    lines = ["a: &a [x, x]"] + [f"{b}: &{b} [*{a}, *{a}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    append(draft, ("\n" + "\n".join(lines) + "\n").encode())


@mutates("MVC009")
def nesting_bomb(draft: Draft) -> None:
    append(draft, b"\ndeep: " + b"[" * 1000 + b"]" * 1000 + b"\n")


@mutates("MVC009")
def not_utf8(draft: Draft) -> None:
    append(draft, b"\n# caf\xe9\n")


@mutates("MVC009")
def record_empty(draft: Draft) -> None:
    draft.after.append(overwrite("submission.yaml", b"\n"))


@mutates("MVC009")
def whole_number_beyond_json(draft: Draft) -> None:
    append(draft, b"\nextra: 99999999999999999999\n")


@mutates("MVC009")
def odd_tag(draft: Draft) -> None:
    append(draft, b"\nextra: !!bool perhaps\n")


@mutates("MVC009")
def no_interval(draft: Draft) -> None:
    draft.claim(metric="auroc", model="densenet121", slice="test", value="0.9", interval=["low", "high"])
    draft.declared = deepcopy(draft.record)
    draft.declared["metrics"]["claims"] = []


@mutates("MVC009")
def parameters_not_finite(draft: Draft) -> None:
    draft.after.append(lambda folder: edit_json(folder / "calibrators.json", _not_finite))


def _not_finite(entries: list[dict[str, dict[str, float]]]) -> None:
    entries[0]["parameters"]["temperature"] = float("nan")


@mutates("MVC009")
def lock_malformed(draft: Draft) -> None:
    draft.after.append(overwrite("declaration.lock", json.dumps({"edition": "2026.1"}).encode()))


def replaced(path: Path, old: str, new: str) -> None:
    """Put ``new`` in the place of the first ``old``."""
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")


def append(draft: Draft, data: bytes) -> None:
    """Add ``data`` to the record once it is sealed."""

    def change(folder: Path) -> None:
        path = folder / "submission.yaml"
        path.write_bytes(path.read_bytes() + data)

    draft.after.append(change)


@mutates("MVC010")
def record_of_another_edition(draft: Draft) -> None:
    draft.record["edition"] = "2020.1"


@mutates("MVC010")
def task_of_another_edition(draft: Draft) -> None:
    draft.task["edition"] = "2020.1"


@mutates("MVC004")
def more_runs_than_the_task_allows(draft: Draft) -> None:
    draft.task["caps"] = {"max_runs": 8}


@mutates("MVC011")
def another_task(draft: Draft) -> None:
    draft.record["task"]["name"] = "another-task"


@mutates("MVC011")
def another_task_digest(draft: Draft) -> None:
    draft.record["task"]["sha256"] = "0" * 64


@mutates("MVC017")
def must_rule_waived(draft: Draft) -> None:
    draft.record["waivers"] = [{"rule": "MVC101", "reason": "we have no time"}]


@mutates("MVC017")
def unknown_rule_waived(draft: Draft) -> None:
    draft.record["waivers"] = [{"rule": "MVC999", "reason": "we have no time"}]


@mutates("MVC015", disk=1 << 16)
def more_rows_than_fit(draft: Draft) -> None:
    draft.predictions = pl.concat([draft.predictions] * 6)


@mutates("MVC018")
def text_of_the_example(draft: Draft) -> None:
    draft.record["title"] = "EXAMPLE: a made-up submission"
    draft.task["target"] = "EXAMPLE: what is predicted"
