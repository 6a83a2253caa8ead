# SPDX-License-Identifier: Apache-2.0
"""Jobs that share a driver process are applications of their own. Otherwise tests of directories
would look at the wrong ones."""

import pytest

from harness.paths import NOT_41
from harness.spark_process import ONE_EXECUTOR, Job


@pytest.mark.lines("3.5", "4.1", seldom=NOT_41)
def test_a_job_in_a_driver_that_ran_another_one_has_local_directories_of_its_own(start_job, gates):
    first = start_job(Job("word_count", master=ONE_EXECUTOR))
    first.wait()
    second = start_job(Job("keyed_rows", {"gates": gates.address}, ONE_EXECUTOR))
    assert second.process.pid == first.process.pid
    gates.open_all(but=("reduce-0",))
    gates.wait_reached("reduce-0")
    assert list(second.local_dirs.rglob("shuffle_*.data"))
    gates.open_all()
    second.wait()
