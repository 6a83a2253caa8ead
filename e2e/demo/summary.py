# SPDX-License-Identifier: Apache-2.0
"""The last lines of the demo: a table for each Spark release, and the gains."""

import os
import sys
import textwrap

from . import gains, numbers

HEADS = [
    ("", ["job"]),
    ("seconds", ["plain", "Lodestone", "ratio"]),
    ("CPU seconds", ["plain", "Lodestone", "ratio"]),
    ("files created", ["plain", "Lodestone"]),
    ("reads", ["plain", "Lodestone"]),
    ("shuffles", ["merged"]),
]
WIDTH = 116
NAME_WIDTH = 15


def of(comparison: dict) -> str:
    """Returns title, table and gains of one Spark release."""
    jobs = comparison["jobs"]
    all_jobs = {
        "title": "all",
        "shuffles": [shuffle for job in jobs for shuffle in job["shuffles"]],
        "plain": gains.totals(jobs, "plain"),
        "lodestone": gains.totals(jobs, "lodestone"),
    }
    table = render([row(job) for job in [*jobs, all_jobs]])
    title = f"Spark {comparison['spark']}: plain Spark, and Lodestone with one key set (mode auto)"
    return "\n".join([bold(title), *table, "", *gained(comparison)])


def row(job: dict) -> list[str]:
    plain, lodestone = job["plain"], job["lodestone"]
    merged = sum(map(gains.is_merged, job["shuffles"]))
    cells = [job["title"]]
    for figure in ("seconds", "cpuSeconds"):
        cells += [numbers.seconds(side[figure]) for side in (plain, lodestone)]
        cells.append(numbers.ratio(gains.ratio(job, figure)))
    for figure in ("filesCreated", "reads"):
        cells += [numbers.count(side[figure]) for side in (plain, lodestone)]
    return [*cells, f"{merged} of {len(job['shuffles'])}"]


def gained(comparison: dict) -> list[str]:
    """Lists the changes over all jobs, their reasons, and the jobs that did not change."""
    lines = []
    for gain in gains.of(comparison):
        lines += paragraph(gain.name, f"{gain}. {gain.why}")
    for name, jobs in (
        ("Faster", gains.faster(comparison)),
        ("Slower", gains.slower(comparison)),
        ("No difference", gains.unchanged(comparison)),
    ):
        lines += paragraph(name, gains.named(jobs) or "none")
    return lines


def paragraph(name: str, text: str) -> list[str]:
    first, *rest = textwrap.wrap(text, WIDTH - NAME_WIDTH)
    return [f"{name:<{NAME_WIDTH}}{first}", *(" " * NAME_WIDTH + line for line in rest)]


def render(rows: list[list[str]]) -> list[str]:
    """Returns two lines of heads, a rule, the rows, and a rule above the last one. Groups have more
    space between them."""
    heads = [head for _, group in HEADS for head in group]
    widths = [max(len(line[i]) for line in [heads, *rows]) for i in range(len(heads))]
    spans, at = [], 0
    for title, group in HEADS:
        spans.append((title, at, at + len(group)))
        lacking = len(title) - width_of(spans[-1], widths)
        widths[at] += max(0, lacking)
        at += len(group)
    titles = "   ".join(span[0].center(width_of(span, widths)) for span in spans)
    rule = "   ".join("-" * width_of(span, widths) for span in spans)
    lines = [joined(line, widths, spans) for line in [heads, *rows]]
    return [titles.rstrip(), lines[0], rule, *lines[1:-1], rule, lines[-1]]


def width_of(span: tuple, widths: list[int]) -> int:
    _, begin, end = span
    return sum(widths[begin:end]) + 2 * (end - begin - 1)


def joined(line: list[str], widths: list[int], spans: list[tuple]) -> str:
    """Aligns words to the left, numbers to the right."""
    padded = [
        text.ljust(width) if i == 0 else text.rjust(width)
        for i, (text, width) in enumerate(zip(line, widths, strict=True))
    ]
    return "   ".join("  ".join(padded[begin:end]) for _, begin, end in spans).rstrip()


def bold(text: str) -> str:
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return text if plain else f"\033[1m{text}\033[0m"
