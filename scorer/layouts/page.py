"""``detailed_results.html`` for participants: one static page, nothing to run and nothing to load."""

from typing import Any

from protocol.findings import Outcome, plain
from protocol.hosting import PublicScore
from protocol.task import Task
from scorer.hosted import HostedScore

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ verdict.last_line }}</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; color: #1a1a1a;
  background: #fff; overflow-wrap: anywhere; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.accepted { color: #14532d; } .rejected { color: #7f1d1d; } .undetermined { color: #713f12; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; overflow-wrap: normal; }
th, td { text-align: left; padding: .25rem 1rem .25rem 0; vertical-align: top; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.n small { display: block; }
tr { border-bottom: 1px solid #ddd; } dt { font-weight: 600; margin-top: 1rem; } dd { margin: 0 0 0 1rem; }
small { color: #555; }
@media (prefers-color-scheme: dark) { body { color: #e5e5e5; background: #171717; } tr { border-color: #444; }
  small { color: #aaa; } .accepted { color: #86efac; } .rejected { color: #fca5a5; } .undetermined { color: #fde68a; } }
</style>
</head>
<body>
<h1 class="{{ look }}">{{ verdict.status.value.capitalize() }}</h1>
<p>{{ verdict.last_line }}</p>
{% if record %}<p>{{ record.title }}{% if record.team %} ({{ record.team }}){% endif %}; task {{ record.task }};
{{ record.declared }}; edition {{ record.edition }}, scorer {{ record.scorer }}</p>{% endif %}
{% if verdict.rejecting %}
<h2>What to mend</h2>
<dl>
{% for result in verdict.rejecting %}<dt>{{ result.rule }} {{ result.slug }}</dt>
{% for finding in result.findings %}<dd>{{ finding.where }}: {{ finding.saw }}; wanted {{ finding.wanted }}</dd>
{% endfor %}<dd><small>{{ result.mend }} ({{ result.docs }})</small></dd>
{% endfor %}</dl>
{% endif %}
{% for slice in slices %}
<h2>{{ slice.title }} <small>{{ slice.images }} images, {{ slice.patients }} patients</small></h2>
<div class="scroll" tabindex="0"><table>
<thead><tr><th scope="col">model</th><th scope="col">calibrator</th>
{% for name in metrics %}<th scope="col" class="n">{{ name }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in slice.rows %}<tr><th scope="row">{{ row.model }}</th><td>{{ row.calibrator }}</td>
{% for value, interval in row.cells %}<td class="n">{{ value }} <small>{{ interval }}</small></td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% endfor %}
{% if slices %}<p><small>Means over seeds with 95 % percentile intervals. A dash: undefined, or withheld, since few
patients stand behind it. Resamples have larger binned errors (ece) than the sample: a value may lie below its
interval.</small></p>{% endif %}
{% if others %}
<h2>What else was said</h2>
<dl>{% for rule, kind, reason in others %}<dt>{{ rule }} {{ kind }}</dt><dd>{{ reason }}</dd>{% endfor %}</dl>
{% endif %}
</body>
</html>
"""


def page(task: Task, done: HostedScore) -> bytes:
    """Verdict, findings with their mend, and the public scores of a submission to ``task``; every text escaped."""
    from jinja2 import Environment, StrictUndefined

    template = Environment(autoescape=True, undefined=StrictUndefined, finalize=_readable).from_string(_PAGE)
    others = [
        (result.rule, outcome.value, result.reason)
        for outcome in (Outcome.WAIVED, Outcome.UNVERIFIED)
        for result in done.verdict.of(outcome)
    ]
    text = template.render(
        verdict=done.verdict,
        look=done.verdict.status.value.partition(" ")[0],
        record=done.record,
        metrics=list(dict.fromkeys(score.metric for score in done.scores)),
        slices=_slices(done, task.participant_view.decimals),
        others=others,
    )
    return text.encode()


def _readable(value: Any) -> Any:
    """Texts without characters that change the order or the lines of others."""
    return plain(value, 4000) if isinstance(value, str) else value


def _slices(done: HostedScore, decimals: int) -> list[dict[str, Any]]:
    """A table a slice, in the order of the scores: rows of model and calibrator, a cell a metric."""
    tables: dict[tuple[str, str], dict[str, Any]] = {}
    for score in done.scores:
        kind, name = score.slice_kind, score.slice
        title = f"{kind} split" if name == "all" else f"{kind}: {name}"
        counts = {"title": title[0].upper() + title[1:], "images": score.n_images, "patients": score.n_patients}
        table = tables.setdefault((kind, name), {**counts, "rows": {}})
        row = table["rows"].setdefault(
            (score.model, score.calibrator), {"model": score.model, "calibrator": score.calibrator, "cells": []}
        )
        row["cells"].append(_cell(score, decimals))
    return [{**table, "rows": list(table["rows"].values())} for table in tables.values()]


def _cell(score: PublicScore, decimals: int) -> tuple[str, str]:
    """Value and interval as they are read."""
    value, lo, hi = ("–" if x is None else f"{x:.{decimals}f}" for x in (score.value, score.lo, score.hi))
    return value, "" if score.lo is None or score.hi is None else f"{lo} to {hi}"
