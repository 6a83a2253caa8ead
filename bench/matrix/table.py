# SPDX-License-Identifier: Apache-2.0
"""The result as text: a table for each job and disk, the verdicts of bars, and failures."""

from statistics import median

from . import bars, workloads
from .summary import Cell, cell, opponent, place, sections, sides_of

# Only hosts of a network have it.
WIRE = "wireMb"
# Heading, figure, and whether its spread and its ratio are shown.
COLUMNS = [
    ("wall s", "seconds", True),
    ("map s", "mapSeconds", True),
    ("reduce s", "reduceSeconds", True),
    ("gap s", "gapSeconds", False),
    ("fetch wait s", "fetchWaitSeconds", False),
    ("shuffle MB", "writtenMb", False),
    ("merged MB", "mergedMb", False),
    ("wire MB", WIRE, False),
    ("CPU s", "cpuSeconds", True),
    ("executors", "executorsCpuSeconds", False),
    ("services", "servicesCpuSeconds", False),
    ("driver", "driverCpuSeconds", False),
    ("others", "othersCpuSeconds", False),
    ("peak MB ex.", "executorsPeakMb", False),
    ("serv.", "servicesPeakMb", False),
]


def page(result: dict) -> str:
    """Returns the whole result as text."""
    runs = result["runs"]
    parts = [heading(result)]
    for disk, job in sections(runs):
        cells = {side: cell(runs, disk, job, side) for side in sides_of(runs)}
        shown = ", ".join(f"{k} {v}" for k, v in result["sizes"][f"{disk} {job}"].items())
        title = f"{workloads.BY_NAME[job].title}, {place(disk)} ({shown})"
        if any(of.ratios for of in cells.values()):
            title += f"; x: to {opponent(runs, disk, job)}"
        parts.append("\n".join([title, "", *render(cells)]))
        details = details_of(runs, disk, job)
        if details:
            parts.append("\n".join(["Each, seconds", "", *details]))
    judged = bars.judged(result)
    if judged:
        parts.append("\n".join(["Bars", "", *judged]))
    return "\n\n".join(parts) + "\n"


def heading(result: dict) -> str:
    machine, setting = result["machine"], result["setting"]
    return "\n".join(
        [
            f"{result['date']}, commit {result['commit']}: {result['command']}",
            f"{machine['cpus']} x {machine['cpu']}, {machine['memoryGb']} GB, {machine['system']}",
            f"Spark {setting['spark']}, {cluster(result)}, "
            f"{result['rounds']} rounds, all sides in turn in each"
            + (", a new application for each run" if "cold" in result["changed"] else "")
            + (f", compressed with {setting['codec']}" if "codec" in result["changed"] else "")
            + (f"; before: commit {setting['before']}" if "before" in setting else ""),
            "Medians; in brackets least to most, and x: the median of the rounds' ratios to the "
            "side that the title of the table names.",
        ]
    )


def cluster(result: dict) -> str:
    setting = result["setting"]
    if {run["disk"] for run in result["runs"]} == {"network"}:
        sizes = f"{setting['cores']} core and {setting['memory_mb']} MB for each executor"
        return f"standalone cluster of {setting['executors']} hosts, {sizes}"
    reads = "network" if setting["network_reads"] else "host-local"
    return f"{setting['master']}, {reads} reads"


def render(cells: dict[str, Cell]) -> list[str]:
    columns = [one for one in COLUMNS if one[1] != WIRE or has_wire(cells)]
    heads = ["", *(name for name, _, _ in columns)]
    rows = [
        [side, *(figure(of, name, in_full) for _, name, in_full in columns)]
        for side, of in cells.items()
        if of.rounds
    ]
    rows.insert(0, heads)
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    lines = ["  ".join(aligned(row, widths)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    for side, of in cells.items():
        lines += [f"{side} FAILED: {failure}" for failure in of.failures]
    return lines


def details_of(runs: list[dict], disk: str, job: str) -> list[str]:
    """Returns medians of the parts that a job has, as the queries of TPC-H; nothing for the
    others."""
    done = [run for run in runs if (run["disk"], run["job"]) == (disk, job) and not run["failure"]]
    names = sorted({name for run in done for name in run["details"]})
    sides = [side for side in sides_of(runs) if any(run["side"] == side for run in done)]
    base = opponent(runs, disk, job)
    return [
        f"{name}  " + "   ".join(detail(done, name, side, base) for side in sides) for name in names
    ]


def detail(done: list[dict], name: str, side: str, base: str) -> str:
    """Returns seconds of one part on one side, and the median of the rounds' ratios."""
    ours, others = (
        {run["round"]: run["details"][name] for run in done if run["side"] == one}
        for one in (side, base)
    )
    ratios = [ours[number] / others[number] for number in ours if others.get(number)]
    ratio = f" x {median(ratios):.2f}" if ratios else ""
    return f"{side} {median(ours.values()):6.2f}{ratio}"


def aligned(row: list[str], widths: list[int]) -> list[str]:
    first, *rest = zip(row, widths, strict=True)
    return [first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]


def has_wire(cells: dict[str, Cell]) -> bool:
    return any(WIRE in of.figures for of in cells.values())


def figure(of: Cell, name: str, in_full: bool) -> str:
    spread = of.figures.get(name)
    if spread is None:
        return "-"
    if not in_full:
        return number(spread.median)
    ratio = f" x {of.ratios[name]:.2f}" if name in of.ratios else ""
    around = f"({number(spread.least)}-{number(spread.most)})"
    return f"{number(spread.median)} {around}{ratio}"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
