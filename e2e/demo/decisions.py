# SPDX-License-Identifier: Apache-2.0
"""The decisions of mode auto about the shuffles of a job, with their reasons, from the plugin's
report."""

from dataclasses import dataclass

from . import numbers
from .gains import is_merged


@dataclass(frozen=True)
class Decision:
    """Shuffles of one job with the same decision and reason. Blocks: maps x partitions of each."""

    job: str
    blocks: str
    decision: str
    why: str


def of(comparison: dict) -> list[Decision]:
    """Returns decisions in the order of the jobs. Shuffles of a job that have the same reason share
    a row."""
    found = []
    for job in comparison["jobs"]:
        alike: dict[tuple[str, str], list[dict]] = {}
        for shuffle in job["shuffles"]:
            alike.setdefault(reason_of(shuffle), []).append(shuffle)
        for (decision, code), shuffles in alike.items():
            why = why_merged(shuffles[-1]) if decision == "merged" else explained(code, comparison)
            found.append(Decision(job["title"], blocks(shuffles), decision, why))
    return found


def reason_of(shuffle: dict) -> tuple[str, str]:
    """Returns the decision, and the code of its reason."""
    if is_merged(shuffle):
        return "merged", ""
    codes = sorted(shuffle["reasons"])
    return ("not merged", codes[0]) if codes else ("not merged", "")


def blocks(shuffles: list[dict]) -> str:
    """Returns how many shuffles there are, and how many blocks they have."""
    sizes = sorted({one["maps"] * one["partitions"] for one in shuffles})
    if len(shuffles) == 1:
        (one,) = shuffles
        maps, partitions = numbers.count(one["maps"]), numbers.count(one["partitions"])
        return f"{maps} maps x {partitions} partitions = {numbers.count(sizes[0])} blocks"
    span = " to ".join(numbers.count(size) for size in dict.fromkeys((sizes[0], sizes[-1])))
    return f"{len(shuffles)} shuffles of {span} blocks"


def explained(code: str, comparison: dict) -> str:
    if not code:
        return "nothing read it, or its map tasks wrote nothing"
    sentence = comparison["sentences"].get(code, "")
    return f"{code}: {sentence}" if sentence else code


def why_merged(shuffle: dict) -> str:
    """Returns the figures that decided, as the report has them."""
    sample = shuffle.get("sample", {})
    if not sample.get("blocks"):
        return "its blocks are many and small"
    mean = numbers.size(sample["bytes"] / sample["blocks"])
    seen = f"in the first map outputs ({sample['maps']}) a block has {mean} on average"
    if sample["diskReadMicros"] >= 0:
        seen += f", and a small read takes {numbers.count(sample['diskReadMicros'])} us"
    if "leastBlocks" in sample:
        least = numbers.count(sample["leastBlocks"])
        largest = numbers.size(sample["largestMeanBytes"])
        seen += (
            f"; auto merges {least} blocks or more on this disk, "
            f"if they have {largest} at most on average"
        )
    return seen
