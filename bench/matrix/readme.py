# SPDX-License-Identifier: Apache-2.0
"""`make numbers`: writes the numbers in README.md from `bench/results/ratios.csv`. `--check` writes
nothing, and fails if others are there."""

import argparse
import re
import sys

from harness.paths import ROOT
from harness.screen import say

from . import ratios
from .keeping import RESULTS
from .sides import OPPONENTS

README = ROOT / "README.md"
RATIOS = RESULTS / "ratios.csv"
MODES = {"auto": "auto", "lodestone": "merge", "remote": "remote"}
HEADS = ["job", "ratio to", *MODES.values(), "result file"]
# Job, question, and a description of the job. Results come from the file: the remark on auto, and
# {push}, the ratio of Spark's push-based shuffle.
JOBS = [
    (
        "sort",
        "real-jobs",
        "Sort of 2 GB, blocks of 150 KB, files in the page cache",
    ),
    ("tiny", "real-jobs", "1 GB in blocks of 1 KB, files in the page cache"),
    (
        "throttled sort",
        "throttled",
        "Sort of 48 MB on a disk of 150 reads per second, in the daemon's memory (Spark's own "
        "push-based shuffle: {push})",
    ),
    (
        "tpcds",
        "tpcds",
        "All 103 queries of TPC-DS, scale factor 1",
    ),
]
# The row that says when Lodestone does not help. {job, side} is a ratio.
WHEN_NOT = (
    "| When not | Large blocks in the page cache: with `spark.shuffle.sort.bypassMergeThreshold=1` "
    "plain Spark gains as much time (ratios as in [the table of numbers](#numbers): mode auto "
    "takes x {sort, auto} in a sort, and {sql, auto} in wide SQL: "
    "[real-jobs](bench/results/real-jobs.txt))"
    "<br>Large blocks without compression (x {sort-benchmark, auto} in mode auto, "
    "{sort-benchmark, remote} in remote, {sort-benchmark, lodestone} in merge: "
    "[sort](bench/results/sort-benchmark.txt))"
    "<br>Some applications of half a minute or less, whose JVMs load and compile more classes (in "
    "mode auto x {sort, cold, auto} in a sort and {sql, cold, auto} in SQL, but "
    "{tiny, cold, auto} with small blocks: [cold](bench/results/cold.txt))"
    "<br>Merging on slow disks by services with less memory than the shuffle needs "
    "(x {throttled sql, little} in SQL: [throttled](bench/results/throttled.txt))"
    "<br>RDDs with Java's serializer in the modes auto and merge"
    "<br>Map-side combine, which keeps Spark's writer in the modes auto and merge"
    "<br>Native engines other than Comet 0.12 on Spark 3.5 and Comet 1.2 on Spark 4.1, the only "
    "ones that tests run (Gluten and Auron: [engines](docs/engines.md)) |"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    text = README.read_text()
    wanted = with_numbers(text, ratios.read(RATIOS))
    if parser.parse_args().check:
        if wanted != text:
            raise SystemExit(
                f"{README} has other numbers or words than {__file__} writes: run `make numbers`"
            )
        return 0
    README.write_text(wanted)
    say(f"{README}: the numbers are those of {RATIOS}")
    return 0


def with_numbers(text: str, found: list[ratios.Ratio]) -> str:
    """Returns the text with the table of numbers and the row `When not` from these ratios."""
    lines = with_table(text, table(found)).splitlines()
    rows = [at for at, line in enumerate(lines) if line.startswith("| When not |")]
    if len(rows) != 1:
        raise SystemExit(f"{README} has {len(rows)} rows `When not`, and should have one")
    lines[rows[0]] = when_not(found)
    return "\n".join(lines) + "\n"


def when_not(found: list[ratios.Ratio]) -> str:
    """Returns the row that says when Lodestone does not help."""
    shown = {f"{one.job}, {one.side}": one.ratio for one in found}
    wanted = re.findall(r"{(.*?)}", WHEN_NOT)
    missing = [name for name in wanted if name not in shown]
    if missing:
        raise SystemExit(f"{RATIOS} has no ratio of {missing}")
    return re.sub(r"{(.*?)}", lambda name: shown[name[1]], WHEN_NOT)


def table(found: list[ratios.Ratio]) -> list[str]:
    """Returns the lines of the table."""
    rows = [HEADS, *(row(found, *job) for job in JOBS)]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return [lines[0], "|---" * len(HEADS) + "|", *lines[1:]]


def row(found: list[ratios.Ratio], job: str, question: str, text: str) -> list[str]:
    of_job = {one.side: one for one in found if (one.job, one.result) == (job, question)}
    if "auto" not in of_job:
        raise SystemExit(f"{RATIOS} has no ratio of auto for {job} in {question}.txt")
    shown = {side: one.ratio for side, one in of_job.items()}
    numbers = [shown.get(side, "-") for side in MODES]
    link = f"[{question}](bench/results/{question}.txt)"
    what = text.format(push=shown.get("push", "not measured"))
    if of_job["auto"].remark:
        what += f". Auto {of_job['auto'].remark}"
    base = of_job["auto"].base
    if not {*OPPONENTS} <= {*shown, base}:
        base += " (only this one was run)"
    return [what, base, *numbers, link]


def with_table(text: str, lines: list[str]) -> str:
    """Returns the text with these lines in place of the table that begins with the same columns."""
    old = text.splitlines()
    begin = next((at for at, line in enumerate(old) if line.startswith("| job |")), None)
    if begin is None:
        raise SystemExit(f"{README} has no table that begins with the column `job`")
    end = next((at for at in range(begin, len(old)) if not old[at].startswith("|")), len(old))
    return "\n".join([*old[:begin], *lines, *old[end:]]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
