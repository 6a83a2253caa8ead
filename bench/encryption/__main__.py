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
from dataclasses import dataclass
from pathlib import Path

from harness.certificate import certificate
from harness.paths import DAEMON, ROOT, spark_home

BENCH = ROOT / "bench"
SIDES = ("lodestone", "spark")
TICKS = os.sysconf("SC_CLK_TCK")
CRYPTO = {"spark.network.crypto.enabled": "true"}
GCM = {"spark.network.crypto.cipher": "AES/GCM/NoPadding"}


@dataclass(frozen=True)
class Kind:
    """A way to authenticate and to encrypt: the arguments of Spark's client and service."""

    arguments: tuple[str, ...]
    # Flags of the daemon.
    flags: tuple[str, ...]


def kinds(scratch: Path) -> dict[str, Kind]:
    secret = scratch / "secret"
    secret.write_text(secrets.token_hex(32))
    secret.chmod(0o600)
    made = certificate(scratch)
    secured = ("--secrets", str(secret))

    def kind(settings: dict[str, str], *flags: str) -> Kind:
        given = (f"{key}={value}" for key, value in settings.items())
        return Kind((str(secret), *given), (*secured, *flags))

    return {
        "none": Kind((), ()),
        "sasl": kind({}),
        "aes": kind(CRYPTO),
        "gcm": kind(CRYPTO | GCM),
        "tls": kind(made.spark, *made.daemon),
    }


class Server:
    """A service as a process, until the end of the block."""

    def __init__(self, side: str, kind: Kind, directory: Path, jars: str):
        where = ["--listen", "127.0.0.1:0", "--dir", str(directory), "--memory", "256MiB"]
        daemon = [str(DAEMON), "serve", *where, *kind.flags]
        service = str(BENCH / "ess/SparkShuffleService.java")
        sparks = ["java", "-cp", f"{jars}/*", service, *kind.arguments]
        self.command = {"lodestone": daemon, "spark": sparks}[side]

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


def measured(side: str, kind: Kind, passes: int, scratch: Path, jars: str) -> float:
    """Returns CPU seconds of the service for each GB, after a pass that warms it up."""
    with Server(side, kind, scratch / "data", jars) as server:
        read(server, kind, max(1, passes // 4), scratch, jars)
        before = server.cpu_s()
        count = read(server, kind, passes, scratch, jars)
        return (server.cpu_s() - before) / (count / 1e9)


def read(server: Server, kind: Kind, passes: int, scratch: Path, jars: str) -> int:
    where = [str(server.port), str(scratch / "blocks"), str(passes), *kind.arguments]
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
    parser.add_argument("--kinds", type=lambda text: text.split(","), help="some of them")
    options = parser.parse_args()
    jars = str(spark_home(options.spark) / "jars")
    results: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "data").mkdir()
        made = kinds(scratch)
        if options.kinds:
            made = {name: made[name] for name in options.kinds}
        for _ in range(options.rounds):
            for name, kind in made.items():
                for side in SIDES:
                    cost = measured(side, kind, options.passes, scratch, jars)
                    results.setdefault((side, name), []).append(cost)
    print(f"CPU seconds of the service for each GB, Spark {options.spark}'s client")
    print(f"{'':8}{'lodestone':>24}{'spark':>24}{'ratio':>8}")
    for name in made:
        ours, sparks = (results[side, name] for side in SIDES)
        ratio = statistics.median(ours) / statistics.median(sparks)
        print(f"{name:8}{spread(ours):>24}{spread(sparks):>24}{ratio:8.2f}")


def spread(costs: list[float]) -> str:
    return f"{statistics.median(costs):.3f} ({min(costs):.3f} to {max(costs):.3f})"


main()
