"""A whole run: the split, the backbone, every seed, and the bundle that ``mvc submit`` takes."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from protocol.canonical import canonical_json, digest_of
from protocol.findings import plain
from submission.baseline import backbones, learners
from submission.baseline.backbones.registry import usable
from submission.baseline.cache import FeatureStore, hardware
from submission.baseline.config import RunConfig
from submission.baseline.data import Pool, read_pool
from submission.baseline.draws import Draws, draw
from submission.baseline.errors import BaselineError
from submission.baseline.folder import BUNDLE, SEEDS, VIEWS, claim, note, only_one, put
from submission.baseline.losses import Criterion
from submission.baseline.public import published
from submission.baseline.recipe import Told, software
from submission.baseline.release import Predicted, Released, write_release
from submission.baseline.seeds import (
    Event,
    Job,
    Report,
    enough_memory,
    finished,
    learner_of,
    run_seeds,
    settle,
    store_of,
    texts_of,
    told_apart,
)
from submission.baseline.training import CHECKPOINT, LOG, Measure
from submission.files import made_aside, sha256_file

Judge = Callable[[Path], None]  # told the folder of a bundle; BaselineError where it would be refused


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
    judge: Judge | None = None,
) -> Ran:
    """Do what ``config`` says on the images and splits of ``inputs``; the bundle lies in ``out/bundle``.

    A run that was stopped goes on: epochs, views and seeds that are done are not done again, and the numbers are those
    of a run that was never stopped. ``devices`` (``cpu``, ``cuda:0``) share the seeds. ``measure`` is shown on val
    after each epoch. ``force`` removes what another run left in ``out``. ``judge`` is shown a bundle of made-up numbers
    before training.

    Raises :class:`BaselineError` for what the user can mend, ``OSError`` where a file can't be written.
    """
    settle(threads)
    pool = read_pool(inputs.splits, inputs.images, task=inputs.task, salt=inputs.salt, classes=config.classes)
    draws = draw(pool, config)
    say(f"splits: {pool.splits.height} images, {draws.words}")
    texts_of(config, pool)  # names and files are looked at before weights are fetched
    pool.pictures({*pool.evaluated["image_id"], *(name for own in draws.train.values() for name in own)})
    devices = devices[: 1 if config.learner.name == "zeroshot" else len(config.seeds)]
    for device in devices:
        usable(device)
    try:
        with enough_memory():
            loaded = backbones.load(config.backbone, device=devices[0], precision=config.precision)
    except (RuntimeError, ValueError) as error:  # what pathlib says of ~somebody and of a null byte
        if isinstance(error, BaselineError) or not re.search(r"home directory|null byte", str(error)):
            raise
        raise BaselineError(f"weights {plain(config.backbone.weights, 80)!r}: {error}; give a whole path") from None
    say(f"backbone: {backbones.architecture(config.backbone.name)}; weights {loaded.weights.sha256[:12]}")
    say(f"devices: {', '.join(devices)}")
    with only_one(inputs.out), made_aside(inputs.out) as aside, enough_memory():
        cache = inputs.cache or inputs.out / VIEWS
        if cache.resolve() == inputs.out.resolve():
            raise BaselineError(f"--cache and --out are both {inputs.out}; leave --cache out, or name another folder")
        store = store_of(config, cache, loaded)
        described = _inputs_of(config, pool, loaded, draws, devices, store)
        jobs = _jobs(config, pool, draws, inputs.out, cache, measure, tensorboard)
        told, notes = _told(config, loaded, draws, learner_of(jobs[0], loaded.backbone), len(pool.task.classes))
        identity = claim(inputs.out, described, force, inputs.cache)
        jobs = [replace(job, identity=identity) for job in jobs]
        if any(finished(job) is None for job in jobs):
            _rehearse(aside / "rehearsal", config, told, pool, inputs, jobs, judge)
        _look(jobs, store, report)
        found = run_seeds(jobs, devices, report, loaded, store)
        if (now := _inputs_of(config, pool, loaded, draws, devices, store)) != described:
            note(inputs.out, now)  # which of the seeds saw which images can't be known
            raise BaselineError(
                f"images or {inputs.splits} changed while the run was at work, so its numbers are of neither state; "
                "the same command trains anew"
            )
        predicted = [Predicted(job.seed, logits) for job, logits in zip(jobs, found, strict=True)]
        released = write_release(aside / BUNDLE, config, told, pool, predicted, _files(config, inputs, jobs))
        notes += (*released.notes, *put(inputs.out, released.folder))
    return Ran(Released(inputs.out / BUNDLE, released.notes), told.trainable, (*draws.notes, *notes))


def _told(
    config: RunConfig, loaded: backbones.Loaded, draws: Draws, learner: learners.Learner, classes: int
) -> tuple[Told, tuple[str, ...]]:
    """What the parts of the run say of themselves, and notes on it; BaselineError for settings that do not fit."""
    told_apart(learner.texts, loaded.backbone)
    remark = f" ({loaded.weights.remark})" if loaded.weights.remark else ""
    told = Told(
        architecture=backbones.architecture(config.backbone.name) + remark,
        source=loaded.weights.source,
        sha256=loaded.weights.sha256,
        trained_on=loaded.weights.trained_on,
        pixels=loaded.backbone.pixels,
        learner=learners.words(config.learner),
        loss=Criterion(config.loss, classes).words(),
        shots=draws.words,
        trainable=learner.trainable,
    )
    training = config.training
    if learner.trainable and training.warmup_epochs >= training.epochs:
        rate = f"training.warmup_rate ({training.warmup_rate:g}), never training.learning_rate"
        return told, (f"all {training.epochs} epochs are warm-up: the rate is {rate}",)
    averaging = config.learner.averaging
    if averaging is not None and averaging[0] > training.epochs:
        late = f"learner.averaging has its mean at epoch {averaging[0]:g} of {training.epochs}"
        return told, (f"{late}: nearly all weight falls on the last epochs; null follows training.epochs",)
    return told, ()


def _look(jobs: Sequence[Job], store: FeatureStore, report: Report) -> None:
    """Make the features of what gets predictions, and decode what is trained on: said before hours of training."""
    pool = jobs[0].pool
    watched = sorted({*pool.evaluated["image_id"], *(name for job in jobs for name in job.val)})
    pictures = pool.pictures(watched)
    fresh = [job for job in jobs if not (job.folder / CHECKPOINT).exists() and finished(job) is None]
    trained = pool.pictures(sorted({name for job in fresh for name in job.train}))
    store.fill(pictures, 0, 0, still=True, progress=lambda done, total: report(Event(0, "images", done, total)))
    store.decode(trained)


def _rehearse(
    folder: Path, config: RunConfig, told: Told, pool: Pool, inputs: Inputs, jobs: Sequence[Job], judge: Judge | None
) -> None:
    """A bundle of made-up numbers, so that what would be refused in the end is said before training."""
    rng = np.random.default_rng(0)
    shape = (pool.evaluated.height, len(pool.task.classes))
    predicted = [Predicted(job.seed, rng.normal(size=shape)) for job in jobs]
    files = _files(config, inputs, jobs)
    files |= {_log(config, job): b"{}\n" for job in jobs if job.train}
    write_release(folder, config, told, pool, predicted, files)
    if judge is not None:
        judge(folder)


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
            seen = f"torch {torch.__version__} sees {torch.cuda.device_count()} CUDA devices here"
            raise BaselineError(f"{name}: {seen}; use --device cpu, or look at the driver")
    return names


def _jobs(
    config: RunConfig,
    pool: Pool,
    draws: Draws,
    out: Path,
    cache: Path,
    measure: Measure | None,
    tensorboard: bool,
) -> list[Job]:
    return [
        Job(
            config=config,
            pool=pool,
            train=draws.train.get(seed, ()),
            val=draws.val.get(seed, ()),
            seed=seed,
            folder=out / SEEDS / str(seed),
            cache=cache,
            identity="",
            measure=measure,
            tensorboard=tensorboard,
            threads=torch.get_num_threads(),
        )
        for seed in ((0,) if config.learner.name == "zeroshot" else config.seeds)
    ]


def _log(config: RunConfig, job: Job) -> str:
    return f"logs/{config.model}-seed{job.seed}.jsonl"


def _files(config: RunConfig, inputs: Inputs, jobs: Sequence[Job]) -> dict[str, bytes]:
    """The configuration as given, and the log of each seed, by their names in the bundle."""
    files = {}
    if inputs.config_file is not None:
        name, data = inputs.config_file
        if (own := published(data)) is not None:
            files[f"configs/{name}"] = own
    for job in jobs:
        if (job.folder / LOG).exists():
            files[_log(config, job)] = (job.folder / LOG).read_bytes()
    return files


def _inputs_of(
    config: RunConfig,
    pool: Pool,
    loaded: backbones.Loaded,
    draws: Draws,
    devices: Sequence[str],
    store: FeatureStore,
) -> dict[str, str]:
    """All that a run's numbers depend on, by what a user calls it: the configuration itself, digests of the rest."""
    document = config.model_dump(mode="json", exclude={"about", "calibrators"})  # told or fitted afterwards
    del document["backbone"]["weights"]  # their place; what they are is below
    drawn = (name for own in (draws.train, draws.val) for ids in own.values() for name in ids)
    used = {*pool.evaluated["image_id"], *drawn}
    return {
        "configuration": canonical_json(document).decode(),
        "splits": sha256_file(pool.file),
        "images": digest_of(store.contents(pool.pictures(sorted(used)))),
        "task": digest_of(list(pool.task.classes)),
        "weights": loaded.weights.sha256,
        "draws": digest_of([[[seed, list(ids)] for seed, ids in own.items()] for own in (draws.train, draws.val)]),
        "software": ", ".join(f"{name} {version}" for name, version in software().items()),
        "processor": " and ".join(sorted({hardware(device) for device in devices})),
    }
