# SPDX-License-Identifier: Apache-2.0
"""Writes the dashboard and the rules. `--site https://docs.example.org` adds links to the pages of
the documentation that are published there."""

import argparse
from pathlib import Path

from .alerts import rules
from .dashboard import dashboard

DEPLOY = Path(__file__).resolve().parents[1]
DASHBOARD = DEPLOY / "grafana" / "lodestone.json"
RULES = DEPLOY / "prometheus" / "rules.yaml"
# Helm reads no file outside of the chart.
CHART_RULES = DEPLOY / "helm" / "lodestone" / "rules.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(prog="monitoring", description=__doc__)
    parser.add_argument("--site", default="", help="address of the published documentation")
    site = parser.parse_args().site.rstrip("/")
    DASHBOARD.write_text(dashboard())
    for path in (RULES, CHART_RULES):
        path.write_text(rules(site))


if __name__ == "__main__":
    main()
