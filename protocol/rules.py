"""The shape of a rule and the registry of all rules.

A rule is a small class in one of ``protocol/stages``: its name is its id, its docstring the title, its ``check`` gets
FACTS by parameter name and returns findings. It never prints, reads a file or raises.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from protocol.findings import Finding, Level, NotApplicable, Unverified

Result = Sequence[Finding] | NotApplicable | Unverified

REGISTRY: dict[str, type["Rule"]] = {}


class Rule:
    """Base of all rules; subclasses named ``MVCnnn`` register themselves."""

    slug: ClassVar[str]
    level: ClassVar[Level] = Level.MUST
    why: ClassVar[str]
    mend: ClassVar[str]
    requires: ClassVar[frozenset[str]] = frozenset()
    reads_test_labels: ClassVar[bool] = False
    check: ClassVar[Callable[..., Result]]

    def __init_subclass__(cls) -> None:
        assert re.fullmatch(r"MVC\d{3}", cls.__name__), f"{cls.__name__}: a rule is named by its id"
        assert cls.__name__ not in REGISTRY, f"{cls.__name__} is defined twice"
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", cls.slug), f"{cls.__name__}: bad slug"
        assert cls.__doc__, f"{cls.__name__}: the docstring is the title"
        assert cls.why, f"{cls.__name__}: say why"
        assert cls.mend, f"{cls.__name__}: say the mend"
        REGISTRY[cls.__name__] = cls


def stage_of(rule_id: str) -> int:
    """Stage of a rule: 0 is intake, 1 to 7 are the protocol's steps."""
    return int(rule_id[3])


def title_of(rule: type[Rule]) -> str:
    """The first line of the rule's docstring."""
    return (rule.__doc__ or "").strip().splitlines()[0]


def facts_of(rule: type[Rule]) -> tuple[str, ...]:
    """Names of the facts that the rule's check asks for."""
    return tuple(inspect.signature(rule.check).parameters)


def all_rules() -> dict[str, type[Rule]]:
    """Every rule by id, in order of ids; importing the stages registers them."""
    import protocol.stages  # noqa: F401  (the stages import this module)

    return dict(sorted(REGISTRY.items()))
