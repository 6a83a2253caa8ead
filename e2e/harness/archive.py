# SPDX-License-Identifier: Apache-2.0
"""`python -m harness.archive VERSION`: archives the classes that Spark and the plugin load, so that
later JVMs start in half the time.

A JVM uses an archive only if it would load the same jars in the same order.
"""

import sys

from . import driver, jvm
from .spark_process import Job, SparkProcess

# A JVM writes its archive when it ends: in seconds, or in minutes while other tests use all cores.
WRITE_TIMEOUT_S = 600


def main() -> None:
    version = sys.argv[1]
    archive = jvm.archive_of(version)
    archive.parent.mkdir(exist_ok=True)
    archive.unlink(missing_ok=True)
    unfinished = archive.with_suffix(".unfinished")
    # Driver and executor in one process, which loads the classes of both.
    options = f"{jvm.OPTIONS} -XX:ArchiveClassesAtExit={unfinished}"
    conf = {"spark.driver.extraJavaOptions": options}
    SparkProcess(version, Job("tour_of_classes", {}, "local[2]", conf)).wait()
    driver.stop_idle(WRITE_TIMEOUT_S)
    unfinished.rename(archive)


if __name__ == "__main__":
    main()
