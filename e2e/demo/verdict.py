# SPDX-License-Identifier: Apache-2.0
"""What would make the demo a failure."""


def faults(version: str, plain: dict, lodestone: dict) -> list[str]:
    """A sentence per fault: an answer that differs, or nothing merged at all."""
    found = [
        f"Spark {version}, {name}: {difference(done.answer, lodestone[name].answer)}"
        for name, done in plain.items()
        if difference(done.answer, lodestone[name].answer)
    ]
    if not any(done.counts.get("mergedBlocksRead", 0) for done in lodestone.values()):
        found.append(f"Spark {version}: no reader took a merged chunk")
    return found


def difference(plain: list, lodestone: list) -> str:
    """The first row that only one side has; nothing if there is none."""
    if plain == lodestone:
        return ""
    only_plain = [row for row in plain if row not in lodestone]
    only_lodestone = [row for row in lodestone if row not in plain]
    return (
        f"{len(plain)} rows on plain Spark, {len(lodestone)} on Lodestone; "
        f"first only on plain: {only_plain[:1]}, first only on Lodestone: {only_lodestone[:1]}"
    )
