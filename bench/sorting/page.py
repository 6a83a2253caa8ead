# SPDX-License-Identifier: Apache-2.0
"""The result as a person reads it."""

from statistics import median

from .run import MB

PHASES = ("sample", "map", "gap", "reduce", "sort", "validate", "whole")
# MB per second and core: Sort Benchmark entries and papers, for clusters with networks and disks.
PUBLISHED = (
    ("Typhoon (Tencent), 2012", 2.5),
    ("Spark (Databricks), 100 TB, 2014", 10.8),
    ("Exoshuffle-CloudSort, 2022", 29.0),
    ("Tencent Sort, 2016", 73.0),
)
NAMES = {
    "lodestone": "Lodestone, mode merge",
    "auto": "Lodestone, mode auto",
    "remote": "Lodestone, mode remote",
    "plain": "plain Spark",
    "tuned": "plain Spark, tuned",
}


def of(result: dict) -> str:
    setting, machine = result["setting"], result["machine"]
    lines = [
        f"Spark {setting['spark']}, {setting['master']}, {machine['cpus']} x {machine['cpu']}, "
        f"{machine['memoryGb']} GB, {result['date']}, commit {result['commit']}",
        result["command"],
        "",
    ]
    runs = result["runs"]
    if result["minute"]:
        runs = fitting(runs)
        lines += minute(runs)
    for side in dict.fromkeys(run["side"] for run in runs):
        lines += [*table([run for run in runs if run["side"] == side]), ""]
    return "\n".join([*lines, *published()]) + "\n"


def fitting(tries: list[dict]) -> list[dict]:
    """Returns the largest one that was in time, if any was."""
    in_time = (run for run in tries if run["fits"])
    return sorted(in_time, key=lambda run: run["bytes"])[-1:]


def minute(best: list[dict]) -> list[str]:
    if not best:
        return ["MinuteSort: nothing was sorted and judged within 60 s.", ""]
    return [f"MinuteSort: {best[0]['bytes'] / MB:,.0f} MB sorted and judged within 60 s.", ""]


def table(runs: list[dict]) -> list[str]:
    """Returns the table of one side's runs: medians, least and most."""
    first = runs[0]
    mb = first["bytes"] / MB
    heads = ("phase", "seconds", "least-most", "MB/s", "per core", "per disk")
    lines = [
        f"{NAMES[first['side']]}: {mb:,.0f} MB, {first['records']:,} records, "
        f"{first['maps']} maps x {first['partitions']} partitions, {len(runs)} rounds",
        row(*heads),
    ]
    for phase in PHASES:
        seconds = [run["seconds"][phase] for run in runs]
        middle = median(seconds)
        rates = ["", "", ""]
        if phase in ("map", "reduce", "sort", "whole") and middle > 0:
            rate = mb / middle
            rates = [f"{r:.1f}" for r in (rate, rate / first["cores"], rate / first["disks"])]
        spread = f"{min(seconds):.1f}-{max(seconds):.1f}"
        lines.append(row(phase, f"{middle:.1f}", spread, *rates))
    return lines


def row(phase: str, seconds: str, spread: str, *rates: str) -> str:
    each = "".join(f"{rate:>10}" for rate in rates)
    return f"  {phase:<9} {seconds:>8}  {spread:>12}{each}".rstrip()


def sentence(run: dict) -> str:
    seconds = run["seconds"]
    rate = run["bytes"] / MB / seconds["sort"]
    phases = ", ".join(f"{phase} {seconds[phase]:.1f} s" for phase in ("map", "gap", "reduce"))
    return (
        f"{phases}: sorted in {seconds['sort']:.1f} s, {rate:.1f} MB/s, "
        f"{rate / run['cores']:.1f} a core; judged in {seconds['validate']:.1f} s"
    )


def published() -> list[str]:
    return [
        "Published, MB/s and core:",
        *(f"  {name:<34} {rate:>5.1f}" for name, rate in PUBLISHED),
    ]
