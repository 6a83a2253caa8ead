# SPDX-License-Identifier: Apache-2.0
"""Bars in SVG, for every width: lengths are percentages, and texts are not scaled."""

from html import escape

from . import numbers

ROW_HEIGHT = 66
NAME_BASELINE = 16
BAR_HEIGHT = 15
# The tops of the two bars of a row.
BAR_TOPS = {"plain": 23, "lodestone": 41}
# The longest bar leaves room for its value.
MAX_WIDTH_PERCENT = 72


def bars(comparison: dict, figure: str, title: str, unit: str) -> str:
    """Draws a figure of all jobs: two bars for each."""
    jobs = comparison["jobs"]
    longest = max(job[side][figure] for job in jobs for side in BAR_TOPS) or 1
    name = f"{figure}-{comparison['spark'].replace('.', '-')}"
    described = "; ".join(
        f"{job['title']}: plain Spark {numbers.seconds(job['plain'][figure])} {unit}, "
        f"Lodestone {numbers.seconds(job['lodestone'][figure])} {unit}"
        for job in jobs
    )
    rows = [
        row(job, figure, unit, longest, top=index * ROW_HEIGHT) for index, job in enumerate(jobs)
    ]
    return (
        f'<svg class="bars" role="img" aria-labelledby="{name}-title {name}-text" '
        f'height="{len(jobs) * ROW_HEIGHT}" data-figure="{figure}" '
        f'data-spark="{comparison["spark"]}">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-text">{escape(described)}</desc>\n' + "".join(rows) + "</svg>"
    )


def row(job: dict, figure: str, unit: str, longest: float, top: int) -> str:
    title = escape(job["title"])
    drawn = [f'<text class="name" x="0" y="{top + NAME_BASELINE}">{title}</text>\n']
    for side, offset in BAR_TOPS.items():
        value = job[side][figure]
        width = MAX_WIDTH_PERCENT * value / longest
        y = top + offset
        drawn.append(
            f'<rect class="bar {side}" x="0" y="{y}" width="{width:.3f}%" height="{BAR_HEIGHT}" '
            f'rx="2" data-job="{job["name"]}" data-side="{side}"/>\n'
            f'<text class="value" x="{width:.3f}%" dx="7" y="{y + BAR_HEIGHT - 3}">'
            f"{numbers.seconds(value)} {unit}</text>\n"
        )
    return "".join(drawn)
