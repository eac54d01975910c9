"""``mvc baseline``: run, zeroshot, toy, configs. Trains the reference baseline; needs the extra ``baseline``."""

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mvc.commands.baseline_show import bars as show_bars
from mvc.commands.bundle import JsonOption, _loading, need_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from submission.baseline.config import RunConfig

app = typer.Typer(
    name="baseline",
    no_args_is_help=True,
    help="Train the reference baseline: prompt-tuned vision-language models with calibration losses.",
)
MOST_THREADS = 256
LONGEST = 4000  # letters of a message
REFUSED = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
    | {errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP, errno.EIO, errno.EMFILE, errno.EFBIG}
    | {errno.ESTALE, errno.EBUSY, errno.ETIMEDOUT, errno.ENOMEM}
)
EXTRA = ("torch", "torchvision", "open_clip", "timm", "transformers", "safetensors", "PIL")

SplitsOption = Annotated[
    Path, typer.Option("--splits", metavar="FILE", help="splits.parquet, as mvc split make publishes it.")
]
ImagesOption = Annotated[Path, typer.Option("--images", metavar="DIR", help="Folder of the image files.")]
OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of this run; its bundle is DIR/bundle.")]
TaskOption = Annotated[
    Path | None,
    typer.Option(
        "--task",
        metavar="FILE",
        help="The host's task.yaml. Default: that beside the splits, else an open task is drafted.",
    ),
]
SaltOption = Annotated[
    Path | None,
    typer.Option("--salt-file", metavar="FILE", help="Salt of the split. Default: private/salt beside public/."),
]
CacheOption = Annotated[
    Path | None,
    typer.Option("--cache", metavar="DIR", help="Image features, which runs can share. Default: views in --out."),
]
WeightsOption = Annotated[
    str | None,
    typer.Option("--weights", metavar="PATH", help="Weights of the backbone: file, folder or hub id."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the configuration: training.epochs=20; repeat."),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device", help="auto (every CUDA device, else cpu), cpu, or some that share the seeds: cuda:0,cuda:1."
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", min=1, max=MOST_THREADS, help="Threads of a process, which bits depend on (torch's)."),
]
BoardOption = Annotated[
    bool, typer.Option("--tensorboard", help="Write TensorBoard logs too (pip install tensorboard).")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Remove what a run with other inputs left in --out.")]


@app.command("run")
def run(
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="Configuration (YAML), or the name of a shipped one.")
    ],
    splits: SplitsOption,
    images: ImagesOption,
    out: OutOption,
    task: TaskOption = None,
    salt: SaltOption = None,
    weights: WeightsOption = None,
    change: SetOption = None,
    cache: CacheOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    tensorboard: BoardOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a prompt learner on images of the train split, recalibrate it on calib, and write a bundle to submit.

    A run that was stopped goes on when the same command is given again, with the same numbers (on a GPU nearly so).

    Example: mvc baseline run --config coop-official --splits split/public/splits.parquet --images images --out coop
    """
    _run(config, splits, images, out, task, salt, weights, change, cache, device, threads, tensorboard, force, as_json)


@app.command("zeroshot")
def zeroshot(
    splits: SplitsOption,
    images: ImagesOption,
    out: OutOption,
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="Configuration (YAML), or the name of a shipped one.")
    ] = "zeroshot",
    task: TaskOption = None,
    salt: SaltOption = None,
    weights: WeightsOption = None,
    change: SetOption = None,
    cache: CacheOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Classify by the similarity of images and class prompts alone, recalibrate on calib, and write a bundle to submit.

    Example: mvc baseline zeroshot --splits split/public/splits.parquet --images images --out zeroshot
    """
    _run(config, splits, images, out, task, salt, weights, change, cache, device, threads, False, force, as_json, True)


@app.command("configs")
def configs(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them: print it, to be copied.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the configurations that the kit ships, or print one.

    Example: mvc baseline configs coop-official > coop.yaml
    """
    with _loading(), _faults():
        from submission.baseline.configs import read_config, shipped

        if name is not None:
            found, data = read_config(name)
            typer.echo(json.dumps(found.model_dump(mode="json"), indent=2) if as_json else data.decode().rstrip())
            return
        facts = [_facts(one, read_config(one)[0]) for one in shipped()]
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    for fact in facts:
        training = "lr {rate:<7g} batch {batch:<4} {epochs:>3} epochs".format(**fact)
        typer.echo(f"{fact['name']:24} {training if fact['learner'] != 'zeroshot' else 'no training'}")
    typer.echo("one of them as a file: mvc baseline configs NAME > my.yaml")


@app.command("toy")
def toy(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty folder.")],
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other patients and another model.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="A smaller world and model: some 30 seconds instead of 5 minutes.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a test bed: synthetic fundus-like images, their split, and a tiny CLIP trained on other such images.

    Nothing that is measured on it is a medical finding: it shows that a run works, before real images are at hand.

    Example: mvc baseline toy toy
    """
    _need_extra()
    with _loading():
        from submission.baseline.toy import make_toy
    with _faults(), show_bars() as bars:
        made = make_toy(folder, quick=quick, seed=seed, progress=bars.step)
    facts = {
        "folder": str(made.folder),
        "images": str(made.images),
        "splits": str(made.splits),
        "weights": str(made.weights),
        "configs": [str(path) for path in made.configs],
        "seconds": round(made.seconds, 1),
        "notice": made.notice,
    }
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    typer.echo(f"{made.folder}: images, split, clip, configs ({made.seconds:.0f} s)")
    typer.echo(made.notice)
    then = f"--config {made.configs[0]} --splits {made.splits} --images {made.images} --out {folder}-run"
    typer.echo(f"then: mvc baseline run {then}")


def _run(
    config: str,
    splits: Path,
    images: Path,
    out: Path,
    task: Path | None,
    salt: Path | None,
    weights: str | None,
    change: list[str] | None,
    cache: Path | None,
    device: str,
    threads: int | None,
    tensorboard: bool,
    force: bool,
    as_json: bool,
    only_zeroshot: bool = False,
) -> None:
    _need_extra()
    if tensorboard and not _installed("tensorboard"):
        raise typer.BadParameter("tensorboard is not installed: pip install tensorboard", param_hint="--tensorboard")
    for path, hint in ((splits, "--splits"), (task, "--task"), (salt, "--salt-file")):
        need_file(path, hint)
    if not images.is_dir():
        raise typer.BadParameter(f"{images}: no such folder", param_hint="--images")
    with _faults():
        from submission.baseline.changes import changed
        from submission.baseline.configs import read_config, shipped

        found, data = read_config(config)
        chosen = changed(found, change or (), weights)
        if change and chosen.model == found.model and config in shipped():
            typer.echo(f"note: the changed model is still called {found.model}; --set model=NAME", err=True)
    if only_zeroshot != (chosen.learner.name == "zeroshot"):
        other = "run" if only_zeroshot else "zeroshot"
        raise typer.BadParameter(
            f"its learner is {chosen.learner.name}; use mvc baseline {other}", param_hint="--config"
        )
    with _loading():
        from submission.baseline.running import Inputs, devices_of
        from submission.baseline.running import run as run_all
    name = Path(config).name
    own = (name if name.endswith((".yaml", ".yml")) else f"{name}.yaml", data)
    inputs = Inputs(splits, images, out, task, salt, cache, own)
    with _faults(), show_bars() as bars:
        ran = run_all(
            chosen,
            inputs,
            devices=devices_of(device),
            threads=threads,
            measure=measured,
            report=bars.report,
            say=bars.say,
            tensorboard=tensorboard,
            force=force,
            judge=judged,
        )
    bundle = ran.released.folder
    if as_json:
        document = {"bundle": str(bundle), "model": chosen.model, "trainable": ran.trainable, "notes": list(ran.notes)}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    for note in ran.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"{chosen.model}: {ran.trainable:,} trained values; bundle in {bundle}")
    typer.echo(f"then: mvc submit {bundle}")


def judged(bundle: Path) -> None:
    """BaselineError where the referee would refuse ``bundle``, with what it would say."""
    from protocol.findings import plain
    from scorer.check import check
    from submission.baseline.errors import BaselineError

    verdict = check(bundle)
    if not verdict.rejecting:
        return
    said = [
        f"{result.rule} {found.where}: {found.saw}, wanted {found.wanted} ({result.mend})"
        for result in verdict.rejecting
        for found in result.findings[:2]
    ]
    problems = "; ".join(plain(problem, 500) for problem in said)
    raise BaselineError(f"mvc submit would refuse the bundle of this run, so nothing was trained: {problems}")


def measured(p: "NDArray[np.float64]", y: "NDArray[np.int64]") -> Mapping[str, float]:
    """Accuracy and negative log-likelihood of probabilities (N, K) and labels (N,): what is shown while training."""
    from scorer.metrics import accuracy, nll

    return {"accuracy": float(accuracy(p, y)), "nll": float(nll(p, y).value)}


def _facts(name: str, config: "RunConfig") -> dict[str, Any]:
    training = config.training
    return {
        "name": name,
        "learner": config.learner.name,
        "backbone": config.backbone.name,
        "loss": config.loss.name,
        "rate": training.learning_rate,
        "batch": training.batch_size,
        "epochs": training.epochs,
    }


def _installed(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def _need_extra() -> None:
    missing = [name for name in EXTRA if not _installed(name)]
    if missing:
        typer.echo(
            f"error: {', '.join(missing)} not installed; pip install 'mvc-kit[baseline]', or '.[baseline]' in a clone",
            err=True,
        )
        raise typer.Exit(2)
    # read when torch loads: threads that wait give way, else a busy machine takes several times as long
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """What the user can mend is said in a line, with exit code 2."""
    from protocol.findings import plain
    from submission.baseline.errors import BaselineError

    try:
        yield
    except BaselineError as error:
        typer.echo(f"error: {plain(error, LONGEST)}", err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        place = "a file of --out, --cache or TMPDIR" if error.filename is None else plain(error.filename, 300)
        typer.echo(
            f"error: {place} can't be read or written ({error.strerror}); free space, or choose another folder; then "
            "the same command goes on where it stopped",
            err=True,
        )
        raise typer.Exit(2) from None
