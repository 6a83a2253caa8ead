# SPDX-License-Identifier: Apache-2.0
"""The comparison, as a person reads it."""

import statistics

from .jobs import BY_NAME

MB = 1_000_000
# What is predicted may differ from what is measured by this part.
TOLERANCE = 0.25
COLUMNS = ["", "", "predicted", "measured", "measured / predicted", ""]


def text(made: dict) -> str:
    machine = made["machine"]
    lines = [
        f"{made['date']}: {made['command']}",
        f"{machine['cpus']} x {machine['cpu']}, {machine['memoryGb']} GB, {machine['system']}",
        f"Spark {made['setting']['spark']}, {made['setting']['master']}, one service of 3 GiB; "
        "each application does the job once to warm up, and then once in each of "
        "the rounds that its heading names, all sides in turn.",
        "Predicted: `lodestone plan` from the event log of plain Spark. Measured: medians of the "
        "driver's report, and the most bytes that the service held.",
        "Wall: seconds beside plain Spark's. Good: within 25 % of the likely number, "
        "and for walls in the range, too. In mode remote both sides count segments: "
        "a block may have several.",
    ]
    for name, job in made["jobs"].items():
        lines += [
            "",
            f"{BY_NAME[name].title} ({name}, {rounds_of(job)} rounds, commit {job['commit']})",
            "",
        ]
        lines += table(rows(job))
    found = [row for job in made["jobs"].values() for row in rows(job)]
    good = sum(row[-1] == "good" for row in found)
    outside = sum(row[-1] == "OUTSIDE" for row in found)
    ranged = sum(row[-1] == "in the range" for row in found)
    lines += [
        "",
        f"{good} of {len(found)} numbers are within 25 % of the likely one, and {ranged} more are "
        f"in the range that was predicted; {outside} are outside.",
    ]
    return "\n".join(lines) + "\n"


def rounds_of(job: dict) -> int:
    return len(job["measured"]["plain"]["seconds"])


def rows(job: dict) -> list[list[str]]:
    plan, measured = job["plan"], job["measured"]
    found = []
    for mode, ahead in plan["modes"].items():
        real = measured[mode]
        shuffles = row(mode, "shuffles", (ahead["shuffles"],) * 3, real["shuffles"], "{:,.0f}")
        found.append(shuffles)
        # Modes that merge nothing have no numbers to compare.
        if ahead["shuffles"] or real["shuffles"]:
            found += counts(mode, ahead, real)
        found.append(wall(mode, plan, measured))
    return found


def counts(mode: str, ahead: dict, real: dict) -> list[list[str]]:
    """Compares blocks, chunks and bytes."""
    found = []
    for key in ("blocks", "chunks"):
        name = "segments" if (mode, key) == ("remote", "blocks") else key
        found.append(row(mode, name, (ahead[key],) * 3, real[key], "{:,.0f}"))
    pushed = [ahead["pushed"].get(key, 0) / MB for key in ("low", "likely", "high")]
    for name, bytes_of in (("MB pushed", "pushed"), ("MB held", "peak")):
        found.append(row(mode, name, pushed, real[bytes_of] / MB, "{:,.2f}"))
    return found


def wall(mode: str, plan: dict, measured: dict) -> list[str]:
    """Compares seconds, in parts of plain Spark's."""
    plain = measured["plain"]["seconds"]
    before = statistics.median(plain)
    saved = [plan["modes"][mode]["saved"].get(key, 0) for key in ("high", "likely", "low")]
    ahead = [max(1 - one / plan["tasksAtATime"] / before, 0) for one in saved]
    real = statistics.median(
        now / then for then, now in zip(plain, measured[mode]["seconds"], strict=True)
    )
    return row(mode, f"wall of {before:.2f} s", ahead, real, "{:,.2f}")


def row(mode: str, key: str, ahead, real: float, shape: str) -> list[str]:
    least, likely, most = ahead
    said = shape.format(likely)
    if least != most:
        said += f" ({shape.format(least)} to {shape.format(most)})"
    ratio = f"{real / likely:.2f}" if likely else "-"
    return [mode, key, said, shape.format(real), ratio, verdict(ahead, real, "wall" in key)]


def verdict(ahead, real: float, is_wall: bool) -> str:
    least, likely, most = ahead
    # A range of walls is what a person relies on.
    if is_wall and not least <= real <= most:
        return "OUTSIDE"
    if likely * (1 - TOLERANCE) <= real <= likely * (1 + TOLERANCE):
        return "good"
    return "in the range" if least <= real <= most else "OUTSIDE"


def table(found: list[list[str]]) -> list[str]:
    whole = [COLUMNS, *found]
    widths = [max(len(each[at]) for each in whole) for at in range(len(COLUMNS))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(each, widths, strict=True)).rstrip()
        for each in whole
    ]
