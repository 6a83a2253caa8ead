# SPDX-License-Identifier: Apache-2.0
"""The table at the end of the demo, and how to read it."""

import os
import sys

HEADS = [
    ("", ["job"]),
    ("seconds", ["plain", "lodestone"]),
    ("shuffles", ["all", "merged"]),
    ("blocks at the map side", ["pushed", "MB", "left"]),
    ("read by reducers", ["merged", "in chunks", "MB", "originals"]),
    ("", ["fallbacks by reason"]),
]
LEFT_REASONS = ("BLOCK_", "PUSH_")


def page(version: str, plain: dict, lodestone: dict) -> str:
    """Title, table and reading for one Spark version."""
    rows = [row(name, plain[name].seconds, done) for name, done in lodestone.items()]
    total = sum_of(lodestone.values())
    seconds = [sum(done.seconds for done in side.values()) for side in (plain, lodestone)]
    rows.append(cells("total", *seconds, total))
    return "\n".join([bold(f"Spark {version}"), *render(rows), "", *reading(*seconds, total)])


def row(name: str, plain_seconds: float, done) -> list[str]:
    return cells(name.upper(), plain_seconds, done.seconds, done.counts)


def cells(name: str, plain_seconds: float, seconds: float, counts: dict) -> list[str]:
    reasons = counts.get("reasons", {})
    return [
        name,
        f"{plain_seconds:.1f}",
        f"{seconds:.1f}",
        number(counts.get("shuffles", 0)),
        number(counts.get("merged", 0)),
        number(counts.get("blocksPushed", 0)),
        megabytes(counts.get("bytesPushed", 0)),
        number(left_blocks(reasons)),
        number(counts.get("mergedBlocksRead", 0)),
        number(counts.get("chunksRead", 0)),
        megabytes(counts.get("chunkBytes", 0)),
        number(counts.get("originalsRead", 0)),
        ", ".join(f"{code} {number(n)}" for code, n in sorted(reasons.items())) or "-",
    ]


def left_blocks(reasons: dict) -> int:
    """Blocks that map tasks did not get pushed."""
    return sum(n for code, n in reasons.items() if code.startswith(LEFT_REASONS))


def sum_of(all_done) -> dict:
    total: dict = {"reasons": {}}
    for done in all_done:
        for key, value in done.counts.items():
            if key != "reasons":
                total[key] = total.get(key, 0) + value
        for code, n in done.counts.get("reasons", {}).items():
            total["reasons"][code] = total["reasons"].get(code, 0) + n
    return total


def render(rows: list[list[str]]) -> list[str]:
    """Two lines of heads, a rule, the rows, a rule above the last one. Groups stand apart."""
    heads = [head for _, group in HEADS for head in group]
    widths = [max(len(line[i]) for line in [heads, *rows]) for i in range(len(heads))]
    spans, at = [], 0
    for title, group in HEADS:
        inner = widths[at : at + len(group)]
        lacking = len(title) - (sum(inner) + 2 * (len(inner) - 1))
        if lacking > 0:
            widths[at] += lacking
        spans.append((title, at, at + len(group)))
        at += len(group)
    width_of = [sum(widths[a:b]) + 2 * (b - a - 1) for _, a, b in spans]
    titles = "   ".join(t.center(w) for (t, _, _), w in zip(spans, width_of, strict=True))
    rule = "   ".join("-" * width for width in width_of)
    lines = [joined(line, widths, spans) for line in [heads, *rows]]
    return [titles.rstrip(), lines[0], rule, *lines[1:-1], rule, lines[-1]]


def joined(line: list[str], widths: list[int], spans: list[tuple]) -> str:
    """Words to the left, numbers to the right."""
    last = len(line) - 1
    padded = [
        text.ljust(width) if i in (0, last) else text.rjust(width)
        for i, (text, width) in enumerate(zip(line, widths, strict=True))
    ]
    return "   ".join("  ".join(padded[a:b]) for _, a, b in spans).rstrip()


def reading(plain_seconds: float, seconds: float, total: dict) -> list[str]:
    """In plain words; what one run cannot show is not claimed."""
    merged, chunks = total.get("mergedBlocksRead", 0), total.get("chunksRead", 0)
    originals = total.get("originalsRead", 0)
    share = 100 * merged / (merged + originals) if merged else 0
    fewer = f", {merged / chunks:.0f} blocks in each" if chunks else ""
    return [
        f"Of {number(merged + originals)} blocks that reducers needed, {share:.0f} % came merged: "
        f"{number(chunks)} sequential reads{fewer}.",
        f"Lodestone took {seconds / plain_seconds:.2f} x the seconds of plain Spark: one run each, "
        "in turn, so a tenth more or less is noise. It pays where small",
        "reads are dear (busy or remote disks, millions of blocks), not where all blocks are in one "
        "page cache, as here.",
    ]


def number(value: int) -> str:
    return f"{value:,}" if value else "0"


def megabytes(value: int) -> str:
    return f"{value / 1e6:,.1f}"


def bold(text: str) -> str:
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return text if plain else f"\033[1m{text}\033[0m"
