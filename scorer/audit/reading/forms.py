"""What a file is, by its first bytes and then its name, and why some files are not opened."""

import re
from typing import NoReturn

from scorer.audit.reading.source import Source

PICKLE_NAMES = (".pkl", ".pickle", ".p", ".pk", ".joblib", ".dill", ".sav", ".pt", ".pth", ".ckpt")
PICKLE_OLD = re.compile(
    rb"\((?:dp|lp|tp)\d+\r?\n|c[A-Za-z_][\w.]*\r?\n[A-Za-z_][\w.]*\r?\n(?:p\d+\r?\n|q[\x00-\x1f]|\()|\(?[}\])]q[\x00-\x1f]"
    rb"|S'[^\n]*'\r?\np\d+\r?\n",
    re.S,
)
TABLES = (".csv", ".tsv", ".tab", ".parquet", ".json", ".jsonl", ".ndjson", ".npy", ".npz", ".xlsx", ".xls")
LATER = "or an isolated container without network, which holds nothing else,"
PICKLED = (
    "loading it runs whatever code its author put there, so it is never opened; "
    f'its author, {LATER} can save a table instead: python -c "import pandas as pd; '
    "pd.DataFrame(pd.read_pickle('FILE')).to_csv('FILE.csv')\""
)
TORCH = (
    "a PyTorch file is a pickle: loading it runs whatever code its author put there, so it is never opened; "
    f'its author, {LATER} can save a table instead: python -c "import torch, pandas as pd; '
    "pd.DataFrame(torch.load('FILE', weights_only=True)).to_csv('FILE.csv')\""
)
HDF = (
    "HDF5 (also MATLAB 7.3 and Keras) is not read, as it may hold anything, pickles too; "
    "save the table as CSV: python -c \"import h5py, numpy as np; np.savetxt('FILE.csv', h5py.File('FILE')['NAME'], "
    "delimiter=',')\" with the NAME of the data set"
)
MATLAB = (
    "a MATLAB file is not read; save the table as CSV: writematrix(NAME, 'FILE.csv') in MATLAB, or "
    'python -c "import scipy.io, numpy as np; '
    "np.savetxt('FILE.csv', scipy.io.loadmat('FILE')['NAME'], delimiter=',')\""
)
RDATA = (
    "an R data file is not opened: loading it can run code of its author; "
    f'its author, {LATER} can save a table instead: Rscript -e \'write.csv(readRDS("FILE"), "FILE.csv")\''
)
UNPACK = "is packed in a way that is not read here ({}); unpack it, or use zip or gzip"
NO_TABLE = "is {}, no table of predictions; name a CSV, TSV, Parquet, JSON, XLSX, NPY or NPZ file"

MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89HDF\r\n\x1a\n", HDF),
    (b"MATLAB 5.0 MAT-file", MATLAB),
    (b"RDX2\n", RDATA),
    (b"RDX3\n", RDATA),
    (b"RDA2\n", RDATA),
    (b"RDA3\n", RDATA),
    (b"X\n\x00\x00\x00", RDATA),
    (b"A\n2\n", RDATA),
    (b"A\n3\n", RDATA),
    (b"BZh", UNPACK.format("bzip2")),
    (b"\xfd7zXZ", UNPACK.format("xz")),
    (b"7z\xbc\xaf\x27\x1c", UNPACK.format("7-Zip")),
    (b"Rar!", UNPACK.format("RAR")),
    (b"\x28\xb5\x2f\xfd", UNPACK.format("Zstandard")),
    (
        b"ARROW1",
        "is an Arrow file; save it as Parquet: pyarrow.parquet.write_table(pyarrow.feather.read_table(FILE), ...)",
    ),
    (b"version https://git-lfs", "is a Git LFS pointer, not the file itself; get it with 'git lfs pull'"),
    (b"/annex/objects/", "is a git-annex pointer, not the file itself; get it with 'git annex get'"),
    (b"SQLite format 3", NO_TABLE.format("an SQLite database")),
    (b"%PDF", NO_TABLE.format("a PDF document")),
    (b"{\\rtf", NO_TABLE.format("an RTF document")),
    (b"%!PS", NO_TABLE.format("a PostScript document")),
    (b"\\documentclass", NO_TABLE.format("a LaTeX document")),
    (b"\\begin{", NO_TABLE.format("LaTeX; for a printed table see 'mvc audit table'")),
    (b"\x89PNG", NO_TABLE.format("a PNG image")),
    (b"\xff\xd8\xff", NO_TABLE.format("a JPEG image")),
    (b"GIF8", NO_TABLE.format("a GIF image")),
    (b"II*\x00", NO_TABLE.format("a TIFF image")),
    (b"MM\x00*", NO_TABLE.format("a TIFF image")),
    (b"\x7fELF", NO_TABLE.format("a program")),
    (b"MZ\x90", NO_TABLE.format("a program")),
    (b"#!/", NO_TABLE.format("a program")),
)
NAMES = {
    (".htm", ".html"): "a web page",
    (".xml", ".svg"): "XML",
    (".md", ".rst", ".markdown"): "a text document",
    (".log", ".out", ".err"): "a log",
    (".py", ".r", ".m", ".sh", ".ipynb", ".js", ".ts", ".c", ".cpp", ".jl"): "program code",
    (".yaml", ".yml", ".toml", ".ini", ".cfg", ".lock"): "a settings file",
    (".tex", ".bib"): "LaTeX",
    (".doc", ".docx", ".odt", ".rtf", ".pdf", ".ppt", ".pptx"): "a document",
    (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".dcm", ".nii"): "an image",
    (".safetensors", ".onnx", ".pb", ".tflite"): "the weights of a model",
    (".ods",): "an OpenDocument sheet (save it as .xlsx or CSV)",
}
WEB = (b"<!doctype html", b"<html", b"<head", b"<body")


def form_of(source: Source) -> str:
    """``gzip``, ``zip``, ``xls``, ``parquet``, ``npy``, ``json``, ``jsonl`` or ``text``.

    AuditError, with the reason and the mend, for an empty file, pickles of any kind and what is known to be no table.
    """
    head = source.head()
    if not head.strip():
        source.refuse("is empty")
    for mark, form in ((b"\x1f\x8b", "gzip"), (b"PK\x03\x04", "zip"), (b"\xd0\xcf\x11\xe0", "xls")):
        if head.startswith(mark):
            return form
    if head.startswith(b"PK\x05\x06"):
        source.refuse("is an empty zip archive")
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    _refused(source, head)
    bare = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if source.suffix in (".jsonl", ".ndjson"):
        return "jsonl"
    if source.suffix == ".json" or (bare[:1] in (b"{", b"[") and source.suffix not in (".csv", ".tsv")):
        return "json"
    if source.suffix in (".parquet", ".npy", ".npz", ".xlsx", ".xls", ".zip", ".gz"):
        source.refuse(f"the name ends in {source.suffix}, but the bytes are not of that form; is the file damaged?")
    return "text"


def tabular(source: Source) -> bool:
    """Whether the file is a table by its name."""
    return source.suffix in TABLES


def pickled(source: Source, what: str = "a Python pickle") -> NoReturn:
    """AuditError for a pickle."""
    source.refuse(f"{what}: {PICKLED}")


def _refused(source: Source, head: bytes) -> None:
    for mark, said in MAGIC:
        if head.startswith(mark):
            source.refuse(said)
    if head[0] == 0x80 and len(head) > 1 and head[1] <= 5:
        if source.suffix in (".pt", ".pth", ".ckpt"):
            source.refuse(TORCH)
        pickled(source)
    if source.suffix in PICKLE_NAMES:
        if source.suffix in (".pt", ".pth", ".ckpt"):
            source.refuse(TORCH)
        pickled(source, f"a pickle by its name ({source.suffix})")
    if PICKLE_OLD.match(head):
        pickled(source, "a Python pickle of protocol 0 or 1")
    if source.suffix in (".h5", ".hdf5", ".hdf", ".keras"):
        source.refuse(HDF)
    if source.suffix in (".rds", ".rda", ".rdata"):
        source.refuse(RDATA)
    if source.suffix == ".mat":
        source.refuse(MATLAB)
    if head[257:262] == b"ustar":
        source.refuse(UNPACK.format("tar"))
    if head[128:132] == b"DICM":
        source.refuse(NO_TABLE.format("a DICOM image"))
    start = head[:512].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith(WEB):
        source.refuse(NO_TABLE.format("a web page (was a page downloaded where a file was meant?)"))
    if start.startswith((b"<?xml", b"<svg")):
        source.refuse(NO_TABLE.format("XML"))
    for suffixes, what in NAMES.items():
        if source.suffix in suffixes:
            source.refuse(NO_TABLE.format(what))
