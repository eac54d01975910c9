"""What the user says of the columns."""

import pytest

from scorer.audit.shapes import AuditError, Role
from scorer.audit.understanding import Wishes, parse_map


def test_roles_add_up_and_commas_in_names_are_escaped() -> None:
    wishes = parse_map(["score=a,b", "score=c", "unit=id\\, long", "none=junk", "label:Mass=m", "Site=s"], unit="eye")
    assert wishes.columns[Role.SCORE] == ("a", "b", "c")
    assert wishes.columns[Role.UNIT] == ("id, long",)
    assert wishes.columns[Role.SITE] == ("s",)
    assert wishes.findings == {"Mass": "m"}
    assert wishes.ignored == {"junk"}
    assert wishes.unit == "eye"


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["score"], "write role=column"),
        (["score="], "write role=column"),
        (["scor=a"], "meant is 'score'"),
        (["score=a", "label=a"], "two roles"),
        (["score=a", "none=a"], "two roles"),
        (["score:Mass=a"], "only label:FINDING"),
        (["\x1b[2J=a"], r"\\x1b"),
    ],
)
def test_what_can_not_be_read_is_refused_with_the_grammar(texts: list[str], said: str) -> None:
    with pytest.raises(AuditError, match=said):
        parse_map(texts)


def test_kinds_and_scales_are_known_words() -> None:
    with pytest.raises(AuditError, match="probabilities"):
        Wishes(scale="probs")
    with pytest.raises(AuditError, match="multilabel"):
        Wishes(kind="multi")  # type: ignore[arg-type]
    with pytest.raises(AuditError, match="twice"):
        Wishes(classes=("a", "a"))
