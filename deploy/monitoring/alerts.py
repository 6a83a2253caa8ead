# SPDX-License-Identifier: Apache-2.0
"""The alerts. `docs/alerts.md` has a section for each, which says what to do."""

from dataclasses import dataclass

# A job of Prometheus whose name contains this scrapes services of Lodestone.
JOBS = 'job=~".*lodestone.*"'
# Codes that a service gives because it lacks something. The other codes are usual in the life of a
# shuffle, such as TOO_LATE, or a matter of one client.
LACKS = "OVERLOADED|QUOTA|DISK_FULL|DISK_FAILED"


@dataclass(frozen=True)
class Alert:
    """An alert fires when `figure` has been beyond `limit` for some time."""

    name: str
    figure: str
    limit: str
    lasts: str
    severity: str
    summary: str

    @property
    def expression(self) -> str:
        return f"{self.figure} {self.limit}"

    @property
    def anchor(self) -> str:
        return self.name.lower()


def p99(histogram: str, by: str = "") -> str:
    labels = f"job, instance, {by}le"
    return f"histogram_quantile(0.99, sum by ({labels}) (rate({histogram}_bucket[5m])))"


ALERTS = [
    Alert(
        "LodestoneDown", f"up{{{JOBS}}}", "== 0", "2m", "critical",
        "The service {{ $labels.instance }} does not answer.",
    ),
    Alert(
        "LodestoneNotServing", "lodestone_serving + lodestone_draining", "== 0", "2m", "critical",
        "The service {{ $labels.instance }} takes no work: it has no usable disk.",
    ),
    Alert(
        "LodestoneDiskFailed", 'lodestone_merge_disk_state{state="failed"}', "== 1", "1m",
        "critical",
        "The disk of {{ $labels.dir }} at {{ $labels.instance }} fails or hangs.",
    ),
    Alert(
        "LodestoneDiskFull", 'lodestone_merge_disk_state{state="full"}', "== 1", "5m", "critical",
        "The disk of {{ $labels.dir }} at {{ $labels.instance }} has only its reserve left.",
    ),
    Alert(
        "LodestoneDiskNearlyFull",
        "lodestone_merge_disk_free_bytes / (lodestone_merge_disk_size_bytes > 0)", "< 0.15", "10m",
        "warning",
        "The disk of {{ $labels.dir }} at {{ $labels.instance }} has "
        "{{ $value | humanizePercentage }} free.",
    ),
    Alert(
        "LodestoneDiskErrors",
        "increase(lodestone_merge_write_failures_total[15m])"
        " + increase(lodestone_merge_read_failures_total[15m])",
        "> 0", "0m", "warning",
        "Reads or writes of {{ $labels.dir }} at {{ $labels.instance }} failed in the last "
        "15 minutes.",
    ),
    Alert(
        "LodestoneDiskSlow", p99("lodestone_merge_write_seconds", "dir, "), "> 1", "10m", "warning",
        "One write of a hundred to {{ $labels.dir }} at {{ $labels.instance }} takes "
        "{{ $value | humanizeDuration }}.",
    ),
    Alert(
        "LodestoneMemoryPressure",
        "lodestone_merge_memory_bytes / lodestone_merge_memory_limit_bytes", "> 0.85", "10m",
        "warning",
        "The service {{ $labels.instance }} has {{ $value | humanizePercentage }} of its memory "
        "in use.",
    ),
    Alert(
        "LodestoneRefusesRequests",
        "sum by (job, instance, code)"
        f' (rate(lodestone_requests_refused_total{{code=~"{LACKS}"}}[5m]))',
        "> 1", "10m", "warning",
        "The service {{ $labels.instance }} refuses {{ $value | humanize }} requests a second "
        "with {{ $labels.code }}.",
    ),
    Alert(
        "LodestoneConnectionsRefused", "increase(lodestone_connections_refused_total[15m])",
        "> 0", "0m", "warning",
        "The service {{ $labels.instance }} closed new connections, because it had too many.",
    ),
    Alert(
        "LodestoneClientsNotAuthenticated",
        "increase(lodestone_authentication_failures_total[15m])", "> 10", "0m", "warning",
        "The service {{ $labels.instance }} closed {{ $value | humanize }} connections of clients "
        "that did not authenticate.",
    ),
    Alert(
        "LodestonePushSlow", p99("lodestone_push_seconds"), "> 2.5", "10m", "warning",
        "One push of a hundred at {{ $labels.instance }} takes {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "LodestoneFetchSlow", p99("lodestone_fetch_seconds"), "> 2.5", "10m", "warning",
        "One chunk of a hundred of {{ $labels.instance }} takes {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "LodestoneReadsFail", "increase(lodestone_fetch_failures_total[15m])", "> 10", "0m",
        "warning",
        "The service {{ $labels.instance }} could not send {{ $value | humanize }} chunks in the "
        "last 15 minutes.",
    ),
    Alert(
        "LodestoneDrainLasts", "lodestone_draining", "== 1", "2h", "warning",
        "The service {{ $labels.instance }} is drained, and applications still need it.",
    ),
    Alert(
        "LodestoneVersionsDiffer",
        "count by (job) (count by (job, version) (lodestone_build_info))",
        "> 1", "6h", "info",
        "The services of {{ $labels.job }} have {{ $value }} different versions.",
    ),
]  # fmt: skip


def rules(site: str = "") -> str:
    """Returns the file of rules. With the address of the published documentation each alert has a
    link to its section there."""
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        "# Written by deploy/monitoring: `PYTHONPATH=deploy python3 -m monitoring` repeats it.",
        "groups:",
        "  - name: lodestone",
        "    rules:",
    ]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {quoted(alert.expression)}",
            f"        for: {alert.lasts}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {quoted(alert.summary)}",
            f"          runbook: {quoted(f'docs/alerts.md#{alert.anchor}')}",
        ]
        if site:
            lines.append(f"          runbook_url: {quoted(f'{site}/alerts/#{alert.anchor}')}")
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
