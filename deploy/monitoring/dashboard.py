# SPDX-License-Identifier: Apache-2.0
"""The dashboard as Grafana reads it."""

import json

from .panels import PANELS, Panel

# Grafana's grid has this many columns.
COLUMNS = 24
ACROSS = 3
WIDTH, HEIGHT = COLUMNS // ACROSS, 8
SOURCE = {"type": "prometheus", "uid": "${source}"}


def dashboard() -> str:
    document = {
        "uid": "lodestone",
        "title": "Lodestone",
        "description": "Shuffle services. Written by deploy/monitoring.",
        "tags": ["lodestone", "spark"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables()},
        "panels": [panel(number, one) for number, one in enumerate(PANELS)],
    }
    return json.dumps(document, indent=2) + "\n"


def variables() -> list[dict]:
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return [
        source,
        chosen("job", "label_values(lodestone_build_info, job)"),
        chosen("instance", 'label_values(lodestone_build_info{job=~"$job"}, instance)'),
    ]


def chosen(name: str, query: str) -> dict:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


def panel(number: int, one: Panel) -> dict:
    row, column = divmod(number, ACROSS)
    targets = [
        {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": asked, "legendFormat": name}
        for at, (asked, name) in enumerate(one.asks)
    ]
    return {
        "id": number + 1,
        "title": one.title,
        "description": one.about,
        "type": one.kind,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": one.unit, "min": 0}, "overrides": []},
        "options": one.options,
        "targets": targets,
    }
