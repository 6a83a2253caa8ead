# SPDX-License-Identifier: Apache-2.0
"""The picture of blocks: maps x partitions, read one by one, and the same in merged partitions."""

from html import escape

from . import numbers

WIDTH, HEIGHT = 400, 244
# The numbers of maps and partitions in the drawing. The last one stands for the rest.
MAPS_DRAWN, PARTITIONS_DRAWN = 6, 6
LEFT, TOP = 98, 34
CELL_WIDTH, CELL_HEIGHT, GAP = 26, 24, 8
STEP_X = CELL_WIDTH + 4
STEP_Y = CELL_HEIGHT + GAP
# The partition whose blocks are coloured: the second.
READ = 1
TASK_X, TASK_WIDTH, TASK_HEIGHT = 316, 80, 54


def pair(shuffle: dict, plain_reads: int, chunks: int) -> str:
    """Draws two figures of a shuffle that was merged."""
    maps, partitions = numbers.count(shuffle["maps"]), numbers.count(shuffle["partitions"])
    blocks = numbers.count(shuffle["maps"] * shuffle["partitions"])
    unmerged = figure(
        "unmerged",
        "Without merging: a block is a read",
        f"A grid of {maps} rows, one for the file of each map task, and {partitions} columns, one "
        f"for each partition. A reduce task reads the blocks of one column, and each of them is in "
        f"another file.",
        unmerged_drawing(shuffle),
        f"Each of {maps} map tasks writes a file with one block for each of {partitions} "
        f"partitions: {blocks} blocks. A reduce task needs one block from every file. "
        f"All reduce tasks of the job made "
        f'<strong data-picture="plainReads">{numbers.count(plain_reads)}</strong> reads.',
    )
    merged = figure(
        "merged",
        "With Lodestone: a partition is a read",
        f"{partitions} rows, one for each partition. The blocks of all {maps} map tasks stand side "
        f"by side in it, and a reduce task reads one row from its start to its end.",
        merged_drawing(shuffle),
        f"While the map tasks run, Lodestone's daemon appends the blocks of each partition one "
        f"after another. A reduce task reads them together, in large chunks: "
        f'<strong data-picture="chunks">{numbers.count(chunks)}</strong> reads for '
        f"{numbers.count(shuffle['mergedBlocksRead'])} blocks.",
    )
    return f'<div class="pair">\n{unmerged}\n{merged}\n</div>'


def figure(name: str, title: str, description: str, drawing: str, text: str) -> str:
    return (
        f"<figure>\n<figcaption>{escape(title)}</figcaption>\n"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-labelledby="{name}-title {name}-text">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-text">{escape(description)}</desc>\n{drawing}</svg>\n'
        f"<p>{text}</p>\n</figure>"
    )


def unmerged_drawing(shuffle: dict) -> str:
    """Draws a row for the file of each map task."""
    rows, ways = [], []
    for index in range(MAPS_DRAWN):
        y = TOP + index * STEP_Y
        rows.append(label(f"map {number_of(index, MAPS_DRAWN, shuffle['maps'])}", y))
        rows += [
            cell(column, y, "ours" if column == READ else "other", STEP_X)
            for column in range(PARTITIONS_DRAWN)
        ]
        begin = (LEFT + READ * STEP_X + CELL_WIDTH, y + CELL_HEIGHT / 2)
        ways.append(way(begin, index, MAPS_DRAWN, "way"))
    return (
        heading("one file for each map task, one block for each partition")
        + "".join(rows + ways)
        + task()
        + rest(MAPS_DRAWN)
    )


def merged_drawing(shuffle: dict) -> str:
    """Draws a row for each merged partition; its blocks have no gaps."""
    rows = []
    for index in range(PARTITIONS_DRAWN):
        y = TOP + index * STEP_Y
        name = number_of(index, PARTITIONS_DRAWN, shuffle["partitions"])
        rows.append(label(f"partition {name}", y))
        kind = "ours" if index == READ else "other"
        rows += [cell(column, y, kind, CELL_WIDTH + 1) for column in range(MAPS_DRAWN)]
    y = TOP + READ * STEP_Y + CELL_HEIGHT / 2
    one_way = way((LEFT + MAPS_DRAWN * (CELL_WIDTH + 1) + 2, y), 2, 5, "way thick")
    return (
        heading("one merged partition for each reduce task")
        + "".join(rows)
        + one_way
        + task()
        + rest(PARTITIONS_DRAWN)
    )


def number_of(index: int, drawn: int, total: int) -> int:
    """Returns the number of a drawn row: the last one has the number of the last map or
    partition."""
    return total if index == drawn - 1 else index + 1


def heading(text: str) -> str:
    return f'<text x="0" y="16">{text}</text>\n'


def label(text: str, y: int) -> str:
    return f'<text x="0" y="{y + CELL_HEIGHT - 7}">{text}</text>\n'


def cell(column: int, y: int, kind: str, step: int) -> str:
    return (
        f'<rect class="cell {kind}" x="{LEFT + column * step}" y="{y}" '
        f'width="{CELL_WIDTH}" height="{CELL_HEIGHT}" rx="2"/>\n'
    )


def way(begin: tuple[float, float], index: int, of: int, kind: str) -> str:
    """Draws a line from a block to the reduce task."""
    x, y = begin
    end_y = task_top() + TASK_HEIGHT * (index + 0.5) / of
    return f'<path class="{kind}" d="M{x:.0f} {y:.0f} L{TASK_X} {end_y:.0f}"/>\n'


def task() -> str:
    top, center = task_top(), TASK_X + TASK_WIDTH / 2
    return (
        f'<rect class="task" x="{TASK_X}" y="{top:.0f}" width="{TASK_WIDTH}" '
        f'height="{TASK_HEIGHT}" rx="6"/>\n'
        f'<text text-anchor="middle" x="{center:.0f}" y="{top + 23:.0f}">reduce</text>\n'
        f'<text text-anchor="middle" x="{center:.0f}" y="{top + 41:.0f}">task {READ + 1}</text>\n'
    )


def task_top() -> float:
    return TOP + (MAPS_DRAWN * STEP_Y - GAP - TASK_HEIGHT) / 2


def rest(drawn: int) -> str:
    """Says that more rows and columns exist than are drawn."""
    y = TOP + drawn * STEP_Y + 12
    return f'<text x="0" y="{y}">Drawn: a few of all rows and blocks.</text>\n'
