# SPDX-License-Identifier: Apache-2.0
"""All attacks: a hostile client, or a state of the machine, or both."""

from collections.abc import Callable
from dataclasses import dataclass

from . import connections, readers, tenants, uploads
from .scenes import SCENES, Scene


@dataclass(frozen=True)
class Attack:
    """`client` runs in a process of its own. `scene` prepares the disks of the daemon, and does
    something to them or to the daemon while the attack lasts. `p99_s`: 99 of 100 requests of honest
    connections take at most this long meanwhile; `health_s`: so does each answer to /health.
    `least_s`: the attack shows nothing in less time."""

    name: str
    what: str
    client: str | None
    scene: Scene
    p99_s: float = 1.0
    health_s: float = 1.0
    least_s: float = 0.0


def _client(function: Callable, scene: str = "plain", **limits: float) -> Attack:
    name = function.__name__
    what = function.__doc__.strip()
    return Attack(name.replace("_", "-"), what, name, SCENES[scene], **limits)


def _alone(scene: str, **limits: float) -> Attack:
    found = SCENES[scene]
    return Attack(scene, found.what, None, found, **limits)


ALL = [
    _client(uploads.bodies_that_never_come),
    _client(uploads.lists_without_bodies),
    _client(uploads.bodies_that_trickle),
    _client(uploads.bodies_of_nobody),
    _client(uploads.bodies_that_break_off),
    _client(uploads.large_pushes),
    _client(uploads.repeated_batches),
    _client(uploads.damaged_segments),
    _client(tenants.attempts_without_end),
    _client(tenants.shuffles_without_end),
    _client(tenants.applications_without_end),
    _client(readers.layouts_not_read),
    _client(readers.layouts_of_everything),
    _client(readers.chunks_not_read),
    _client(readers.streams_kept_open),
    _client(readers.streams_of_nobody),
    _client(readers.questions_that_wait),
    _client(readers.requests_that_swell),
    _client(readers.reports_not_read),
    _client(readers.greetings_not_read),
    _client(connections.idle_connections),
    _client(connections.half_frames),
    _client(connections.bytes_one_by_one),
    _client(connections.nonsense),
    _client(connections.connections_that_come_and_go),
    # A place there is free after 2 s at the latest.
    _client(connections.admin_half_requests, health_s=4.0, least_s=6.0),
    _client(tenants.huge_registrations),
    _client(tenants.traps_in_directories),
    _client(tenants.drains_from_clients),
    _client(tenants.operators_that_say_nothing),
    _client(readers.readers_of_the_disk, "hanging-disk", p99_s=0.1),
    _client(uploads.twice_what_the_disk_writes, "slow-disk"),
    _alone("hanging-disk", p99_s=0.1),
    _alone("full-disks"),
    _alone("failing-disk"),
    Attack(
        "files-removed",
        SCENES["files-removed"].what,
        uploads.pushes_to_few_files.__name__,
        SCENES["files-removed"],
    ),
    # Nobody is served while the process stands still.
    _alone("frozen-daemon", p99_s=float("inf"), health_s=float("inf")),
]
BY_NAME = {attack.name: attack for attack in ALL}
