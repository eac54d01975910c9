"""Tests of the baseline need torch; without it they are left out, with the reason."""

import importlib.util
import os

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py", "*/test_*.py"]
else:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the numbers of tests are those of a processor
    import torch

    torch.set_num_threads(1)  # sums do not depend on how many cores the machine has


def pytest_report_header() -> str:
    """Say what is missing."""
    return "" if importlib.util.find_spec("torch") else "torch is absent: tests of submission/baseline are left out"
