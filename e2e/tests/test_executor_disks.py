# SPDX-License-Identifier: Apache-2.0
"""A local directory of the executor is full: a job gives plain Spark's answer, or fails with the
reason."""

import pytest

import harness.small_disk
from harness.paths import USUAL_LINES
from harness.spark_process import Job

# A map of mode remote has one file, and each directory gets every second one: the job continues
# with more shuffles until a task met the full one.
SEEDS = list(range(3, 43, 2))
AT_LEAST = 2
# Two maps, each with some 10 MB.
SIZES = {"rows": 200000, "maps": 2}
NO_SPACE = "No space left on device"
# Some 7 MB, which the rows of a map exceed.
LITTLE_MEMORY = {"spark.memory.fraction": "0.01", "spark.sql.shuffle.partitions": "4"}


@pytest.mark.lines(*USUAL_LINES, seldom=["3.5"])
# In mode auto executors write as in mode merge.
@pytest.mark.parametrize(
    "mode", [pytest.param("auto", marks=pytest.mark.seldom), "merge", "remote"]
)
def test_a_full_local_directory_never_makes_a_wrong_answer(
    start_daemon, start_job, plain_answer, tmp_path, mode
):
    daemon = start_daemon()
    with harness.small_disk.small_disk(tmp_path / "full", megabytes=4) as full:
        conf = LITTLE_MEMORY | {
            "spark.local.dir": f"{full},{tmp_path / 'roomy'}",
            "spark.lodestone.mode": mode,
            "spark.lodestone.services": daemon.host_port,
        }
        sizes = {"at_least": AT_LEAST, **SIZES}
        job = Job("spilled_shuffles", {"seeds": SEEDS, **sizes}, "local[1,40]", conf)
        outcome = start_job(job).wait()
    assert NO_SPACE in outcome.log, "no task met the full directory"
    seeds = SEEDS[: len(outcome.answer)]
    plain = plain_answer(Job("spilled_shuffles", {"seeds": seeds, **SIZES}))
    for seed, answer, expected in zip(seeds, outcome.answer, plain, strict=True):
        failed = isinstance(answer, str)
        assert failed or answer == expected, f"seed {seed}"
        if failed:
            assert NO_SPACE in answer, f"seed {seed}"
