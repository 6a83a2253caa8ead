# SPDX-License-Identifier: Apache-2.0
"""The alerts. `docs/alerts.md` has a section for each, which says what to do."""

from dataclasses import dataclass

# A job of Prometheus whose name contains this scrapes services of Lodestone.
JOBS = 'job=~".*lodestone.*"'
# Codes that a service gives because it lacks something. The other codes are usual in the life of a
# shuffle, such as TOO_LATE, or a matter of one client.
LACKS = "OVERLOADED|QUOTA|DISK_FULL|DISK_FAILED"
# Codes of chunks that a service has, or should have, and does not send. The other codes are usual:
# the shuffle is removed, or the query is cancelled.
UNREAD = "DISK_FAILED|OVERLOADED|CHECKSUM_MISMATCH|INTERNAL"
# Refusals of requests, of single segments in a push, and of chunks.
REFUSALS = ("requests_refused", "merge_rejected", "fetch_failures")


@dataclass(frozen=True)
class Alert:
    """An alert fires when `figure` has been beyond `limit` for some time, while `only` holds."""

    name: str
    figure: str
    limit: str
    lasts: str
    severity: str
    summary: str
    only: str = ""

    @property
    def expression(self) -> str:
        beyond = f"{self.figure} {self.limit}"
        return f"{beyond} and {self.only}" if self.only else beyond

    @property
    def anchor(self) -> str:
        return self.name.lower()


def p99(histogram: str, by: str = "") -> str:
    labels = f"job, instance, {by}le"
    return f"histogram_quantile(0.99, sum by ({labels}) (rate({histogram}_bucket[5m])))"


def several_over(seconds: float, histogram: str, by: str = "") -> str:
    """Returns a condition: one slow operation among few is no trouble, and is their slowest."""

    def lately(what: str) -> str:
        return f"sum by (job, instance{by}) (increase({histogram}_{what}[5m]))"

    bucket = f'bucket{{le="{seconds}"}}'
    return f"{lately('count')} - {lately(bucket)} > 10"


def refused() -> str:
    """Returns the rate of refusals for want of something, by code."""
    rates = (
        f'sum by (job, instance, code) (rate(lodestone_{name}_total{{code=~"{LACKS}"}}[5m]))'
        for name in REFUSALS
    )
    return " + ".join(rates)


ALERTS = [
    Alert(
        "LodestoneDown", f"up{{{JOBS}}}", "== 0", "2m", "critical",
        "The service {{ $labels.instance }} does not answer.",
    ),
    Alert(
        "LodestoneRestarts", "changes(lodestone_start_time_seconds[30m])", "> 3", "0m", "critical",
        "The service {{ $labels.instance }} started {{ $value }} times in the last 30 minutes.",
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
        "(lodestone_merge_disk_free_bytes - lodestone_merge_disk_reserve_bytes)"
        " / (lodestone_merge_disk_size_bytes > 0)",
        "< 0.1", "10m", "warning",
        "The disk of {{ $labels.dir }} at {{ $labels.instance }} has "
        "{{ $value | humanizePercentage }} free above its reserve.",
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
        several_over(1.0, "lodestone_merge_write_seconds", ", dir"),
    ),
    Alert(
        "LodestoneMemoryPressure",
        "lodestone_memory_part_bytes / lodestone_memory_part_limit_bytes", "> 0.9", "10m",
        "warning",
        "The service {{ $labels.instance }} has {{ $value | humanizePercentage }} of its memory "
        "for {{ $labels.part }} in use.",
    ),
    Alert(
        "LodestoneRefusesRequests", f"({refused()})", "> 1", "10m", "warning",
        "The service {{ $labels.instance }} refuses {{ $value | humanize }} requests, segments or "
        "chunks a second with {{ $labels.code }}.",
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
        several_over(2.5, "lodestone_push_seconds"),
    ),
    Alert(
        "LodestoneFetchSlow", p99("lodestone_fetch_seconds"), "> 2.5", "10m", "warning",
        "One chunk of a hundred of {{ $labels.instance }} takes {{ $value | humanizeDuration }}.",
        several_over(2.5, "lodestone_fetch_seconds"),
    ),
    Alert(
        "LodestoneReadsFail",
        "sum by (job, instance, code)"
        f' (increase(lodestone_fetch_failures_total{{code=~"{UNREAD}"}}[15m]))',
        "> 10", "0m", "warning",
        "The service {{ $labels.instance }} could not send {{ $value | humanize }} chunks in the "
        "last 15 minutes: {{ $labels.code }}.",
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
