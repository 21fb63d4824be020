"""The OpenAPI document as one page of HTML that needs nothing else."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       color: #1d2430; background: #fff }
h2 { margin-top: 2.5rem; text-transform: capitalize }
details { border: 1px solid #d5dae3; border-radius: 6px; margin: .5rem 0; padding: .5rem .75rem }
summary { cursor: pointer }
code, pre { font: 14px/1.45 ui-monospace, monospace }
pre { background: #f4f6fa; padding: .75rem; border-radius: 6px; overflow-x: auto }
.method { display: inline-block; width: 4.5rem; font-weight: 700 }
table { border-collapse: collapse } td { padding: .15rem 1rem .15rem 0; vertical-align: top }
@media (prefers-color-scheme: dark) {
  body { background: #14171c; color: #e3e7ee } details { border-color: #353c48 } pre { background: #1f242c }
}
"""


def render(document: dict[str, Any]) -> str:
    info = document["info"]
    sections = "".join(_section(document, tag["name"]) for tag in document["tags"])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
        f"<p>{escape(info['description'])}</p>"
        '<p>For programs: <a href="openapi.json">openapi.json</a></p>'
        f"{sections}</body></html>"
    )


def _section(document: dict[str, Any], tag: str) -> str:
    rows = [
        _operation(document, method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if tag in operation["tags"]
    ]
    return f"<h2>{escape(tag)}</h2>" + "".join(rows)


def _operation(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> str:
    parameters = "".join(
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}</td>"
        f"<td>{escape(each['description'])}</td></tr>"
        for each in operation["parameters"]
    )
    body = operation.get("requestBody")
    request = _shape(document, "Request", body["content"]["application/json"]["schema"]) if body else ""
    (content,) = operation["responses"]["200"]["content"].values()
    answer = _shape(document, "Answer", content["schema"]) if "schema" in content else ""
    return (
        f'<details><summary><span class="method">{method.upper()}</span><code>{escape(path)}</code>'
        f" &mdash; {escape(operation['summary'])}</summary>"
        f"<table>{parameters}</table>{request}{answer}</details>"
    )


def _shape(document: dict[str, Any], title: str, schema: dict[str, Any]) -> str:
    reference = schema.get("$ref", "")
    if reference:
        name = reference.rpartition("/")[2]
        title, schema = f"{title}: {name}", document["components"]["schemas"][name]
    return f"<p>{escape(title)}</p><pre>{escape(json.dumps(schema, indent=2))}</pre>"
