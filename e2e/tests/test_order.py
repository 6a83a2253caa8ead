# SPDX-License-Identifier: Apache-2.0
"""A reduce task gets its rows in the order in which plain Spark with one executor gives them,
whichever map ends first."""

import pytest

from harness.spark_process import Job

MAPS, PARTITIONS = 6, 4


@pytest.mark.parametrize("mode", ["merge", "remote"])
def test_rows_come_in_map_order_though_the_first_map_ends_last(
    mode, start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    conf = {"spark.lodestone.mode": mode, "spark.lodestone.services": daemon.host_port}
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "gates": gates.address}
    job = Job("rows_in_order", arguments, conf=conf)
    running = start_job(job)
    gates.open_all(but=("map-0",))
    gates.wait_reached(f"map-{MAPS - 1}")
    running.wait_until(
        lambda: daemon.status()["segments"] >= (MAPS - 1) * PARTITIONS, "the other maps' segments"
    )
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["mergedBlocksRead"] > MAPS * PARTITIONS
