# SPDX-License-Identifier: Apache-2.0
"""The experiment of OPS's figures: the same data in more and more waves of map tasks, on plain
Spark and in mode remote.

More waves give more and smaller blocks. Plain Spark reads them one by one; services merge them
while later waves still run.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.screen import say
from matrix import history, keeping, result
from matrix.command_line import changed, command, draw, listed, results_at
from matrix.questions import MIN_ROUNDS
from matrix.sides import OPPONENTS
from matrix.summary import cell, title_of

# Task slots of the matrix: two executors of one core.
SLOTS = 2
RECORD_BYTES = 100
MB = 1_000_000
WAVES = [4, 8, 12, 16]
SIDES = [*OPPONENTS, "remote"]
FIGURES = ["seconds", "mapSeconds", "reduceSeconds", "cpuSeconds"]
# MB of records and partitions. At 150 reads a second, two gigabytes would take plain Spark hours.
SIZES = {"plain": (2000, 200), "throttled": (200, 100)}


def main() -> int:
    asked = arguments()
    waves_result = None
    path = results_at(asked.out, "waves")
    with tempfile.TemporaryDirectory(prefix="lodestone-waves-") as folder:
        for disk in asked.disks:
            for waves in asked.waves:
                of_matrix = measured(asked, disk, waves, Path(folder) / f"{disk}-{waves}")
                if of_matrix is None:
                    continue
                waves_result = waves_result or begun(of_matrix, asked)
                waves_result["rows"].append(summed(of_matrix, disk, waves))
                result.write(path.with_suffix(".json"), waves_result)
    if waves_result is None:
        return 1
    page = text(waves_result)
    path.with_suffix(".txt").write_text(page)
    say("\n" + page)
    draw("waves", path)
    measured_rows = {(row["disk"], row["waves"]) for row in waves_result["rows"]}
    is_whole = measured_rows == {(disk, waves) for disk in SIZES for waves in WAVES}
    keep(waves_result, page, is_whole and asked.rounds >= MIN_ROUNDS)
    return 0


def keep(waves_result: dict, page: str, is_whole: bool) -> None:
    """Keeps the page if all of it was run, and a line of history for each side."""
    keeper = keeping.Keeper(waves_result)
    if is_whole and not waves_result["changed"]:
        keeper.text("waves", page, [])
    keeper.history(
        [
            history.row(
                waves_result, title_of(row["disk"], f"{row['waves']} waves"), side, of["seconds"]
            )
            for row in waves_result["rows"]
            for side, of in row["sides"].items()
            if "seconds" in of
        ]
    )


def begun(of_matrix: dict, asked: argparse.Namespace) -> dict:
    """Returns a result without rows."""
    shared = {key: of_matrix[key] for key in ("date", "commit", "machine", "setting")}
    mine = {"command": command("waves"), "rounds": asked.rounds, "changed": asked.changed}
    return {**shared, **mine, "rows": []}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="waves", description=__doc__)
    numbers = lambda text: [int(number) for number in text.split(",")]  # noqa: E731
    parser.add_argument("--waves", type=numbers, default=WAVES)
    disks = list(SIZES)
    parser.add_argument("--disks", type=listed(disks), default=disks, help=f"some of {disks}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spark", default="4.1.4", help="the release in .venv-RELEASE")
    parser.add_argument("--out", type=Path, help="results are OUT.json, OUT.txt and OUT.svg")
    asked = parser.parse_args()
    asked.changed = changed(asked, parser, ["spark"])
    return asked


def measured(asked: argparse.Namespace, disk: str, waves: int, out: Path) -> dict | None:
    """Makes one run of the matrix, with the sort cut into this number of waves. Returns None if the
    matrix cannot use the disk here, and printed the reason."""
    megabytes, partitions = SIZES[disk]
    maps = waves * SLOTS
    records = megabytes * MB // RECORD_BYTES // maps
    sizes = {"maps": maps, "records": records, "partitions": partitions}
    settings = [word for name, size in sizes.items() for word in ("--set", f"sort.{name}={size}")]
    subprocess.run(
        [
            sys.executable, "-m", "matrix", "--spark", asked.spark, "--sides", ",".join(SIDES),
            "--jobs", "sort", "--disks", disk, "--rounds", str(asked.rounds),
            "--out", str(out), *settings,
        ],
        check=True,
    )  # fmt: skip
    written = out.with_suffix(".json")
    return json.loads(written.read_text()) if written.exists() else None


def summed(of_matrix: dict, disk: str, waves: int) -> dict:
    """Returns medians, spread and ratios of one number of waves on one disk."""
    row = {"disk": disk, "waves": waves, "sides": {}}
    for side in SIDES:
        of = cell(of_matrix["runs"], disk, "sort", side)
        row["base"] = of.base
        row["sides"][side] = {
            name: [spread.median, spread.least, spread.most]
            for name, spread in of.figures.items()
            if name in FIGURES
        }
        row["sides"][side]["ratios"] = {
            name: of.ratios[name] for name in FIGURES if name in of.ratios
        }
    return row


def text(waves_result: dict) -> str:
    """Returns the result as a person reads it."""
    lines = [
        f"{waves_result['date']}, commit {waves_result['commit']}: {waves_result['command']}",
        f"{waves_result['rounds']} rounds each, all sides in turn; medians, in brackets least to "
        "most, x: the median of the rounds' ratios to the better of plain and tuned",
    ]
    disk = None
    for row in waves_result["rows"]:
        if row["disk"] != disk:
            disk = row["disk"]
            megabytes, partitions = SIZES[disk]
            lines += ["", f"{megabytes:,} MB in {partitions} partitions, {disk} disk", ""]
        for side, of in row["sides"].items():
            figures = [figure(of, name) for name in FIGURES if name in of]
            lines.append(f"{row['waves']:3} waves  {side:7}  " + "   ".join(figures))
    return "\n".join(lines) + "\n"


def figure(of: dict, name: str) -> str:
    median, least, most = of[name]
    ratio = f" x {of['ratios'][name]:.2f}" if name in of["ratios"] else ""
    return f"{name} {median:.1f} ({least:.1f}-{most:.1f}){ratio}"


if __name__ == "__main__":
    sys.exit(main())
