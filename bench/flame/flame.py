# SPDX-License-Identifier: Apache-2.0
"""Draws stacks as a flame graph: `perf script | python3 bench/flame/flame.py "title" > graph.svg`; also async-profiler's collapsed ones.

Wide is what takes long; what stands on something was called by it. Hover over a box for its name and its share.
"""

import html
import re
import sys
from collections import Counter

WIDTH, ROW, LETTER = 1200, 16, 6.2
LEAST_SHARE = 0.001
FRAME = re.compile(r"\s+[0-9a-f]+ (.+?)(\+0x[0-9a-f]+)? \(.*\)$")
HASH = re.compile(r"::h[0-9a-f]{16}$")


def main() -> None:
    lines = sys.stdin.read().splitlines()
    is_perf = any(line[:1].isspace() for line in lines)
    stacks = perf(lines) if is_perf else collapsed(lines)
    if not stacks:
        sys.exit("No stacks on stdin: give it what `perf script` prints, or collapsed stacks.")
    sys.stdout.write(drawn(stacks, sys.argv[1] if len(sys.argv) > 1 else "flame graph"))


def perf(lines: list[str]) -> Counter:
    """Of `perf script`: a line for the thread, one for each frame from the leaf on, an empty one."""
    stacks, thread, frames = Counter(), "", []
    for line in [*lines, ""]:
        if line[:1].isspace():
            found = FRAME.match(line)
            frames.append(HASH.sub("", found[1]) if found else "?")
        elif line:
            # Only the number is known of a thread that was named while nothing was recorded.
            thread = re.sub(r"^:\d+$", "(a thread)", line.split()[0])
        elif frames:
            stacks[(thread, *reversed(frames))] += 1
            frames = []
    return stacks


def collapsed(lines: list[str]) -> Counter:
    """`frame;frame;frame count`."""
    stacks = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        thread, *frames = stack.split(";")
        # One box for all threads of a kind.
        stacks[(re.sub(r"\d+", "N", thread), *frames)] += int(count)
    return stacks


def drawn(stacks: Counter, title: str) -> str:
    total = sum(stacks.values())
    boxes = list(placed(sorted(stacks.items()), 0, 0, total))
    height = (max(depth for depth, *_ in boxes) + 3) * ROW
    box = f'viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="11"'
    heading = f"{html.escape(title)}: {total:,} samples"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" {box}>\n<text x="4" y="12">{heading}</text>\n']
    for depth, start, count, name in boxes:
        x, width = WIDTH * start / total, WIDTH * count / total
        y = height - (depth + 1) * ROW
        text = html.escape(name)
        shown = html.escape(name[: int(width / LETTER)]) if width > 4 * LETTER else ""
        color = f"hsl({hash_of(name) % 40 + 15},80%,{65 + hash_of(name) % 15}%)"
        out.append(
            f"<g><title>{text}: {100 * count / total:.1f} %</title>"
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}" fill="{color}"/>'
            f'<text x="{x + 2:.1f}" y="{y + 12}">{shown}</text></g>\n'
        )
    return "".join([*out, "</svg>\n"])


def placed(stacks: list, depth: int, start: int, total: int):
    """Depth, place, count and name of each box that can be seen; stacks are in order, so that equal ones are neighbours."""
    groups = {}
    for stack, count in stacks:
        if len(stack) > depth:
            groups.setdefault(stack[depth], []).append((stack, count))
    for name, group in groups.items():
        count = sum(count for _, count in group)
        if count >= LEAST_SHARE * total:
            yield depth, start, count, name
            yield from placed(group, depth + 1, start, total)
        start += count


def hash_of(name: str) -> int:
    return sum((place + 1) * byte for place, byte in enumerate(name.encode()))


if __name__ == "__main__":
    main()
