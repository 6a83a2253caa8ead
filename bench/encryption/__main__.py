# SPDX-License-Identifier: Apache-2.0
"""What authentication and encryption cost a service: CPU seconds of the daemon, and of Spark's own
service, for each GB that Spark's own client reads from them, in each way that Spark has. All sides
in turn, round after round; the page cache has the blocks."""

import argparse
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.paths import DAEMON, ROOT, spark_home

BENCH = ROOT / "bench"
KINDS = ("none", "sasl", "aes", "gcm")
GCM = "AES/GCM/NoPadding"
SIDES = ("lodestone", "spark")
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A service as a process, until the end of the block."""

    def __init__(self, side: str, kind: str, secret: Path, directory: Path, jars: str):
        self.command = {"lodestone": self._daemon, "spark": self._sparks}[side](
            kind, secret, directory, jars
        )

    @staticmethod
    def _daemon(kind, secret, directory, _jars):
        given = [] if kind == "none" else ["--secrets", str(secret)]
        where = ["--listen", "127.0.0.1:0", "--dir", str(directory), "--memory", "256MiB"]
        return [str(DAEMON), "serve", *where, *given]

    @staticmethod
    def _sparks(kind, secret, _directory, jars):
        given = [] if kind == "none" else [str(secret), *([GCM] if kind == "gcm" else [])]
        return ["java", "-cp", f"{jars}/*", str(BENCH / "ess/SparkShuffleService.java"), *given]

    def __enter__(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        quiet = {"stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(self.command, text=True, **pipes, **quiet)
        words = dict(word.split("=", 1) for word in self.process.stdout.readline().split()[2:])
        self.port = int(words["listen"].rsplit(":", 1)[1])
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait(20)

    def cpu_s(self) -> float:
        """Returns the CPU time of the process so far."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / TICKS


def measured(side: str, kind: str, passes: int, secret: Path, scratch: Path, jars: str) -> float:
    """Returns CPU seconds of the service for each GB, after a pass that warms it up."""
    with Server(side, kind, secret, scratch / "data", jars) as server:
        read(server, kind, max(1, passes // 4), secret, scratch, jars)
        before = server.cpu_s()
        count = read(server, kind, passes, secret, scratch, jars)
        return (server.cpu_s() - before) / (count / 1e9)


def read(server: Server, kind: str, passes: int, secret: Path, scratch: Path, jars: str) -> int:
    where = [str(server.port), str(scratch / "blocks"), str(passes), kind, str(secret)]
    command = ["java", "-cp", f"{jars}/*", str(BENCH / "encryption/Reader.java"), *where]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return int(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(prog="encryption", description=__doc__)
    parser.add_argument("--spark", default="4.1.4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=16, help="each reads 256 MiB")
    options = parser.parse_args()
    jars = str(spark_home(options.spark) / "jars")
    results: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "data").mkdir()
        secret = scratch / "secret"
        secret.write_text(secrets.token_hex(32))
        secret.chmod(0o600)
        for _ in range(options.rounds):
            for kind in KINDS:
                for side in SIDES:
                    cost = measured(side, kind, options.passes, secret, scratch, jars)
                    results.setdefault((side, kind), []).append(cost)
    print(f"CPU seconds of the service for each GB, Spark {options.spark}'s client")
    print(f"{'':8}{'lodestone':>24}{'spark':>24}{'ratio':>8}")
    for kind in KINDS:
        ours, sparks = (results[side, kind] for side in SIDES)
        ratio = statistics.median(ours) / statistics.median(sparks)
        print(f"{kind:8}{spread(ours):>24}{spread(sparks):>24}{ratio:8.2f}")


def spread(costs: list[float]) -> str:
    return f"{statistics.median(costs):.3f} ({min(costs):.3f} to {max(costs):.3f})"


main()
