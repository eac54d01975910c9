"""Takes out of an installation what the scorer never loads, and symbols that only a linker reads.

    prune.py SITE_PACKAGES

A name that matches nothing is an error, so that the lists stay true when a requirement changes. What is left is proved
by selftest.py: every shared library finds its symbols, and every command runs.
"""

import shutil
import subprocess
import sys
from pathlib import Path

# By kind, in every distribution.
KINDS = (
    ("tests of the libraries", ["**/tests", "**/test", "**/_test_common", "**/conftest.py"]),
    ("sources of compiled code, and what compilers read", ["**/*.pyx", "**/*.pxd", "**/*.pxi", "**/*.h", "**/*.hpp",
     "**/*.c", "**/*.cpp", "**/*.cc", "**/*.a"]),
    ("types for editors", ["**/*.pyi"]),
)  # fmt: skip

PARTS = (
    ("servers, object stores, query plans and ORC: the scorer reads local Parquet and CSV", "pyarrow", [
        "libarrow_flight.so.*", "libarrow_python_flight.so*", "_flight.*", "flight.py",
        "libarrow_s3.so.*", "_s3fs.*", "_gcsfs.*", "_azurefs.*", "_hdfs.*",
        "_substrait.*", "substrait.py",
        "_orc.*", "_dataset_orc.*", "orc.py",
    ]),
    ("second and third copies of libraries, which only a linker asks for", "pyarrow", [
        "libarrow_python.so", "libarrow_python.so.*.*.*",
        "libarrow_python_parquet_encryption.so", "libarrow_python_parquet_encryption.so.*.*.*",
    ]),
    ("for building against Arrow, and Arrow's own tests", "pyarrow", [
        "include", "includes", "src", "_pyarrow_cpp_tests.*",
    ]),
    ("never imported: signals, clusters, old Fourier transforms, orthogonal regression, data sets", "scipy", [
        "signal", "cluster", "fftpack", "odr", "datasets", "misc", "differentiate",
    ]),
    ("never imported: matrix market files, random variates by UNU.RAN, tables that made other tables", "scipy", [
        "io/_fast_matrix_market/_fmm_core.*", "stats/_unuran", "special/_precompute",
    ]),
    ("for arrays of others, which are not here", "scipy/_lib/array_api_compat", ["torch", "cupy", "dask"]),
    ("for arrays of others, which are not here", "sklearn/externals/array_api_compat", ["torch", "cupy", "dask"]),
    ("estimators that the demonstration does not train", "sklearn", [
        "linear_model", "ensemble", "cluster", "neighbors", "tree", "svm", "decomposition", "manifold",
        "feature_selection", "inspection", "gaussian_process", "compose", "impute", "mixture", "covariance",
        "semi_supervised", "cross_decomposition", "_loss",
    ]),
    ("data sets that the demonstration does not use", "sklearn/datasets", [
        "images", "data/[!b_]*", "descr/[!b_]*",
    ]),
    ("code for graphics processors, and for making extension modules", "numba", ["cuda", "pycc", "cext"]),
    ("threads of numba's own: the kernels run in ours", "numba/np/ufunc", ["tbbpool.*", "omppool.*"]),
    ("for building extension modules", "numpy", ["distutils", "_core/include", "_core/lib", "random/lib"]),
    ("checks of numpy itself", "numpy", ["_core/_simd.*", "typing/mypy_plugin.py"]),
    ("lexers and styles: no source code is coloured", "pygments", ["lexers/[!_]*", "lexers/_[!_m]*", "styles/[!_]*"]),
    ("a copy of another database's interface", "duckdb", ["experimental"]),
)  # fmt: skip


def main(site: Path) -> int:
    """Remove what is listed and strip the rest; 0 when every name was found."""
    before, missing = size(site), []
    lists = [(site, pattern) for _, patterns in KINDS for pattern in patterns]
    lists += [(site / part, pattern) for _, part, patterns in PARTS for pattern in patterns]
    for folder, pattern in lists:
        found = [path for path in folder.glob(pattern) if path.exists()]
        if not found:
            missing.append(f"{folder.relative_to(site)}/{pattern}")
        for path in found:
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()
    for library in (site / "scipy.libs").iterdir():
        twin = site / "numpy.libs" / library.name  # the name has a digest of the bytes in it
        if twin.exists():
            library.unlink()
            library.symlink_to(f"../numpy.libs/{library.name}")
    for library in libraries(site):
        if not library.parent.name.endswith(".libs"):  # moved by a tool whose layout strip breaks
            subprocess.run(["strip", "--strip-unneeded", library], check=True)
    for name in missing:
        print(f"prune.py: nothing is called {name}; mend the list", file=sys.stderr)
    print(f"prune.py: {before / 1e6:.0f} MB before, {size(site) / 1e6:.0f} MB now")
    return 1 if missing else 0


def libraries(site: Path) -> list[Path]:
    """Every shared library below ``site``."""
    return sorted(path for pattern in ("*.so", "*.so.[0-9]*") for path in site.rglob(pattern))


def size(folder: Path) -> int:
    """Bytes of all files below ``folder``."""
    return sum(path.lstat().st_size for path in folder.rglob("*"))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
