"""The one place that names the compiler: kernels are plain loops, compiled on first use and kept on disk."""

import contextlib
import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator

P = ParamSpec("P")
R = TypeVar("R")

SHIPPED = "MVC_KERNELS"


class _Folder(InTreeCacheLocator):
    """Where NUMBA_CACHE_DIR would put the code of a file, below the folder of SHIPPED."""

    def ensure_cache_path(self) -> None:
        """Nothing is written here."""

    def get_cache_path(self) -> str:
        inside = self.get_suitable_cache_subpath(self._py_file)  # type: ignore[no-untyped-call]
        return os.path.join(os.environ[SHIPPED], inside)


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Folder]  # noqa: RUF012


class _Shipped(FunctionCache):
    _impl_class = _Implementation

    def save_overload(self, sig: Any, data: Any) -> None:
        """What is missing is compiled in each process that needs it."""


def compiled(kernel: Callable[P, R]) -> Callable[P, R]:
    """``kernel`` as machine code that runs without the interpreter's lock, with the arithmetic as it is written.

    No fast-math: sums keep their order. Code is kept beside the source, or below NUMBA_CACHE_DIR; where nothing can be
    written it is compiled anew in each process. MVC_KERNELS names a folder filled before by NUMBA_CACHE_DIR: code is
    read from there and never written, since whoever can write it can run code in the process that knows the labels.
    """
    made: Any = numba.njit(nogil=True, error_model="numpy")(kernel)
    if os.environ.get(SHIPPED):
        made._cache = _Shipped(kernel)  # type: ignore[no-untyped-call]
    else:
        with contextlib.suppress(RuntimeError):  # no folder for the cache
            made.enable_caching()
    return cast(Callable[P, R], made)
