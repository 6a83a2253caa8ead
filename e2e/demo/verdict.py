# SPDX-License-Identifier: Apache-2.0
"""The faults that make the demo fail."""


def faults(comparison: dict) -> list[str]:
    """Returns a sentence for each fault: an answer that differs, or no merged chunk at all."""
    spark = comparison["spark"]
    found = [
        f"Spark {spark}, {job['title']}: {job['difference']}"
        for job in comparison["jobs"]
        if job["difference"]
    ]
    if not any(job["counts"].get("mergedBlocksRead", 0) for job in comparison["jobs"]):
        found.append(f"Spark {spark}: no reader took a merged chunk")
    return found


def difference(plain: list, lodestone: list) -> str:
    """Returns the first row that only one side has; nothing if there is none."""
    if plain == lodestone:
        return ""
    only_plain = [row for row in plain if row not in lodestone]
    only_lodestone = [row for row in lodestone if row not in plain]
    return (
        f"{len(plain)} rows on plain Spark, {len(lodestone)} on Lodestone; "
        f"first only on plain: {only_plain[:1]}, first only on Lodestone: {only_lodestone[:1]}"
    )
