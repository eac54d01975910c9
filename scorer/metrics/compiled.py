"""The one place that names the compiler: kernels are plain loops, compiled on first use and kept on disk."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(kernel: Callable[P, R]) -> Callable[P, R]:
    """``kernel`` as machine code that runs without the interpreter's lock, with the arithmetic as it is written.

    No fast-math: sums keep their order. Code is kept beside the source, or below NUMBA_CACHE_DIR; where nothing can be
    written it is compiled anew in each process.
    """
    try:
        made = numba.njit(cache=True, nogil=True, error_model="numpy")(kernel)
    except RuntimeError:  # no folder for the cache
        made = numba.njit(nogil=True, error_model="numpy")(kernel)
    return cast(Callable[P, R], made)
