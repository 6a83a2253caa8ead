# SPDX-License-Identifier: Apache-2.0
"""The page of the demo: one HTML file without scripts, which needs no other file and no network.

Everything on it comes from the figures, which it has inside as JSON.
"""

import json
from html import escape
from pathlib import Path
from string import Template

from . import charts, decisions, gains, numbers, picture

TEMPLATES = Path(__file__).with_name("templates")
NAMES = {"plain": "plain Spark", "lodestone": "Lodestone"}
# The figures of a job in its table: the key, the name for people, and how it is written.
COLUMNS = [
    ("seconds", "Seconds", numbers.seconds),
    ("cpuSeconds", "CPU seconds", numbers.seconds),
    ("filesCreated", "Files created", numbers.count),
    ("reads", "Reads", numbers.count),
]
KEY = "spark.shuffle.manager=org.apache.spark.shuffle.lodestone.LodestoneShuffleManager"
UNCOUNTED = " Some were created too fast to be counted: there were more."


def of(result: dict) -> str:
    comparisons, machine = result["comparisons"], result["machine"]
    are_exact = all(comparison["filesAreExact"] for comparison in comparisons)
    return filled(
        "page.html",
        style=(TEMPLATES / "page.css").read_text(encoding="utf-8"),
        jobs=len(comparisons[0]["jobs"]),
        releases=" and ".join(comparison["spark"] for comparison in comparisons),
        answers=answers(comparisons),
        key=KEY,
        cards=cards(comparisons),
        small_blocks=small_blocks(comparisons[-1]),
        sections="".join(map(section, comparisons)),
        date=escape(result["date"]),
        cores=machine["cores"],
        system=escape(machine["system"]),
        master=escape(comparisons[-1]["master"]),
        noise=f"{gains.NOISE:.0%}",
        uncounted="" if are_exact else UNCOUNTED,
        json=embedded(result),
    )


def filled(template: str, **values) -> str:
    return Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)


def embedded(result: dict) -> str:
    """Returns JSON for a script element, in which no text may look like the element's end."""
    return json.dumps(result).replace("<", "\\u003c")


def answers(comparisons: list[dict]) -> str:
    different = [
        f"{job['title']} on Spark {comparison['spark']}"
        for comparison in comparisons
        for job in comparison["jobs"]
        if job["difference"]
    ]
    if different:
        return f"<strong>Some answers were different: {escape(', '.join(different))}.</strong>"
    return "Every answer was the same on both."


def cards(comparisons: list[dict]) -> str:
    """Returns a card for each figure, with all releases, and the reason on the newest one."""
    by_release = [gains.of(comparison) for comparison in comparisons]
    shown = []
    for index, newest in enumerate(by_release[-1]):
        rows = "\n".join(
            gain_row(comparison["spark"], each[index])
            for comparison, each in zip(comparisons, by_release, strict=True)
        )
        shown.append(
            f'<li class="card"><h3>{newest.name}</h3>\n<dl>\n{rows}\n</dl>\n'
            f"<p>{escape(newest.why)}</p></li>"
        )
    return "\n".join(shown)


def gain_row(spark: str, gain: gains.Gain) -> str:
    def value(side: str, number: float) -> str:
        return (
            f'<span class="total" data-spark="{spark}" data-figure="{gain.figure}" '
            f'data-side="{side}">{gain.text(number)}</span>{unit} on {NAMES[side]}'
        )

    unit = f" {gain.unit}" if gain.unit else ""
    plain, lodestone = value("plain", gain.plain), value("lodestone", gain.lodestone)
    ratio = f"<strong>{numbers.ratio(gain.ratio)}</strong>"
    return f"<dt>Spark {spark}</dt><dd>{plain}, {lodestone}: {ratio}</dd>"


def small_blocks(comparison: dict) -> str:
    """Returns the picture of the largest shuffle that was merged."""
    merged = [
        (shuffle["mergedBlocksRead"], shuffle, job)
        for job in comparison["jobs"]
        for shuffle in job["shuffles"]
        if gains.is_merged(shuffle)
    ]
    if not merged:
        return "<h2>What happened to small blocks</h2>\n<p>No shuffle was merged here.</p>"
    _, shuffle, job = max(merged, key=lambda one: one[0])
    return filled(
        "small_blocks.html",
        blocks=numbers.count(shuffle["maps"] * shuffle["partitions"]),
        job=escape(job["title"]),
        spark=comparison["spark"],
        pair=picture.pair(shuffle, job["plain"]["reads"], job["lodestone"]["reads"]),
    )


def section(comparison: dict) -> str:
    """Returns the section of one Spark release."""
    spark, jobs = comparison["spark"], comparison["jobs"]
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("plain", "Lodestone", "ratio"))
    sums = {side: gains.totals(jobs, side) for side in NAMES}
    rows = [*jobs, {"name": "all", "title": "All", **sums}]
    return filled(
        "release.html",
        spark=spark,
        seconds=charts.bars(comparison, "seconds", f"Seconds of each job on Spark {spark}", "s"),
        cpu=charts.bars(comparison, "cpuSeconds", f"CPU seconds of each job on Spark {spark}", "s"),
        groups="".join(f'<th scope="colgroup" colspan="3">{name}</th>' for _, name, _ in COLUMNS),
        heads=heads * len(COLUMNS),
        figures="".join(figures_row(spark, job) for job in rows),
        unchanged=unchanged(comparison),
        decisions="".join(map(decision_row, decisions.of(comparison))),
        last_line=escape(comparison["lastLine"]),
    )


def figures_row(spark: str, job: dict) -> str:
    cells = []
    for figure, name, text in COLUMNS:
        for side, side_name in NAMES.items():
            cells.append(
                f'<td role="cell" data-label="{name}, {side_name}" data-spark="{spark}" '
                f'data-job="{job["name"]}" data-figure="{figure}" data-side="{side}">'
                f"{text(job[side][figure])}</td>"
            )
        ratio = numbers.ratio(gains.ratio(job, figure))
        cells.append(f'<td role="cell" data-label="{name}, ratio">{ratio}</td>')
    kind = ' class="sum"' if job["name"] == "all" else ""
    named = escape(job["title"])
    if "purpose" in job:
        named += f'<br><span class="quiet">{escape(job["purpose"])}</span>'
    head = f'<th role="rowheader" scope="row">{named}</th>'
    return f'<tr role="row"{kind}>{head}{"".join(cells)}</tr>\n'


def decision_row(one: decisions.Decision) -> str:
    return (
        f'<tr role="row"><th role="rowheader" scope="row">{escape(one.job)}</th>'
        f'<td role="cell" data-label="Shuffles">{escape(one.blocks)}</td>'
        f'<td role="cell" data-label="Decision">{one.decision}</td>'
        f'<td role="cell" data-label="Why">{escape(one.why)}</td></tr>\n'
    )


def unchanged(comparison: dict) -> str:
    """Lists jobs that differ by less than the noise, that take longer, or that read more often."""
    noise = f"{gains.NOISE:.0%}"
    same, slower = gains.unchanged(comparison), gains.slower(comparison)
    lines = []
    if same:
        lines.append(
            f"No difference in time that one run can show (less than {noise}): {gains.named(same)}."
        )
    if slower:
        lines.append(f"Lodestone took longer: {gains.named(slower)}.")
    if not lines:
        lines.append(f"Every job took at least {noise} less time.")
    more = ", ".join(map(reads_of, gains.with_more_reads(comparison)))
    if more:
        lines.append(f"Lodestone made more reads: {more}.")
    return "\n".join(f"<li>{escape(line)}</li>" for line in lines)


def reads_of(job: dict) -> str:
    plain, lodestone = (numbers.count(job[side]["reads"]) for side in NAMES)
    return f"{job['title']} ({plain} on plain Spark, {lodestone} on Lodestone)"
