"""Seeds side by side: what workers say, how they end, and what the user can mend."""

import os
import pickle
import queue
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from submission.baseline import backbones
from submission.baseline.data import read_pool
from submission.baseline.draws import draw
from submission.baseline.errors import BaselineError
from submission.baseline.seeds import Job, _without_ctrl_c, _work, enough_memory, run_seed, settle, store_of
from tests.submission.baseline.world import CLASSES, World, config, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


def test_a_fault_in_a_worker_is_told(world: World, tmp_path: Path) -> None:
    chosen = config(world, "coop", training={"epochs": 2, "batch_size": 4, "learning_rate": 1e38})
    pool = read_pool(world.splits, world.images, classes=CLASSES)
    draws = draw(pool, chosen)
    job = Job(chosen, pool, draws.train[1], (), 1, tmp_path / "1", tmp_path / "views", "", None, False, 1)
    waiting: queue.Queue[Job | None] = queue.Queue()
    said: queue.Queue[object] = queue.Queue()
    waiting.put(job)
    _work(waiting, said, "cpu", os.getppid())
    told = [said.get() for _ in range(said.qsize())]
    assert isinstance(told[-1], BaselineError)
    assert "training diverged" in str(told[-1])
    assert not isinstance(told[0], BaselineError)


def test_workers_are_deaf_to_ctrl_c_from_the_start() -> None:
    program = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    with _without_ctrl_c():
        inside = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert inside.stdout.strip() == "True"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_full_disk_in_a_worker_is_told_as_such(world: World, tmp_path: Path) -> None:
    pool = read_pool(world.splits, world.images, classes=CLASSES)
    chosen = config(world, "coop")
    (tmp_path / "1").touch()  # where the folder of the seed should be
    job = Job(chosen, pool, draw(pool, chosen).train[1], (), 1, tmp_path / "1", tmp_path / "views", "", None, False, 1)
    waiting: queue.Queue[Job | None] = queue.Queue()
    said: queue.Queue[object] = queue.Queue()
    waiting.put(job)
    _work(waiting, said, "cpu", os.getppid())
    told = [said.get() for _ in range(said.qsize())]
    assert isinstance(told[-1], OSError)
    assert pickle.loads(pickle.dumps(told[-1])).errno == told[-1].errno


def test_too_little_memory_is_the_users_to_mend() -> None:
    for error in (
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        torch.OutOfMemoryError("x"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    ):
        with pytest.raises(BaselineError, match=r"out of memory .*; free memory .* or --force"), enough_memory():
            raise error
    for said in ("another", "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED"):
        with pytest.raises(RuntimeError, match=said), enough_memory():
            raise RuntimeError(said)


def test_only_what_a_killed_run_left_is_removed(world: World, tmp_path: Path) -> None:
    pool, chosen = read_pool(world.splits, world.images, classes=CLASSES), config(world, "zeroshot")
    own = tmp_path / "1"
    for folder in (".ipynb_checkpoints", ".log.jsonl.folder"):
        (own / folder).mkdir(parents=True)
    for name in (".ipynb_checkpoints/a", ".note", ".log.jsonl.x7s", ".checkpoint.safetensors.x7s"):
        (own / name).touch()
    job = Job(chosen, pool, (), (), 0, own, tmp_path / "views", "", None, False, None)
    loaded = backbones.load(chosen.backbone, device="cpu", precision="fp32")
    store = store_of(chosen, job.cache, loaded)
    found = run_seed(job, "cpu", lambda event: None, loaded, store)
    assert {path.name for path in own.iterdir() if path.name.startswith(".")} == {
        ".ipynb_checkpoints", ".log.jsonl.folder", ".note",
    }  # fmt: skip
    assert (own / ".ipynb_checkpoints" / "a").exists()
    assert found.shape == (pool.evaluated.height, len(CLASSES))


def test_attention_has_a_repeatable_backward_pass() -> None:
    from torch.nn.functional import scaled_dot_product_attention as attention

    settle(None)
    kernels: Any = torch.backends.cuda
    assert not kernels.flash_sdp_enabled()
    assert not kernels.mem_efficient_sdp_enabled()
    assert not kernels.cudnn_sdp_enabled()
    assert kernels.math_sdp_enabled()
    q, k, v = torch.randn(3, 2, 4, 5, 8, generator=torch.Generator().manual_seed(1)).unbind()
    by_hand = (q @ k.mT / 8**0.5).softmax(dim=-1) @ v
    assert torch.allclose(attention(q, k, v), by_hand, atol=1e-6)


ENDED = """
import sys
from pathlib import Path
from submission.baseline import seeds
from submission.baseline.seeds import Job, run_seeds
def interrupted(*given):
    raise KeyboardInterrupt
seeds._listen = interrupted
many = tuple(f"image {number}" for number in range(50_000))  # more than a pipe holds
if __name__ == "__main__":
    jobs = [Job(None, None, many, (), seed, Path("."), Path("."), "", None, False, 1) for seed in (1, 2)]
    try:
        run_seeds(jobs, ("cpu", "cpu"), print, None)
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_a_run_that_is_interrupted_ends_with_jobs_that_nobody_took(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(ENDED)
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout == "interrupted\n"
    assert "Traceback" not in ended.stderr
