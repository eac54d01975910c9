"""One seed of a run: its views, its training, its logits; and several of them side by side on several devices."""

import contextlib
import multiprocessing
import os
import queue
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocol.findings import plain
from submission.baseline import backbones, learners
from submission.baseline.backbones.base import Backbone
from submission.baseline.cache import FeatureStore
from submission.baseline.config import RunConfig
from submission.baseline.data import Pool
from submission.baseline.errors import BaselineError
from submission.baseline.learners.base import ClassTexts, Learner
from submission.baseline.losses import Criterion
from submission.baseline.training import CHECKPOINT, LOG, Measure, Part, Views, logits, train
from submission.files import replacing

NAMES = "write classes into the configuration, as prompts should say them"
PREDICTIONS, PROMPTS = "predictions.safetensors", "prompts.safetensors"
FULL = re.compile(
    "out of memory|can't allocate memory|CUBLAS_STATUS_(ALLOC_FAILED|NOT_INITIALIZED)"
    r"|CUDNN_STATUS_(\w*ALLOC\w*|NOT_INITIALIZED)"
)  # how torch says it; a full GPU often shows first where a library asks for its workspace
MEND = (
    "free memory (does another program use it?) or name fewer devices, and the same command goes on; precision bf16, a "
    "smaller training.batch_size or a learner without prompts in the image tower (coop, kgcoop, prograd) make another "
    "run: give it a new --out, or --force"
)
PARENT_LOOKS = 0.2  # seconds
WORKER_LOOKS = 1.0  # seconds between two looks whether the parent is still there


@dataclass(frozen=True)
class Event:
    """Something happened: ``stage`` is views, training or predictions; ``done`` of ``total``; what was measured."""

    seed: int
    stage: str
    done: int
    total: int
    values: Mapping[str, float] = field(default_factory=dict)


Report = Callable[[Event], None]


@dataclass(frozen=True)
class Job:
    """All that one seed needs, in a form that another process can be given."""

    config: RunConfig
    pool: Pool
    train: tuple[str, ...]
    val: tuple[str, ...]
    seed: int
    folder: Path
    cache: Path
    identity: str
    measure: Measure | None
    tensorboard: bool
    threads: int | None


def settle(threads: int | None) -> None:
    """Make the numbers of this process repeatable: fixed threads where given, deterministic kernels, no TF32.

    Where torch has no deterministic kernel it warns and takes the other. Attention is the plain one: on a GPU the
    backward passes of fused kernels add up in any order.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if threads is not None:
        torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.enable_math_sdp(True)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)


def texts_of(config: RunConfig, pool: Pool) -> ClassTexts:
    """The class names as prompts say them, and the teacher's texts; BaselineError where they are not as many."""
    names = config.classes or pool.task.classes
    wanted = len(pool.task.classes)
    if config.descriptions and len(config.descriptions) != wanted:
        raise BaselineError(f"descriptions has {len(config.descriptions)} lists and the task {wanted} classes")
    if len(names) != len(pool.task.classes):
        raise BaselineError(
            f"classes has {len(names)} names and the task {len(pool.task.classes)} classes"
            f" ({', '.join(pool.task.classes)}); name each in this order"
        )
    return ClassTexts(tuple(names), config.templates, config.descriptions)


def told_apart(texts: ClassTexts, backbone: Backbone) -> None:
    """BaselineError where the text tower can't read a class name, or reads two as one."""
    seen: dict[tuple[int, ...], str] = {}
    for name in texts.names:
        tokens = backbone.tokenize([name.replace("_", " ").strip()])
        ids = tuple(tokens.ids[0][tokens.mask[0]].tolist())
        if len(ids) <= 2:  # the two marks
            raise BaselineError(f"class {plain(name, 60)!r} holds no word that {backbone.name} can read; {NAMES}")
        if ids in seen:
            both = f"{plain(seen[ids], 60)!r} and {plain(name, 60)!r}"
            raise BaselineError(f"classes {both} are the same text to {backbone.name}; {NAMES}")
        seen[ids] = name


def store_of(config: RunConfig, cache: Path, loaded: backbones.Loaded) -> FeatureStore:
    """The features on disk that this run shares with others."""
    return FeatureStore(cache, loaded.backbone, loaded.weights.sha256, config.views)


@contextlib.contextmanager
def enough_memory() -> Iterator[None]:
    """BaselineError with the mend where the memory of the machine or the device does not do."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        said = str(error).partition("\n")[0]
        known = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not known and not FULL.search(said):
            raise
        raise BaselineError(f"out of memory ({plain(said or 'MemoryError', 160)}); {MEND}") from None


def learner_of(job: Job, backbone: Backbone) -> Learner:
    """The learner at its initial values."""
    return learners.make(
        job.config.learner, backbone, texts_of(job.config, job.pool), seed=job.seed, epochs=job.config.training.epochs
    ).to(backbone.device)


def run_seed(
    job: Job,
    device: str,
    report: Report,
    loaded: backbones.Loaded | None = None,
    store: FeatureStore | None = None,
) -> NDArray[np.float64]:
    """Train one seed, or go on with it, and give its logits (N, K) of ``pool.evaluated``; both stay in ``folder``.

    ``store`` is that of ``loaded`` where the caller has one: what it decoded is not decoded again.
    """
    if (found := finished(job)) is not None:
        report(Event(job.seed, "predictions", 1, 1))
        return found
    settle(job.threads)
    for name in (CHECKPOINT, LOG, PREDICTIONS, PROMPTS):
        for left in job.folder.glob(f".{name}.*"):  # of a run that was killed while it wrote
            with contextlib.suppress(OSError):
                left.unlink()
    if loaded is None:
        loaded = backbones.load(job.config.backbone, device=device, precision=job.config.precision)
    store = store or store_of(job.config, job.cache, loaded)
    learner = learner_of(job, loaded.backbone)
    if job.config.learner.name != "zeroshot":
        _train(job, learner, store, report)
    pictures = job.pool.pictures(job.pool.evaluated["image_id"])
    report(Event(job.seed, "predictions", 0, 1))
    trained = learner.kept()  # before it predicts: the published form of HiCroPL changes then
    found = logits(learner, store.of(pictures, job.seed), len(pictures))
    if not np.isfinite(found).all():
        raise BaselineError(
            f"seed {job.seed} gives logits that are no numbers; use precision fp32 and look at the weights"
        )
    _write(job, trained, found)
    report(Event(job.seed, "predictions", 1, 1))
    return found


def _train(job: Job, learner: Learner, store: FeatureStore, report: Report) -> None:
    epochs = job.config.training.epochs
    pictures = job.pool.pictures(job.train)
    store.fill(pictures, job.seed, epochs, progress=lambda done, total: report(Event(job.seed, "views", done, total)))
    with _board(job) as board:

        def watch(done: int, total: int, values: Mapping[str, float]) -> None:
            for name, value in values.items():
                if board is not None and name != "epoch":
                    board.add_scalar(name, value, done)
            report(Event(job.seed, "training", done, total, dict(values)))

        train(
            learner,
            Criterion(job.config.loss, len(job.pool.task.classes)),
            job.config.training,
            Part(store.of(pictures, job.seed), job.pool.labels(job.train)),
            seed=job.seed,
            folder=job.folder,
            val=_part(job, job.val, store) if job.val else None,
            measure=job.measure,
            watch=watch,
            run=job.identity,
        )


def _part(job: Job, image_ids: Sequence[str], store: FeatureStore) -> Part:
    views: Views = store.of(job.pool.pictures(image_ids), job.seed)
    return Part(views, job.pool.labels(image_ids))


@contextlib.contextmanager
def _board(job: Job) -> Any:
    """A TensorBoard writer where one is wanted."""
    if not job.tensorboard:
        yield None
        return
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(job.folder / "tensorboard")) as writer:
        yield writer


def finished(job: Job) -> NDArray[np.float64] | None:
    """The logits of a seed that was done before, by this very run; else None."""
    path = job.folder / PREDICTIONS
    try:
        with safetensors.safe_open(path, framework="np") as opened:
            if (opened.metadata() or {}).get("run") != job.identity:
                return None
            found: NDArray[np.float64] = opened.get_tensor("logits")
            return found
    except (OSError, safetensors.SafetensorError):
        return None  # absent or damaged: made again


def _write(job: Job, trained: dict[str, Tensor], found: NDArray[np.float64]) -> None:
    job.folder.mkdir(parents=True, exist_ok=True)
    said = {"run": job.identity}  # one key: the order of several in a file is random
    kept = {name: value.contiguous().cpu() for name, value in trained.items()}
    for name, tensors in ((PROMPTS, kept), (PREDICTIONS, {"logits": torch.from_numpy(found)})):
        with replacing(job.folder / name) as sink:
            sink.write(safetensors.torch.save(tensors, metadata=said))


def run_seeds(
    jobs: Sequence[Job],
    devices: Sequence[str],
    report: Report,
    loaded: backbones.Loaded,
    store: FeatureStore | None = None,
) -> list[NDArray[np.float64]]:
    """The logits of every job: one after the other on one device, else a process a device, each with the next job.

    ``store`` is that of ``loaded``; other processes make their own.
    """
    if len(devices) == 1 or len(jobs) == 1:
        return [run_seed(job, devices[0], report, loaded, store) for job in jobs]
    context = multiprocessing.get_context("spawn")
    waiting, said = context.Queue(), context.Queue()
    for job in jobs:
        waiting.put(job)
    for _ in devices:
        waiting.put(None)
    workers = [
        context.Process(target=_work, args=(waiting, said, device, os.getpid()), daemon=True)
        for device in devices[: len(jobs)]
    ]
    started = []
    try:
        with _without_ctrl_c():
            for worker in workers:
                worker.start()
                started.append(worker)
        _listen(workers, said, report)
    finally:
        waiting.cancel_join_thread()  # else this process waits at its end for workers that take no more jobs
        for worker in started:
            worker.terminate()
        for worker in started:
            worker.join()
    found = [finished(job) for job in jobs]
    assert all(one is not None for one in found)
    return [one for one in found if one is not None]


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Processes that start here are deaf to Ctrl-C, which a terminal sends to all: this one ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _listen(workers: Sequence[Any], said: Any, report: Report) -> None:
    """Pass on what the workers say until all of them are done; raise what went wrong in one of them."""
    done = 0
    while done < len(workers):
        try:
            what = said.get(timeout=PARENT_LOOKS)
        except queue.Empty:
            for worker in workers:
                if worker.exitcode not in (None, 0):
                    time.sleep(PARENT_LOOKS)
                    if said.empty():
                        raise BaselineError(
                            f"a worker ended with code {worker.exitcode}, out of memory perhaps; {MEND}"
                        ) from None
            continue
        if isinstance(what, Event):
            report(what)
        elif what is None:
            done += 1
        else:
            raise what


def _work(waiting: Any, said: Any, device: str, parent: int) -> None:
    """A worker: takes jobs until there are none, and leaves when nobody listens any more."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(WORKER_LOOKS)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()
    try:
        while (job := waiting.get()) is not None:
            with enough_memory():
                run_seed(job, device, said.put)
    except (BaselineError, OSError) as error:
        said.put(error)
    except Exception as error:
        said.put(RuntimeError(f"{type(error).__name__}: {error}"))
    else:
        said.put(None)
