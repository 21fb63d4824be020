"""The audit as a page that can be sent around: tables, bars, no script, nothing from the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from dragoman.pipeline.auditing import AuditReport
from dragoman.pipeline.profile import PROFILED

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; width: 100% }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top }
.yes { color: #14713b } .no { color: #a61b1b } svg text { font: 12px system-ui, sans-serif }
"""


def html_report(report: AuditReport) -> str:
    verdict = (
        '<p class="yes">Every message is readable under the candidate.</p>'
        if report.readable
        else f'<p class="no">{report.audit.failed} of {report.audit.read} messages are not readable.</p>'
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f"<title>Audit of {escape(report.channel)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>Audit of {escape(report.channel)}</h1><p>Contract {escape(report.contract)}.</p>{verdict}"
        f"{_versions(report)}{_failures(report)}{_profile(report)}</body></html>\n"
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape('' if cell is None else str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _bars(title: str, numbers: dict[str, tuple[int, int]]) -> str:
    """Horizontal bars of good and failed, to one scale."""
    longest = max((good + bad for good, bad in numbers.values()), default=0) or 1
    parts: list[str] = []
    for row, (label, (good, bad)) in enumerate(numbers.items()):
        top = row * 26
        wide, failed = 500 * good / longest, 500 * bad / longest
        parts.append(
            f'<text x="0" y="{top + 15}">{escape(label)}</text>'
            f'<rect x="160" y="{top + 3}" width="{wide:.1f}" height="16" fill="#3b8f5c"/>'
            f'<rect x="{160 + wide:.1f}" y="{top + 3}" width="{failed:.1f}" height="16" fill="#c0392b"/>'
            f'<text x="{168 + wide + failed:.1f}" y="{top + 15}">{good} read, {bad} failed</text>'
        )
    height = 26 * len(numbers)
    return (
        f"<h2>{escape(title)}</h2>"
        f'<svg viewBox="0 0 860 {height}" width="100%" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )


def _versions(report: AuditReport) -> str:
    by_version: dict[str, Counter[bool]] = {}
    by_partition: dict[str, Counter[bool]] = {}

    def split(found: dict[str, Counter[bool]]) -> dict[str, tuple[int, int]]:
        return {name: (counts[True], counts[False]) for name, counts in found.items()}

    for finding, number in sorted(report.audit.counts.items()):
        version = report.versions.get(finding.schema_id)
        label = f"version {version}" if version else f"schema {finding.schema_id}"
        if finding.schema_id < 0:
            label = "no schema"
        by_version.setdefault(label, Counter())[not finding.code] += number
        by_partition.setdefault(f"partition {finding.partition}", Counter())[not finding.code] += number
    defaults: list[list[object]] = [
        [report.versions.get(schema_id), schema_id, ", ".join(names) or "none"]
        for schema_id, names in sorted(report.defaults.items())
    ]
    return (
        _bars("Messages by version", split(by_version))
        + _bars("Messages by partition", split(by_partition))
        + "<h2>Fields filled by defaults</h2>"
        + _table(["version", "schema id", "fields that its messages lack"], defaults)
    )


def _failures(report: AuditReport) -> str:
    rows: list[list[object]] = []
    for finding, number in sorted(report.audit.counts.items()):
        if finding.code and number:
            samples = report.audit.samples.get(finding, [])
            rows.append(
                [
                    report.versions.get(finding.schema_id),
                    finding.partition,
                    finding.code,
                    finding.path,
                    number,
                    ", ".join(str(offset) for offset, _ in samples),
                    samples[0][1] if samples else "",
                ]
            )
    if not rows:
        return ""
    columns = ["version", "partition", "code", "field", "messages", "for example at", "reason"]
    return "<h2>What fails</h2>" + _table(columns, rows)


def _profile(report: AuditReport) -> str:
    return "<h2>Fields</h2>" + _table(PROFILED, report.profile.rows())
