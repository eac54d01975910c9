"""A whole run: the split, the backbone, every seed, and the bundle that ``mvc submit`` takes."""

import contextlib
import fcntl
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from protocol.canonical import digest_of
from submission.baseline import backbones, learners
from submission.baseline.config import RunConfig
from submission.baseline.data import Pool, read_pool
from submission.baseline.draws import Draws, draw
from submission.baseline.errors import BaselineError
from submission.baseline.losses import Criterion
from submission.baseline.recipe import Told
from submission.baseline.release import Predicted, Released, write_release
from submission.baseline.seeds import Event, Job, Report, learner_of, run_seeds, settle, store_of
from submission.baseline.training import LOG, Measure
from submission.files import write_atomic

RUN_FILE, LOCK_FILE, BUNDLE, SEEDS = "run.json", ".lock", "bundle", "seeds"


@dataclass(frozen=True)
class Inputs:
    """What a run reads and where it writes. ``config_file``: the bytes of the configuration and its name."""

    splits: Path
    images: Path
    out: Path
    task: Path | None = None
    salt: Path | None = None
    cache: Path | None = None
    config_file: tuple[str, bytes] | None = None


@dataclass(frozen=True)
class Ran:
    """A finished run: its bundle, and what its owner should read."""

    released: Released
    trainable: int
    notes: tuple[str, ...]


def run(
    config: RunConfig,
    inputs: Inputs,
    *,
    devices: Sequence[str] = ("cpu",),
    threads: int | None = None,
    measure: Measure | None = None,
    report: Report = lambda event: None,
    say: Callable[[str], None] = lambda line: None,
    tensorboard: bool = False,
    force: bool = False,
) -> Ran:
    """Do what ``config`` says on the images and splits of ``inputs``; the bundle lies in ``out/bundle``.

    A run that was stopped goes on: epochs, views and seeds that are done are not done again, and the numbers are those
    of a run that was never stopped. ``devices`` (``cpu``, ``cuda:0``) share the seeds. ``measure`` is shown on val
    after each epoch. ``force`` removes what another run left in ``out``.

    Raises :class:`BaselineError` for what the user can mend, ``OSError`` where a file can't be written.
    """
    settle(threads)
    pool = read_pool(inputs.splits, inputs.images, task=inputs.task, salt=inputs.salt, classes=config.classes)
    draws = draw(pool, config)
    say(f"splits: {pool.splits.height} images, {draws.words}")
    loaded = backbones.load(config.backbone, device=devices[0], precision=config.precision)
    say(f"backbone: {backbones.architecture(config.backbone.name)}; weights {loaded.weights.sha256[:12]}")
    with _only_one(inputs.out):
        identity = _same_run(inputs.out, _inputs_of(config, pool, loaded, draws), force)
        jobs = _jobs(config, pool, draws, inputs, identity, measure, tensorboard, threads)
        first = learner_of(jobs[0], loaded.backbone)
        criterion = Criterion(config.loss, len(pool.task.classes))
        store = store_of(jobs[0], loaded.backbone, loaded.weights.sha256)
        watched = sorted({*pool.evaluated["image_id"], *(name for own in draws.val.values() for name in own)})
        pictures = pool.pictures(watched)
        store.fill(pictures, 0, 0, still=True, progress=lambda done, total: report(Event(0, "images", done, total)))
        told = Told(
            architecture=backbones.architecture(config.backbone.name),
            source=loaded.weights.source,
            sha256=loaded.weights.sha256,
            trained_on=loaded.weights.trained_on,
            pixels=loaded.backbone.pixels,
            learner=learners.words(config.learner),
            loss=criterion.words(),
            shots=draws.words,
            trainable=first.trainable,
        )
        found = run_seeds(jobs, devices, report, loaded)
        predicted = [Predicted(job.seed, logits) for job, logits in zip(jobs, found, strict=True)]
        bundle = inputs.out / BUNDLE
        if bundle.exists():
            shutil.rmtree(bundle)
        released = write_release(bundle, config, told, pool, predicted, _files(config, inputs, jobs))
    return Ran(released, first.trainable, (*draws.notes, *released.notes))


def devices_of(asked: str) -> tuple[str, ...]:
    """The devices that ``asked`` names: ``auto`` is every CUDA device, else the processor. BaselineError for others."""
    if asked == "auto":
        count = torch.cuda.device_count()
        return tuple(f"cuda:{number}" for number in range(count)) or ("cpu",)
    names = tuple(name.strip() for name in asked.split(","))
    for name in names:
        try:
            device = torch.device(name)
        except RuntimeError:
            raise BaselineError(f"{name!r} is no device; use auto, cpu, cuda, or cuda:0,cuda:1") from None
        if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
            raise BaselineError(f"{name}: torch {torch.__version__} sees {torch.cuda.device_count()} CUDA devices here")
    return names


def _jobs(
    config: RunConfig,
    pool: Pool,
    draws: Draws,
    inputs: Inputs,
    identity: str,
    measure: Measure | None,
    tensorboard: bool,
    threads: int | None,
) -> list[Job]:
    return [
        Job(
            config=config,
            pool=pool,
            train=draws.train.get(seed, ()),
            val=draws.val.get(seed, ()),
            seed=seed,
            folder=inputs.out / SEEDS / str(seed),
            cache=inputs.cache or inputs.out / "views",
            identity=identity,
            measure=measure,
            tensorboard=tensorboard,
            threads=threads,
        )
        for seed in ((0,) if config.learner.name == "zeroshot" else config.seeds)
    ]


def _files(config: RunConfig, inputs: Inputs, jobs: Sequence[Job]) -> dict[str, bytes]:
    """The configuration as given, and the log of each seed, by their names in the bundle."""
    files = {}
    if inputs.config_file is not None:
        name, data = inputs.config_file
        files[f"configs/{name}"] = data
    for job in jobs:
        if (job.folder / LOG).exists():
            files[f"logs/{config.model}-seed{job.seed}.jsonl"] = (job.folder / LOG).read_bytes()
    return files


def _inputs_of(config: RunConfig, pool: Pool, loaded: backbones.Loaded, draws: Draws) -> dict[str, str]:
    """Digests of all that a run's numbers depend on, by what a user calls them."""
    about = {"about", "calibrators"}  # what is said of the numbers, and what is fitted to them afterwards
    return {
        "configuration": digest_of(config.model_dump(mode="json", exclude=about)),
        "splits": pool.sha256,
        "task": digest_of(list(pool.task.classes)),
        "weights": loaded.weights.sha256,
        "draws": digest_of([[[seed, list(ids)] for seed, ids in own.items()] for own in (draws.train, draws.val)]),
        "torch": torch.__version__,
    }


def _same_run(out: Path, inputs: Mapping[str, str], force: bool) -> str:
    """The digest of ``inputs``; BaselineError where ``out`` holds another run and ``force`` is false."""
    path = out / RUN_FILE
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        before = None
        if not force and any(name.name not in (LOCK_FILE, "views") for name in out.iterdir()):
            raise BaselineError(f"{out} holds files of something else; name a new folder") from None
    except (OSError, ValueError):
        before = {}
    if before is not None and before != inputs:
        changed = [name for name in inputs if not isinstance(before, dict) or before.get(name) != inputs[name]]
        if not force:
            raise BaselineError(
                f"{out} holds a run with other inputs ({', '.join(changed)}); name a new folder, or give --force to"
                " remove that run"
            )
        for name in (SEEDS, BUNDLE):
            shutil.rmtree(out / name, ignore_errors=True)
    write_atomic(path, json.dumps(inputs, indent=2).encode() + b"\n")
    return digest_of(dict(inputs))


@contextlib.contextmanager
def _only_one(out: Path) -> Iterator[None]:
    """Hold ``out`` for this process; BaselineError while another run has it."""
    if out.exists() and not out.is_dir():
        raise BaselineError(f"{out} is a file; name a folder")
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK_FILE).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BaselineError(f"another run is at work in {out}; wait for it, or name another folder") from None
        yield
