"""How much memory this process may use: of the machine, or of the container that it runs in."""

import os
import re
from pathlib import Path

SETTING = "MVC_MEMORY"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
# What an engine's --memory comes to, in the second and the first version of control groups.
_GROUPS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")


FLOOR = 1 << 30  # what the decoding process starts with (PROTOCOL.md, section 7): with less, honest tables are refused


class MemoryLimitError(ValueError):
    """MVC_MEMORY is no size, or there is too little memory; the message is for the user."""


def memory(root: Path = Path("/")) -> int:
    """Bytes: the smallest of MVC_MEMORY (such as 4g), the limit of the container, and the machine's memory.

    Raises MemoryLimitError for less than a GiB.
    """
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    setting = os.environ.get(SETTING, "").strip().lower()
    if setting:
        size = re.fullmatch(r"([1-9][0-9]{0,14})([kmg]?)b?", setting)
        if size is None:
            raise MemoryLimitError(f"{SETTING} is no size: give bytes, or a number with k, m or g, such as 4g")
        found.append(int(size[1]) * _UNITS[size[2]])
    for group in _GROUPS:
        try:
            said = (root / group).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if said.isdecimal():  # "max" where there is no limit
            found.append(int(said))
    if min(found) < FLOOR:
        raise MemoryLimitError(f"{min(found) >> 20} MiB of memory are too little: give at least 1 GiB")
    return min(found)
