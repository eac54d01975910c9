"""The shipped configurations, and reading any."""

from pathlib import Path

from pydantic import TypeAdapter

from protocol.findings import plain
from submission.baseline.config import RunConfig
from submission.baseline.errors import BaselineError
from submission.yaml_io import MAX_BYTES, parse_record

HERE = Path(__file__).parent
ENDING = ".yaml"


def shipped() -> tuple[str, ...]:
    """Names of the shipped configurations, sorted: ``coop-as-described``, ``coop-official``, ..."""
    return tuple(sorted(path.stem for path in HERE.glob(f"*{ENDING}")))


def read_config(source: str) -> tuple[RunConfig, bytes]:
    """The configuration in the file ``source``, or the shipped one of that name; and its bytes.

    Raises BaselineError with every problem, in words.
    """
    path = Path(source)
    if source in shipped() and not path.is_file():
        path = HERE / f"{source}{ENDING}"
    try:
        with path.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise BaselineError(
            f"{plain(source)}: no such file, and no shipped configuration; there are {', '.join(shipped())}"
        ) from None
    except (OSError, ValueError) as error:
        raise BaselineError(f"{plain(source)} can't be read ({getattr(error, 'strerror', None) or error})") from None
    if len(data) > MAX_BYTES:
        raise BaselineError(f"{plain(source)} has more than {MAX_BYTES} bytes; it should be a short YAML text")
    name = path.name if path.suffix in (".yaml", ".yml") else f"{path.name}{ENDING}"
    found, problems = parse_record(TypeAdapter(RunConfig), data, name)
    if found is None:
        raise BaselineError("; ".join(f"{plain(p.where)}: {plain(p.saw)}, wanted {plain(p.wanted)}" for p in problems))
    return found, data
