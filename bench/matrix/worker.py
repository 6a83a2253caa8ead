# SPDX-License-Identifier: Apache-2.0
"""One side's Spark application. It reads requests on stdin and prints events, a line of JSON each:

{"job": …, "sizes": …, "pause": …}  ->  "ready" when it takes requests
                                    ->  "mapped" (if it is to pause there), and waits for a line
                                    ->  "answered", and waits for a line
                                    ->  "done" when the job's shuffles are removed
"""

import gc
import json
import sys
import time
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from demo.session import difference
from demo.worker import report_of
from tpch import query

from . import inside

CLEAN_TIMEOUT_S = 20
CLEAN_POLL_S = 0.1


class Pause:
    """Pauses between map and reduce stage if the bench asked for it, and measures the pause."""

    def __init__(self, spark: SparkSession, wanted: bool):
        self._spark = spark
        self._wanted = wanted
        self.seconds = 0.0

    def __call__(self, shuffled) -> None:
        """Runs the map stage alone."""
        if self._wanted:
            dependency = shuffled.rdd().dependencies().head()
            self._spark.sparkContext._jsc.sc().submitMapStage(dependency).get()
            began = time.monotonic()
            emit("mapped")
            sys.stdin.readline()
            self.seconds = time.monotonic() - began


def main() -> None:
    specification = json.loads(sys.argv[1])
    spark = session(specification["conf"])
    query.name_tables(spark, specification["tables"])
    local = Path(specification["conf"]["spark.local.dir"])
    meters = spark._jvm.io.lodestone.e2e.StageMeter
    meter = meters.of(spark.sparkContext._jsc, specification["ended"])
    emit("ready")
    for line in sys.stdin:
        run(spark, meter, local, json.loads(line))
    spark.stop()


def session(settings: dict[str, str]) -> SparkSession:
    """Starts the application. `spark-submit` treats a master that is called yarn in its own way, so
    it gets no master."""
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        if key != "spark.master":
            conf.set(key, value)
    gateway = launch_gateway(conf)
    conf.setMaster(settings["spark.master"])
    context = SparkContext(conf=conf, gateway=gateway)
    context.setLogLevel("WARN")
    return SparkSession(context)


def run(spark: SparkSession, meter, local: Path, asked: dict) -> None:
    pause = Pause(spark, asked["pause"])
    meter.take()
    before = report_of(spark)
    began = time.monotonic()
    answer, details = inside.BY_NAME[asked["job"]](spark, pause, **asked["sizes"])
    seconds = time.monotonic() - began - pause.seconds
    emit("answered", seconds=seconds, paused=pause.seconds, answer=answer, details=details)
    sys.stdin.readline()
    stages, report = json.loads(meter.take()), difference(report_of(spark), before)
    emit("done", stages=stages, report=report, clean=put_away(spark, local))


def put_away(spark: SparkSession, local: Path) -> bool:
    """Waits until Spark has removed the job's shuffles, which it does when no object refers to
    them. Returns false if some remain.

    Executors may have no files of them, and services memory that the next job needs.
    """
    deadline = time.monotonic() + CLEAN_TIMEOUT_S
    shuffles = spark._jvm.org.apache.spark.SparkEnv.get().mapOutputTracker().shuffleStatuses()
    while True:
        gc.collect()
        spark._jvm.java.lang.System.gc()
        is_clean = shuffles.size() == 0 and not any(local.rglob("shuffle_*.data"))
        if is_clean or time.monotonic() > deadline:
            return is_clean
        time.sleep(CLEAN_POLL_S)


def emit(event: str, **fields) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


if __name__ == "__main__":
    main()
