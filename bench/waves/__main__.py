# SPDX-License-Identifier: Apache-2.0
"""The experiment of OPS's figures: the same data in more and more waves of map tasks, on plain Spark and in mode remote.

More waves are more, smaller blocks: what plain Spark reads one by one, and what services merge while later waves still run.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.screen import say
from matrix import result
from matrix.command_line import command, draw, results_at
from matrix.summary import cell

# Task slots of the matrix: two executors of one core.
SLOTS = 2
RECORD_BYTES = 100
FIGURES = ["seconds", "mapSeconds", "reduceSeconds", "cpuSeconds"]


def main() -> int:
    asked = arguments()
    told = None
    path = results_at(asked.out, "waves")
    with tempfile.TemporaryDirectory(prefix="lodestone-waves-") as folder:
        for waves in asked.waves:
            of_waves = measured(asked, waves, Path(folder) / str(waves))
            if told is None:
                told = {key: of_waves[key] for key in ("date", "commit", "machine", "setting")}
                told |= {"command": command("waves"), "rounds": asked.rounds, "disk": asked.disk}
                told |= {"bytes": asked.megabytes * 1_000_000, "waves": []}
            told["waves"].append(summed(of_waves, asked, waves))
            result.write(path.with_suffix(".json"), told)
    page = text(told)
    path.with_suffix(".txt").write_text(page)
    say("\n" + page)
    draw("waves", path)
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="waves", description=__doc__)
    numbers = lambda text: [int(number) for number in text.split(",")]  # noqa: E731
    parser.add_argument("--waves", type=numbers, default=[4, 8, 12, 16])
    parser.add_argument("--megabytes", type=int, default=2000, help="of 100-byte records, in all")
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--disk", default="plain", choices=["plain", "throttled"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spark", default="4.1.4", help="the release in .venv-RELEASE")
    parser.add_argument("--out", type=Path, help="results are OUT.json, OUT.txt and OUT.svg")
    return parser.parse_args()


def measured(asked: argparse.Namespace, waves: int, out: Path) -> dict:
    """One run of the matrix, with the sort cut into so many waves."""
    maps = waves * SLOTS
    records = asked.megabytes * 1_000_000 // RECORD_BYTES // maps
    sizes = {"maps": maps, "records": records, "partitions": asked.partitions}
    settings = [word for name, size in sizes.items() for word in ("--set", f"sort.{name}={size}")]
    subprocess.run(
        [
            sys.executable, "-m", "matrix", "--spark", asked.spark, "--sides", "plain,remote",
            "--jobs", "sort", "--disks", asked.disk, "--rounds", str(asked.rounds),
            "--out", str(out), *settings,
        ],
        check=True,
    )  # fmt: skip
    return json.loads(out.with_suffix(".json").read_text())


def summed(told: dict, asked: argparse.Namespace, waves: int) -> dict:
    """Medians, spread and ratios of one number of waves."""
    row = {"waves": waves}
    for side in ("plain", "remote"):
        of = cell(told["runs"], asked.disk, "sort", side)
        row[side] = {
            name: [spread.median, spread.least, spread.most]
            for name, spread in of.figures.items()
            if name in FIGURES
        }
        row[side]["ratios"] = {name: of.ratios[name] for name in FIGURES if name in of.ratios}
    return row


def text(told: dict) -> str:
    lines = [
        f"{told['date']}, commit {told['commit']}: {told['command']}",
        f"{told['bytes'] / 1e6:,.0f} MB, {told['disk']} disk, {told['rounds']} rounds each, in "
        "turn; medians, in brackets least to most, x: the median of the rounds' ratios to plain",
        "",
    ]
    for row in told["waves"]:
        for side in ("plain", "remote"):
            figures = [figure(row[side], name) for name in FIGURES if name in row[side]]
            lines.append(f"{row['waves']:3} waves  {side:7}  " + "   ".join(figures))
    return "\n".join(lines) + "\n"


def figure(of: dict, name: str) -> str:
    median, least, most = of[name]
    ratio = of["ratios"].get(name, 1.0)
    return f"{name} {median:.1f} ({least:.1f}-{most:.1f}) x {ratio:.2f}"


if __name__ == "__main__":
    sys.exit(main())
