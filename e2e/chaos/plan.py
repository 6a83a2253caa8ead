# SPDX-License-Identifier: Apache-2.0
"""The plan of a round, which its seed decides: the settings of the application, and the acts with
their times."""

import random
from dataclasses import dataclass, field

# The weight of each act in the draw, and its maximum number in a round. In a cluster where
# everything is killed all the time no job ends, with Lodestone or without.
TO_EXECUTORS = {
    "kill an executor": (3, 4),
    "kill a task": (6, 12),
    "fill a local directory": (3, 4),
    "fail a local directory": (3, 4),
    "fail some calls of a local directory": (6, 12),
    "hang a local directory": (2, 3),
}
TO_SERVICES = {
    "kill a service": (2, 3),
    "restart a service in order": (4, 6),
    "freeze a service": (4, 6),
    "fill a disk": (2, 3),
    "hang a disk": (2, 3),
    "damage what is on a disk": (2, 3),
    "drain a service for a while": (2, 3),
}
# Acts after which a disk stays broken until the end of the round.
LASTING = ("fill a local directory for good", "fail a local directory for good")
LONGEST_PAUSE_S = 4.0
SERVICES = 3
MODES = ("auto", "merge", "remote")
MOST_ROWS = "spark.shuffle.spill.numElementsForceSpillThreshold"
# The fraction of an executor's memory (724 MB) that rows may take, and the number of rows after
# which a task always spills.
MEMORY = [
    ("0.02", "2147483647"),
    ("0.02", "20000"),
    ("0.04", "5000"),
    ("0.04", "100000"),
    ("0.3", "5000"),
    ("0.3", "20000"),
]


@dataclass(frozen=True)
class Act:
    """One act: what it does, the pause before it in seconds, and the seed of its random choices."""

    what: str
    after_s: float
    luck: int


@dataclass(frozen=True)
class Plan:
    """One round. If it has no services, the plugin starts a daemon on each host."""

    seed: int
    conf: dict[str, str]
    services: int
    memory: str
    acts: list[Act] = field(repr=False)

    @property
    def mode(self) -> str:
        return self.conf["spark.lodestone.mode"]

    @property
    def is_lasting(self) -> bool:
        """True if a disk stays broken, so that jobs may fail."""
        return any(act.what in LASTING for act in self.acts)


def plan_of(seed: int) -> Plan:
    """Returns the round of a seed."""
    dice = random.Random(seed)
    mode = dice.choice(MODES)
    services = SERVICES if mode == "remote" else dice.choice([SERVICES, SERVICES, 0])
    lasting = dice.choice(LASTING) if dice.random() < 0.25 else None
    conf = {
        "spark.lodestone.mode": mode,
        "spark.lodestone.replicas": dice.choice(["1", "2"]) if mode == "remote" else "1",
        "spark.lodestone.request.timeout": "2s",
        "spark.lodestone.lease.ttl": "10s",
        "spark.lodestone.embedded.idleTimeout": "5s",
        "spark.sql.adaptive.enabled": dice.choice(["true", "false"]),
        **spilling(dice),
        # Each loss costs a run of the stage, in plain Spark as well.
        "spark.stage.maxConsecutiveAttempts": "40",
        # A short fault fails many tasks at once, and Spark tries them again at once. A fault that
        # stays may fail a task every time.
        "spark.task.maxFailures": "20" if lasting else "1000",
    }
    memory = dice.choice(["24MiB", "64MiB", "256MiB"])
    mischief = TO_EXECUTORS | (TO_SERVICES if services else {})
    return Plan(seed, conf, services, memory, acts_of(dice, mischief, lasting))


def spilling(dice: random.Random) -> dict[str, str]:
    """Returns settings that decide how rows are written, and how few of them fit into memory."""
    fraction, most_rows = dice.choice(MEMORY)
    return {
        "spark.io.compression.codec": dice.choice(["lz4", "zstd", "snappy"]),
        "spark.io.encryption.enabled": dice.choice(["true"] + 7 * ["false"]),
        "spark.serializer": "org.apache.spark.serializer."
        + dice.choice(["KryoSerializer", "KryoSerializer", "JavaSerializer"]),
        "spark.memory.fraction": fraction,
        MOST_ROWS: most_rows,
        # Spark removes the files of a shuffle when the driver's garbage collector finds it unused.
        "spark.cleaner.periodicGC.interval": "5s",
    }


def acts_of(dice: random.Random, mischief: dict, lasting: str | None) -> list[Act]:
    left = {what: most for what, (_, most) in mischief.items()}
    acts = []
    while left:
        names = list(left)
        (what,) = dice.choices(names, [mischief[name][0] for name in names])
        acts.append(act_of(dice, what))
        left[what] -= 1
        if left[what] == 0:
            del left[what]
    if lasting:
        # It comes before most jobs of the round are over.
        acts.insert(dice.randrange(6), act_of(dice, lasting))
    return acts


def act_of(dice: random.Random, what: str) -> Act:
    return Act(what, dice.uniform(0.2, LONGEST_PAUSE_S), dice.getrandbits(30))
