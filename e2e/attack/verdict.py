# SPDX-License-Identifier: Apache-2.0
"""Whether honest connections noticed too much of an attack."""

from .attacks import Attack
from .scenes import SCENES
from .siege import MEMORY_MIB, RECOVERED_S, SLACK_MIB, Outcome
from .wire import HELD_UP, HONEST_LARGE


def verdict(attack: Attack, outcome: Outcome, allowed_s: float = 0.0) -> str:
    """Returns what is wrong, or nothing. Requests may take `allowed_s` whatever the limits say: a
    machine with other work is slower than the daemon."""
    found = []
    may_fail = all(_may_fail(attack, failure) for failure in outcome.failures)
    if outcome.failures_in_calm or not may_fail:
        found.append("FAILED")
    if outcome.during_s > max(attack.p99_s, allowed_s):
        found.append("SLOW")
    # Twice as long as before: a slow machine is slow before, too.
    if outcome.after_s > max(RECOVERED_S, 2 * outcome.before_s, allowed_s):
        found.append("NOT RECOVERED")
    if outcome.health_s > max(attack.health_s, allowed_s):
        found.append("NO HEALTH")
    if outcome.peak_mib > MEMORY_MIB + SLACK_MIB:
        found.append("MEMORY")
    if not outcome.ended:
        found.append("DID NOT STOP")
    return ", ".join(found)


def _may_fail(attack: Attack, failure: str) -> bool:
    """A partition that is just written to a disk that hangs cannot be read until the disk goes on.
    Small outputs stay in memory, and are not concerned."""
    is_held_up = HELD_UP in failure and HONEST_LARGE in failure
    return is_held_up and attack.scene is SCENES["hanging-disk"]
