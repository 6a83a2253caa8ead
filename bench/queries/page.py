# SPDX-License-Identifier: Apache-2.0
"""The result as one page of text: the sums, then query by query, then the decisions of auto."""

from collections import Counter

from matrix.summary import Cell, cell
from matrix.table import aligned, number
from tpcds import query

from .summary import MUCH, SLOWER, is_slower, opponent, ratios_of_sums

# Heading and figure of the sums of each side.
SUMS = [
    ("seconds", "querySeconds"),
    ("tasks' CPU s", "taskCpuSeconds"),
    ("all CPU s", "cpuSeconds"),
    ("shuffle MB", "writtenMb"),
]


def of(result: dict) -> str:
    queries = sorted({run["job"] for run in result["runs"]}, key=query.in_order)
    base = opponent(result)
    cells = {
        name: {side: cell(result["runs"], "plain", name, side, base) for side in result["sides"]}
        for name in queries
    }
    parts = [
        heading(result, base),
        sums(result, cells, base),
        slower(cells, base),
        failures(result),
    ]
    parts += [each(result, cells), decisions(result, queries)]
    return "\n\n".join(part for part in parts if part) + "\n"


def heading(result: dict, base: str) -> str:
    machine, setting = result["machine"], result["setting"]
    lines = [
        f"{result['date']}, commit {result['commit']}: {result['command']}",
        f"{machine['cpus']} x {machine['cpu']}, {machine['memoryGb']} GB, {machine['system']}",
        f"Spark {setting['spark']}, {setting['master']}; TPC-DS at scale factor {result['scale']}; "
        f"rounds: {result['rounds']}, each query on all sides in turn",
        "Each query without its LIMIT and in a total order, so that it has one answer only, and "
        "that is compared with plain Spark's, row by row (bench/README.md).",
        "Medians of the rounds; x: the median of the rounds' ratios to the better of plain and "
        f"tuned, by the sum of their seconds: {base}.",
    ]
    missing = sorted(
        set(query.names()) - {run["job"] for run in result["runs"]}, key=query.in_order
    )
    left = [f"Not run: {', '.join(missing)}."] if missing else []
    return "\n".join([*lines, *left, *result["notes"]])


def sums(result: dict, cells: dict[str, dict[str, Cell]], base: str) -> str:
    """Returns sums over the queries that all sides have done: a query that one side failed at is in
    no sum."""
    whole = [of_sides for of_sides in cells.values() if all(c.rounds for c in of_sides.values())]
    heads = ["", *(head for head, _ in SUMS), f"x {base}", f"x > {SLOWER}", "failed"]
    ratios = ratios_of_sums(result, base)
    rows = []
    for side in result["sides"]:
        totals = [total(whole, side, figure) for _, figure in SUMS]
        ratio = f"{ratios[side]:.2f}" if side in ratios else "-"
        late = sum(is_slower(of_sides[side]) for of_sides in whole)
        failed = sum(bool(of_sides[side].failures) for of_sides in cells.values())
        rows.append([side, *map(number, totals), ratio, str(late), str(failed)])
    title = f"Sums over {len(whole)} of {len(cells)} queries"
    return "\n".join([title, "", *table(heads, rows)])


def total(of_queries: list[dict[str, Cell]], side: str, figure: str) -> float:
    cells = [of_sides[side] for of_sides in of_queries if side in of_sides]
    return sum(c.figures[figure].median for c in cells)


def slower(cells: dict[str, dict[str, Cell]], base: str) -> str:
    lines = []
    for name, of_sides in cells.items():
        late = [
            f"{side} x {of.ratios['querySeconds']:.2f} "
            f"({seconds(of)} s, {base} {seconds(of_sides[base])} s)"
            for side, of in of_sides.items()
            if is_slower(of)
        ]
        if late:
            lines.append(f"{name:<5} {', '.join(late)}")
    title = f"{MUCH.capitalize()} slower than {base}: {len(lines)} queries"
    return "\n".join([title, "", *lines]) if lines else title


def seconds(of: Cell) -> str:
    return number(of.figures["querySeconds"].median)


def failures(result: dict) -> str:
    failed = [run for run in result["runs"] if run["failure"]]
    lines = [f"{r['job']}, {r['side']}, round {r['round']}: {r['failure']}" for r in failed]
    compared = len(result["runs"]) - len(failed)
    title = f"Failures: {len(failed)} of {len(failed) + compared} runs"
    return "\n".join([title, "", *lines]) if lines else f"{title}. All answers were the same."


def each(result: dict, cells: dict[str, dict[str, Cell]]) -> str:
    """Returns seconds, CPU seconds of tasks, and MB written to shuffles, of each side."""
    rows_of = {run["job"]: run["rows"] for run in result["runs"] if not run["failure"]}
    heads = ["", "rows"]
    for side in result["sides"]:
        heads += [f"{side} s", "x", "CPU s", "MB"]
    rows = []
    for name, of_sides in cells.items():
        row = [name, f"{rows_of.get(name, 0):,}"]
        for of in of_sides.values():
            row += shown(of)
        rows.append(row)
    title = "Each query: rows of its answer; seconds, CPU seconds of tasks, MB shuffled"
    return "\n".join([title, "", *table(heads, rows)])


def shown(of: Cell) -> list[str]:
    if not of.rounds:
        return ["FAILED", "", "", ""]
    ratio = f"{of.ratios['querySeconds']:.2f}" if "querySeconds" in of.ratios else "-"
    rest = [number(of.figures[figure].median) for figure in ("taskCpuSeconds", "writtenMb")]
    return [seconds(of), ratio, *rest]


def decisions(result: dict, queries: list[str]) -> str:
    """Returns the outcomes of each side's shuffles in one round, with reasons, from the driver's
    report."""
    ours = [side for side in result["sides"] if any(reports(result, side).values())]
    rows = []
    for name in queries:
        outcomes = [outcome(reports(result, side).get(name, {})) for side in ours]
        rows.append([name, *outcomes])
    if not ours:
        return ""
    summed = [outcome(added(reports(result, side).values())) for side in ours]
    title = "Outcomes of the shuffles, and reasons of those that were not merged or remote"
    return "\n".join([title, "", *table(["", *ours], [*rows, ["all", *summed]], left=True)])


def reports(result: dict, side: str) -> dict[str, dict]:
    """Returns the reports of the last round of each query."""
    return {run["job"]: run["report"] for run in result["runs"] if run["side"] == side}


def added(all_reports) -> dict:
    whole, reasons = Counter(), Counter()
    for report in all_reports:
        whole.update({k: v for k, v in report.items() if k != "reasons"})
        reasons.update(report.get("reasons", {}))
    return {**whole, "reasons": dict(reasons)}


def outcome(report: dict) -> str:
    """Returns text such as `3 merged, 1 remote, 4 plain: FEW_BLOCKS 4`."""
    kinds = [f"{report[kind]} {kind}" for kind in ("merged", "remote", "plain") if report.get(kind)]
    reasons = [f"{code} {count}" for code, count in sorted(report.get("reasons", {}).items())]
    kinds_text = ", ".join(kinds) or "-"
    return f"{kinds_text}: {', '.join(reasons)}" if reasons else kinds_text


def table(heads: list[str], rows: list[list[str]], left: bool = False) -> list[str]:
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    rule = "  ".join("-" * width for width in widths)
    if left:
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in [heads, *rows]]
    else:
        lines = ["  ".join(aligned(row, widths)).rstrip() for row in [heads, *rows]]
    return [lines[0], rule, *lines[1:]]
