"""Templates as their sources give them."""

import subprocess
import sys

from submission.baseline import templates


def test_every_template_has_one_place_for_the_name() -> None:
    every = (*templates.COOP.values(), *templates.MEDICAL.values(), templates.GENERAL, templates.MEDICAL_GENERAL)
    for template in (*every, *templates.seven(), *templates.sixty(), *map(templates.hard_template, templates.HARD)):
        assert template.count("{}") == 1
        assert template.format("cat").count("cat") >= 1


def test_the_ensembles_are_clips_and_promptsrcs() -> None:
    assert templates.seven() == (
        "itap of a {}.",
        "a bad photo of the {}.",
        "a origami {}.",
        "a photo of the large {}.",
        "a {} in a video game.",
        "art of the {}.",
        "a photo of the small {}.",
    )
    assert len(set(templates.sixty())) == 60
    assert templates.sixty()[39] == templates.GENERAL


def test_the_hard_prompts_are_the_seven() -> None:
    # as the sentence of appendix E lists them
    listed = (
        "a photo of a / a photo of a retina with / a color fundus photograph showing diabetic retinopathy severity "
        "level as / Classify diabetic retinopathy severity from this fundus photo of a / You are classifying diabetic "
        "retinopathy on a fundus photo of a / This picture illustrates diabetic retinopathy severity of a / The DR "
        "level is"
    )
    assert " / ".join(templates.HARD) == listed
    assert templates.hard_template(templates.HARD[6]) == "The DR level is {}."


def test_the_module_needs_no_torch() -> None:
    code = "import sys; from submission.baseline import templates; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
