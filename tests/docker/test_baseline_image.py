"""The image for labs: its stages without a GPU are built, and hold the kit and its configurations."""

from tests.docker.engine import ROOT, docker, need_engine, run

TAG = "mvc-baseline-test:core"


def test_the_stages_without_a_gpu_build_and_hold_the_kit() -> None:
    need_engine()
    docker("build", "-f", str(ROOT / "docker" / "baseline.Dockerfile"), "--target", "core", "-t", TAG, str(ROOT))
    listed = run("mvc", "baseline", "configs", tag=TAG, user=None)
    assert listed.code == 0, listed
    assert "coop-as-described" in listed.stdout
    trained = run("mvc", "baseline", "toy", "/tmp/toy", tag=TAG, user=None)
    assert trained.code == 2
    assert "pip install 'mvc-kit[baseline]'" in trained.last
