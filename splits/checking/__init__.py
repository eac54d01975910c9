"""``mvc split check``: leaks between the splits that any files list."""

from splits.checking.check import Options, check_splits
from splits.checking.findings import Finding, Level, Report, Source
from splits.checking.roles import Chosen

__all__ = ["Chosen", "Finding", "Level", "Options", "Report", "Source", "check_splits"]
