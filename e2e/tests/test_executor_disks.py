# SPDX-License-Identifier: Apache-2.0
"""A local directory of the executor that is full: a job gives plain Spark's answer, or fails and says why."""

import pytest

import harness.small_disk
from harness.spark_process import Job

SEEDS = [3, 5]
# Two maps, each with some 10 MB.
SIZES = {"rows": 200000, "maps": 2}
NO_SPACE = "No space left on device"
# Some 7 MB, which the rows of a map exceed.
LITTLE_MEMORY = {"spark.memory.fraction": "0.01", "spark.sql.shuffle.partitions": "4"}


@pytest.mark.parametrize("mode", ["auto", "merge", "remote"])
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
        job = Job("spilled_shuffles", {"seeds": SEEDS, **SIZES}, "local[1,40]", conf)
        outcome = start_job(job).wait()
    assert NO_SPACE in outcome.log, "no task met the full directory"
    for seed, answer, expected in zip(SEEDS, outcome.answer, plain_answer(job), strict=True):
        failed = isinstance(answer, str)
        assert failed or answer == expected, f"seed {seed}"
        if failed:
            assert NO_SPACE in answer, f"seed {seed}"
