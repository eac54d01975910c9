"""``mvc rules``: the law as the referee applies it."""

import json
from typing import Annotated

import typer


def rules(
    rule: Annotated[str | None, typer.Argument(metavar="[ID]", help="One rule, such as MVC101.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the rules, or explain one.

    Example: mvc rules MVC101
    """
    from protocol.text import rule_text, rules_json, rules_text

    known = rules_json()
    if rule is not None and rule.upper() not in known:
        raise typer.BadParameter(f"there is no rule {rule}; mvc rules lists them all", param_hint="ID")
    if as_json:
        typer.echo(json.dumps(known[rule.upper()] if rule else list(known.values()), indent=2, ensure_ascii=False))
    else:
        typer.echo(rule_text(rule.upper()) if rule else rules_text())
