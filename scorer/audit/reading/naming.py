"""What the name of a file tells: data set, split, seed, epoch, and results that are claimed in it."""

import re
from collections.abc import Mapping

WILDS = re.compile(r"^(?P<dataset>[A-Za-z0-9-]+)_split:(?P<split>[^_]+)_(?P<rest>.*?)_?pred(?:\.csv)?$", re.I)
MEDMNIST = re.compile(
    r"^(?P<dataset>[a-z0-9]*mnist(?:3d)?(?:_\d+)?)_(?P<split>train|val|test)_\[AUC\](?P<auc>\d+(?:\.\d+)?)"
    r"_\[ACC\](?P<accuracy>\d+(?:\.\d+)?)(?:@(?P<model>.*?))?(?:\.csv)?$",
    re.I,
)
PARTS = {
    "seed": re.compile(r"(?<![A-Za-z])seed[_:=-]?(\d{1,10})(?!\d|\.\d)", re.I),
    "fold": re.compile(r"(?<![A-Za-z])fold[_:=-]?(\d{1,3}|[A-Z])(?![A-Za-z0-9])", re.I),
    "epoch": re.compile(r"(?<![A-Za-z])epoch[_:=-]?(\d{1,6}|best|last)(?![A-Za-z0-9])", re.I),
}


def facts_of(file: str) -> Mapping[str, str]:
    """Facts by their names in ``Loaded.facts``; ``index`` is the column that numbers the rows."""
    file = re.sub(r"\.(gz|zip)$", "", file, flags=re.I)
    facts = {name: found[1] for name, pattern in PARTS.items() if (found := pattern.search(file))}
    if found := MEDMNIST.match(file):
        facts |= {name: found[name] for name in ("dataset", "split")}
        facts |= {f"claim:{name}": found[name] for name in ("auc", "accuracy")}
        facts["index"] = "column_1"
        if found["model"]:
            facts["model"] = found["model"]
    elif found := WILDS.match(file):
        facts |= {name: found[name] for name in ("dataset", "split")}
    return facts
