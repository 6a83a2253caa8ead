# SPDX-License-Identifier: Apache-2.0
"""How much Lodestone adds to the logs of driver and executors."""

import re

import pytest

from harness import jvm
from harness.paths import USUAL_LINES
from harness.spark_process import BOTH_EXECUTORS, TWO_EXECUTORS, Job

SHUFFLES = 10
OURS = "org.apache.spark.shuffle.lodestone."
# Driver and executors append to the same file, each line in one write. PySpark's shell drops what
# is below WARN unless a logger has a level of its own.
LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
logger.spark.name = org
logger.spark.level = info
logger.other.name = io
logger.other.level = info
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c %m%n
"""


def lines_of(start_job, folder, name: str, conf: dict, is_stock: bool) -> list[str]:
    """Runs ten shuffles, and returns what driver and executors log from level INFO on."""
    file, settings = folder / f"{name}.log", folder / f"{name}.properties"
    settings.write_text(LOGGING.format(file=file))
    shuffles = [("keyed_rows", {"maps": 4, "partitions": 4})] * SHUFFLES
    job = Job(
        "one_after_another", {"jobs": shuffles}, master=TWO_EXECUTORS, conf=conf, is_stock=is_stock
    )
    for jvms in ("driver", "executor"):
        options = f"{jvm.OPTIONS} -Dlog4j2.configurationFile={settings}"
        job.conf[f"spark.{jvms}.extraJavaOptions"] = options
    outcome = start_job(job).wait()
    assert is_stock or outcome.report["totals"]["mergedBlocksRead"] == SHUFFLES * 16
    return re.findall(r"^(?:INFO|WARN|ERROR) .*", file.read_text(), re.MULTILINE)


def logger(line: str) -> str:
    return line.split(" ", 2)[1]


@pytest.mark.lines(*USUAL_LINES)
def test_the_logs_have_at_most_one_line_more_for_each_shuffle(start_daemon, start_job, tmp_path):
    """Counts lines that exist only with the plugin: those of its own loggers, those of loggers that
    plain Spark does not use in the same job, and Spark's lines about connections to the service.
    The numbers of Spark's other lines vary from run to run."""
    service = start_daemon().host_port
    plain = lines_of(start_job, tmp_path, "plain", dict(BOTH_EXECUTORS), True)
    conf = {**BOTH_EXECUTORS, "spark.lodestone.services": service}
    found = lines_of(start_job, tmp_path, "lodestone", conf, False)
    # The logs have the lines of executors: they alone fetch blocks.
    assert all(any("ShuffleBlockFetcherIterator" in one for one in log) for log in (plain, found))
    known = {logger(one) for one in plain}
    more = [one for one in found if logger(one) not in known or f":{service.split(':')[1]} " in one]
    ours = [one for one in more if OURS in logger(one)]
    assert [one for one in ours if "10 of 10 shuffles merged" in one], ours
    assert len(more) <= SHUFFLES, more
