"""The shipped configurations: readable, with the values of their sources; and what is said of any other file."""

from pathlib import Path

import pytest

from submission.baseline.configs import HERE, read_config, shipped
from submission.baseline.errors import BaselineError
from submission.baseline.learners.settings import DEFAULTS, OFFICIAL, check, setting
from submission.baseline.losses import Criterion
from submission.baseline.templates import GENERAL, sixty

LEARNERS = ("coop", "kgcoop", "prograd", "maple", "promptsrc", "hicropl")
GOOD = "model: m\nbackbone: {name: toy}\nlearner: {name: coop}\n"


def test_two_are_shipped_for_each_learner() -> None:
    kinds = ("as-described", "official")
    assert shipped() == tuple(sorted(["zeroshot", *(f"{name}-{kind}" for name in LEARNERS for kind in kinds)]))


@pytest.mark.parametrize("name", shipped())
def test_each_is_valid_and_cites_every_value(name: str) -> None:
    config, data = read_config(name)
    assert data == (HERE / f"{name}.yaml").read_bytes()
    assert config.model == name
    check(config.learner)
    Criterion(config.loss, 5)
    lines = data.decode().splitlines()
    values = [line for line in lines if ": " in line and not line.startswith("#")]
    told = [line for line in values if " # " in line or line.startswith(("model:", "  name: "))]
    assert values == told
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("learner", LEARNERS)
def test_as_described_has_the_papers_values_and_else_the_learners(learner: str) -> None:
    config, _ = read_config(f"{learner}-as-described")
    official = OFFICIAL[config.learner.name].training
    assert official is not None
    assert (config.shots, config.seeds, config.templates) == (16, (1, 2, 3), (GENERAL,))
    assert config.training == official.model_copy(update={"learning_rate": 0.005, "batch_size": 8})
    assert config.backbone.name == "ViT-B-16"


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("kind", ["as-described", "official"])
def test_the_head_cites_the_publication(learner: str, kind: str) -> None:
    config, data = read_config(f"{learner}-{kind}")
    head = [line.removeprefix("#").strip() for line in data.decode().splitlines() if line.startswith("#")]
    official = OFFICIAL[config.learner.name]
    assert f"marked OWN: {official.paper}, {official.repository} at {official.commit}." in " ".join(head)


@pytest.mark.parametrize("learner", LEARNERS)
def test_numbers_that_the_paper_gives_for_coop_are_said_to_be_coops(learner: str) -> None:
    data = read_config(f"{learner}-as-described")[1].decode()
    for key in ("learning_rate: 0.005", "batch_size: 8", "shots: 16"):
        (line,) = (line.strip() for line in data.splitlines() if line.strip().startswith(key))
        assert line.endswith("# MVC-Bench, section 3" if learner == "coop" else "# MVC-Bench, section 3, of CoOp")


@pytest.mark.parametrize("learner", LEARNERS)
def test_official_has_the_learners_values(learner: str) -> None:
    config, _ = read_config(f"{learner}-official")
    assert config.training == OFFICIAL[config.learner.name].training
    assert (config.shots, config.seeds, config.loss.name) == (16, (1, 2, 3), "ce")
    assert config.views.model_dump() == {"kind": "augmented", "scale": (0.08, 1.0), "flip": 0.5}
    assert config.templates == (sixty() if learner == "promptsrc" else (GENERAL,))
    assert (config.backbone.name == "RN50") == (learner == "prograd")


@pytest.mark.parametrize("name", [name for name in shipped() if name != "zeroshot"])
def test_the_settings_of_learners_are_the_published_ones(name: str) -> None:
    learner = read_config(name)[0].learner
    for field, value in DEFAULTS[learner.name].items():
        if value is not None:
            assert setting(learner, field) == value, field
    assert learner.averaging == ((45, 5) if learner.name == "promptsrc" else None)


def test_a_file_is_read_and_wins_over_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(GOOD)
    config, data = read_config(str(path))
    assert (config.model, data) == ("m", GOOD.encode())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "coop-official").write_text(GOOD)
    assert read_config("coop-official")[0].model == "m"
    (tmp_path / "coop-official").unlink()
    (tmp_path / "coop-official").mkdir()
    assert read_config("coop-official")[0].model == "coop-official"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + "epochs: 5\n", "epochs: unknown key"),
        (GOOD.replace("coop", "cop"), 'learner.name: "cop", wanted one of zeroshot, coop'),
        (GOOD + "seeds: [1, 1]\n", "seeds: one is listed twice"),
        (GOOD + "seeds: []\n", "a list with 1 or more items"),
        (GOOD + "templates: [a photo]\n", "templates: at least one, each with {}"),
        (GOOD + "training: {learning_rate: -1}\n", "training.learning_rate: -1, wanted a number above 0"),
        (GOOD + "training: {epochs: 2.5}\n", "training.epochs"),
        (GOOD + "views: {scale: [0.9, 0.1]}\n", "scale is (smallest, largest)"),
        (GOOD + "about: {differs_in: [age]}\n", "about.differs_in.0"),
        (GOOD.replace("model: m", "model: 2026-01-01"), "quote it if it is text"),
        (GOOD + "model: twice\n", "the key model stands twice"),
        (GOOD + "a: &x [1]\nb: *x\n", "an alias"),
        ("model: [\n", "line 2"),
        ("", "the file is empty"),
        ("- 1\n", "document"),
        ("\x00", "own.yaml"),
        ("a: " + "[" * 50 + "]" * 50, "more than 20 levels"),
        ("#" * (1 << 20) + "\n", "should be a short YAML text"),
    ],
)
def test_a_wrong_configuration_is_said_in_words(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(BaselineError) as caught:
        read_config(str(path))
    assert said in str(caught.value)


def test_what_is_no_file_of_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"no such file, and no shipped configuration; there are coop-as-described"):
        read_config(str(tmp_path / "none.yaml"))
    with pytest.raises(BaselineError, match="Is a directory"):
        read_config(str(tmp_path))
    with pytest.raises(BaselineError, match="can't be read"):
        read_config("a\0b")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(BaselineError, match="not UTF-8"):
        read_config(str(tmp_path / "bytes.json"))
