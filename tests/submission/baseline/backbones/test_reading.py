"""Checkpoints in the layouts that users have; none of them is run."""

import os
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from submission.baseline.backbones.reading import fill, read_state
from submission.baseline.errors import BaselineError
from tests.submission.baseline.tiny import RESNET, SIZE, VIT, clip

STATE = {"a.weight": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(2.5)}


class Bomb:
    """Pickled, it makes a file when it is loaded without care."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def same(found: dict[str, Tensor], wanted: dict[str, Tensor] = STATE) -> bool:
    return set(found) == set(wanted) and all(torch.equal(found[key].float(), wanted[key].float()) for key in wanted)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3, "name": "x"},
        lambda state: {"model": state},
        lambda state: {"state_dict": {f"module.{key}": value for key, value in state.items()}},
        lambda state: {**state, "text.embeddings.position_ids": torch.arange(3), "attn_mask": torch.zeros(2)},
    ],
)
@pytest.mark.parametrize("legacy", [False, True])
def test_state_dicts_that_torch_saved(tmp_path: Path, wrap: Callable[[Any], Any], legacy: bool) -> None:
    torch.save(wrap(STATE), tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    assert same(read_state(tmp_path / "x.pt"))


def test_safetensors(tmp_path: Path) -> None:
    save_file({key: value.half() for key, value in STATE.items()}, tmp_path / "x.safetensors")
    assert same(read_state(tmp_path / "x.safetensors"))


def test_a_zip_that_holds_the_checkpoint(tmp_path: Path) -> None:
    torch.save(STATE, tmp_path / "pytorch_model.bin")
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "pytorch_model.bin", "medclip/pytorch_model.bin")
    assert same(read_state(tmp_path / "x.zip", "pytorch_model.bin"))
    with pytest.raises(BaselineError, match="can't be read as weights"):
        read_state(tmp_path / "x.zip", "other.bin")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("vision", [{**VIT, "layers": 1}, RESNET])
def test_openais_archive_is_read_without_running_it(tmp_path: Path, vision: dict[str, Any]) -> None:
    model = clip(0, vision, 1)
    wanted = {name: value.clone() for name, value in model.state_dict().items()}
    for name in ("context_length", "vocab_size"):
        delattr(model, name)
    for name in ("input_resolution", "context_length", "vocab_size"):  # as in OpenAI's files
        model.register_buffer(name, torch.tensor(SIZE))
    with torch.no_grad(), warnings.catch_warnings():
        traced = torch.jit.trace_module(  # type: ignore[no-untyped-call]
            model, {"encode_image": (torch.zeros(1, 3, SIZE, SIZE),)}, check_trace=False
        ).half()
    torch.jit.save(traced, str(tmp_path / "RN50.pt"))
    found = read_state(tmp_path / "RN50.pt")
    assert found["logit_scale"].dtype == torch.float16
    assert same(found, {name: value.half() for name, value in wanted.items()})


@pytest.mark.parametrize("script", [False, True])
def test_code_in_a_file_is_not_run(tmp_path: Path, script: bool) -> None:
    made = tmp_path / "made"
    path = tmp_path / "x.pt"
    if script:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x/constants.pkl", pickle.dumps(()))
            archive.writestr("x/data.pkl", pickle.dumps({"a": Bomb(made)}))
    else:
        torch.save({"a": Bomb(made)}, path)
    with pytest.raises(BaselineError, match=r"holds more than tensors \(posix\.mkdir\), which is not read"):
        read_state(path)
    assert not made.exists()


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("x.pt", b"", "damaged or not whole"),
        ("x.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "pointer of Git LFS"),
        ("x.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "pointer of Git LFS"),
        ("x.pt", b"\n<!DOCTYPE html><html>not found", "it is a web page"),
        ("x.safetensors", b"\x10\0\0\0\0\0\0\0{}", "damaged or not whole"),
        ("x.pt", b"PK\x03\x04" + bytes(100), "damaged or not whole"),
    ],
)
def test_files_that_are_no_weights(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BaselineError, match=words):
        read_state(tmp_path / name)


def test_a_file_that_was_cut(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1000)}, tmp_path / "x.pt")
    data = (tmp_path / "x.pt").read_bytes()
    for share in (0.3, 0.9):
        (tmp_path / "x.pt").write_bytes(data[: int(len(data) * share)])
        with pytest.raises(BaselineError, match=r"can't be read as weights: .*damaged or not whole"):
            read_state(tmp_path / "x.pt")


@pytest.mark.parametrize("held", [[1, 2], {"a": 1}, {"state_dict": {}}, torch.zeros(3)])
def test_files_without_tensors_by_name(tmp_path: Path, held: object) -> None:
    torch.save(held, tmp_path / "x.pt")
    with pytest.raises(BaselineError, match="holds no tensors by name"):
        read_state(tmp_path / "x.pt")


def test_half_precision_becomes_float32() -> None:
    model = nn.Linear(3, 2)
    fill(model, {"weight": torch.ones(2, 3).half(), "bias": torch.zeros(2).bfloat16()}, "X", Path("x"))
    assert model.weight.dtype == model.bias.dtype == torch.float32
    assert model.weight.sum() == 6


def test_what_does_not_fit_is_named() -> None:
    model = nn.Sequential(*[nn.Linear(3, 2) for _ in range(4)])
    state = {"0.weight": torch.zeros(3, 2), "head": torch.zeros(1), "unused.x": torch.zeros(1)}
    with pytest.raises(BaselineError) as caught:
        fill(model, state, "RN50", Path("w.pt"), ignore=("unused.",))
    assert str(caught.value) == (
        "w.pt does not fit RN50: missing: 0.bias, 1.weight, 1.bias, 2.weight and 3 more; not of this model: head; of "
        "another shape: 0.weight (3, 2), wanted (2, 3). Take the released weights of RN50, or the right backbone"
    )


def test_values_that_are_not_finite_are_named() -> None:
    state = {"weight": torch.full((2, 3), torch.inf), "bias": torch.zeros(2)}
    with pytest.raises(BaselineError, match="values that are not finite: weight; download it anew"):
        fill(nn.Linear(3, 2), state, "RN50", Path("w.pt"))
