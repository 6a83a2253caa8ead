# SPDX-License-Identifier: Apache-2.0
"""The panels of the dashboard: what each one asks Prometheus, and what a reader learns from it."""

from dataclasses import dataclass, field

# What the dashboard's variables choose.
CHOSEN = 'job=~"$job", instance=~"$instance"'
EACH = "{{instance}}"
DISK = "{{instance}} {{dir}}"
RATE = "$__rate_interval"


@dataclass(frozen=True)
class Panel:
    """`asks`: expressions, each with the name of its lines."""

    title: str
    about: str
    asks: list[tuple[str, str]]
    unit: str
    kind: str = "timeseries"
    options: dict = field(default_factory=dict)


def of(metric: str, also: str = "") -> str:
    return f"{metric}{{{CHOSEN}{also}}}"


def rate(metric: str, by: str = "instance", also: str = "") -> str:
    return f"sum by ({by}) (rate({of(metric, also)}[{RATE}]))"


def quantile(part: float, histogram: str, by: str = "") -> str:
    buckets = rate(f"{histogram}_bucket", by=f"{by}le")
    return f"histogram_quantile({part}, {buckets})"


def latency(histogram: str) -> list[tuple[str, str]]:
    parts = [(0.5, "half of them"), (0.99, "99 of 100"), (0.999, "999 of 1,000")]
    return [(quantile(part, histogram), name) for part, name in parts]


PANELS = [
    Panel(
        "Services", "Services that answer Prometheus, that take new work, and that are drained.",
        [
            (f'sum(up{{{CHOSEN}, job=~".*lodestone.*"}})', "answer"),
            (f"sum({of('lodestone_serving')})", "take new work"),
            (f"sum({of('lodestone_draining')})", "drained"),
        ],
        "none", "stat",
    ),
    Panel(
        "Versions",
        "Different versions are usual while services are updated, and at no other time.",
        [(f"count by (version, commit) ({of('lodestone_build_info')})", "{{version}} {{commit}}")],
        "none", "stat", {"textMode": "value_and_name"},
    ),
    Panel(
        "Applications and shuffles", "What the services keep. Both fall when applications end.",
        [
            (f"sum({of('lodestone_merge_applications')})", "applications, once for each service"),
            (f"sum({of('lodestone_merge_shuffles')})", "shuffles, once for each service"),
        ],
        "none",
    ),
    Panel(
        "Taken from map tasks", "Bytes of pushes.",
        [(rate("lodestone_push_bytes_total"), EACH)], "Bps",
    ),
    Panel(
        "Sent to readers",
        "Bytes of chunks, and of original blocks as an external shuffle service.",
        [(rate("lodestone_fetch_bytes_total"), EACH)], "Bps",
    ),
    Panel(
        "Time of a push",
        "From its first bytes to its answer. The time-out of clients is 5 s by default.",
        latency("lodestone_push_seconds"), "s",
    ),
    Panel(
        "Time of a chunk", "From its request to its last byte in the socket.",
        latency("lodestone_fetch_seconds"), "s",
    ),
    Panel(
        "Memory in use, of each part",
        "Drivers avoid a service with a part above 85 %. If that for the store stays near 94 %, "
        "the disks do not keep up. One application has at most half of that for pushes.",
        [(f"{of('lodestone_memory_part_bytes')} / {of('lodestone_memory_part_limit_bytes')}",
          f"{EACH} {{{{part}}}}")],
        "percentunit",
    ),
    Panel(
        "Written out and read back", "Bytes per data directory: 0 while all data fits into memory.",
        [
            (rate("lodestone_merge_write_bytes_total", "instance, dir"), f"{DISK} written"),
            (rate("lodestone_merge_read_bytes_total", "instance, dir"), f"{DISK} read"),
        ],
        "Bps",
    ),
    Panel(
        "Time of a write to a disk", "99 of 100 writes of at most 1 MiB take less.",
        [(quantile(0.99, "lodestone_merge_write_seconds", "instance, dir, "), DISK)], "s",
    ),
    Panel(
        "Free room of disks", "A disk with less than its reserve takes no data.",
        [
            (f"{of('lodestone_merge_disk_free_bytes')} / {of('lodestone_merge_disk_size_bytes')}",
             DISK),
            (f"{of('lodestone_merge_disk_reserve_bytes')}"
             f" / {of('lodestone_merge_disk_size_bytes')}", f"{DISK} reserve"),
        ],
        "percentunit",
    ),
    Panel(
        "Disks that take no data, and errors", "A disk that is full, or fails or hangs.",
        [
            (of("lodestone_merge_disk_state", ', state!="works"'), f"{DISK} {{{{state}}}}"),
            (rate("lodestone_merge_write_failures_total", "instance, dir"), f"{DISK} writes/s"),
            (rate("lodestone_merge_read_failures_total", "instance, dir"), f"{DISK} reads/s"),
        ],
        "none",
    ),
    Panel(
        "Connections", "Open ones, and new ones that were closed because there were too many.",
        [
            (of("lodestone_connections_open"), EACH),
            (rate("lodestone_connections_refused_total"), f"{EACH} refused/s"),
        ],
        "none",
    ),
    Panel(
        "Refused requests, by status code",
        "Also single segments of pushes, and chunks. OVERLOADED, QUOTA, DISK_FULL and DISK_FAILED "
        "are a lack of the service.",
        [
            (rate("lodestone_requests_refused_total", "code"), "{{code}}"),
            (rate("lodestone_merge_rejected_total", "code"), "{{code}} segments"),
            (rate("lodestone_fetch_failures_total", "code"), "{{code}} chunks"),
        ],
        "ops",
    ),
    Panel(
        "What is not merged, or not sent",
        "Readers take the originals of it, or ask a replica: it costs time, and no data.",
        [
            (rate("lodestone_merge_rejected_total"), f"{EACH} segments rejected"),
            (rate("lodestone_push_refused_total"), f"{EACH} pushes refused"),
            (rate("lodestone_fetch_failures_total"), f"{EACH} chunks failed"),
        ],
        "ops",
    ),
    Panel(
        "Ends", "Shuffles that drivers remove, and applications that end or whose lease runs out.",
        [
            (rate("lodestone_remove_shuffles_total"), f"{EACH} shuffles"),
            (rate("lodestone_remove_applications_total"), f"{EACH} applications"),
            (rate("lodestone_remove_expired_total"), f"{EACH} leases ran out"),
        ],
        "ops",
    ),
]  # fmt: skip
