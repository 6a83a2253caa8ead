# SPDX-License-Identifier: Apache-2.0
"""What a seed decides: how a round's application is set up, and what is done to it when."""

import random
from dataclasses import dataclass, field

# How often each is drawn, and how many times at most in a round. A cluster in which everything is killed all the time would
# run no job to its end, Lodestone or not.
MISCHIEF = {
    "kill an executor": (3, 4),
    "kill a service": (2, 3),
    "restart a service in order": (4, 6),
    "freeze a service": (4, 6),
    "fill a disk": (2, 3),
    "hang a disk": (2, 3),
    "damage what is on a disk": (2, 3),
    "drain a service for a while": (2, 3),
}
LONGEST_PAUSE_S = 4.0
SERVICES = 3


@dataclass(frozen=True)
class Act:
    """One thing that is done: after so many seconds, with so much luck of its own."""

    what: str
    after_s: float
    luck: int


@dataclass(frozen=True)
class Plan:
    """One round."""

    seed: int
    conf: dict[str, str]
    memory: str
    acts: list[Act] = field(repr=False)


def plan_of(seed: int) -> Plan:
    """The round of a seed."""
    dice = random.Random(seed)
    conf = {
        "spark.lodestone.mode": "remote",
        "spark.lodestone.replicas": dice.choice(["1", "2"]),
        "spark.lodestone.request.timeout": "2s",
        "spark.lodestone.lease.ttl": "10s",
        "spark.sql.adaptive.enabled": dice.choice(["true", "false"]),
        "spark.io.compression.codec": dice.choice(["lz4", "zstd", "snappy"]),
        "spark.io.encryption.enabled": dice.choice(["true", "false", "false", "false"]),
        "spark.serializer": "org.apache.spark.serializer."
        + dice.choice(["KryoSerializer", "KryoSerializer", "JavaSerializer"]),
        # Each loss costs a run of the stage, in plain Spark as well.
        "spark.stage.maxConsecutiveAttempts": "40",
        "spark.task.maxFailures": "40",
    }
    memory = dice.choice(["24MiB", "64MiB", "256MiB"])
    return Plan(seed, conf, memory, acts_of(dice))


def acts_of(dice: random.Random) -> list[Act]:
    left = {what: most for what, (_, most) in MISCHIEF.items()}
    acts = []
    while left:
        names = list(left)
        (what,) = dice.choices(names, [MISCHIEF[name][0] for name in names])
        acts.append(Act(what, dice.uniform(0.2, LONGEST_PAUSE_S), dice.getrandbits(32)))
        left[what] -= 1
        if left[what] == 0:
            del left[what]
    return acts
