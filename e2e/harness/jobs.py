# SPDX-License-Identifier: Apache-2.0
"""The jobs of the end-to-end tests. Each returns an exact answer that JSON can carry.

`gates` is the address of the test's gates. A task waits at a gate until the test opens it; without
an address it does not wait.
"""

import gc
import hashlib
import itertools
import json
import os
import tempfile
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread, StorageLevel, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql.functions import col, collect_list, first, last

from harness.gates import stand_before
from tpcds import query as tpcds
from tpch import query

# Enough for the reason of the last failure and its stack.
FAILURE_CHARACTERS = 6000
KILLS_OVER = "over\n"


def one_after_another(spark, jobs):
    """Returns the answers of several jobs, each given by its name and arguments."""
    return [globals()[name](spark, **arguments) for name, arguments in jobs]


def word_count(spark, maps=6, partitions=8, rows=20000):
    """Returns exact counts per key, from an RDD shuffle."""
    pairs = spark.sparkContext.parallelize(range(rows), maps).map(lambda n: (n % 499, 1))
    return sorted(pairs.reduceByKey(lambda a, b: a + b, partitions).collect())


def keyed_rows(
    spark, maps=6, partitions=8, rows=12000, value_bytes=200, wide=(), gates=None, passes=1, tasks=0
):
    """Summarizes all rows of a shuffle: per partition their number and an order-independent
    checksum.

    `wide` are maps whose values are ten times as long. Gates: `map-<i>` before map i gives its
    rows, `reduce-<r>` after partition r was read, `between-<n>` on the driver after pass n. With
    `tasks`, each task reads several partitions.
    """

    shuffled = rows_by_key(spark, maps, partitions, rows, value_bytes, wide, gates)
    if tasks:
        shuffled = shuffled.coalesce(tasks)
    return passes_over(shuffled, passes, gates)


def keyed_table(
    spark, maps=6, partitions=8, rows=12000, value_bytes=200, wide=(), gates=None, passes=1
):
    """Does the same with a SQL shuffle, which Lodestone compresses. No codec shrinks the values
    much. Each pass reads the same map outputs."""
    made = keyed(spark, maps, rows, value_bytes, wide, gates, hexadecimal)
    table = spark.createDataFrame(made, "number long, value string")
    return passes_over(table.repartition(partitions, "number").rdd, passes, gates)


def passes_over(shuffled, passes, gates):
    """Summarizes a shuffle so many times."""

    def summarise(index, records):
        summary = summary_of(records)
        stand_before(gates, f"reduce-{index}")
        yield index, *summary

    answers = []
    for turn in range(passes):
        answers.append(sorted(shuffled.mapPartitionsWithIndex(summarise).collect()))
        stand_before(gates, f"between-{turn}")
    return answers


def rows_by_key(spark, maps, partitions, rows, value_bytes=200, wide=(), gates=None):
    """Returns a shuffle of rows with distinct keys. Gates: `map-<i>` before map i gives its
    rows."""
    return keyed(spark, maps, rows, value_bytes, wide, gates).partitionBy(partitions)


def keyed(spark, maps, rows, value_bytes=200, wide=(), gates=None, value=None):
    """Returns the rows before the shuffle."""
    value = value or value_of

    def make(index, numbers):
        stand_before(gates, f"map-{index}")
        length = value_bytes * (10 if index in wide else 1)
        for number in numbers:
            yield number, value(number, length)

    return spark.sparkContext.parallelize(range(rows), maps).mapPartitionsWithIndex(make)


def read_by_others(spark, group_maps, groups, maps=6, partitions=8, rows=12000, gates=None):
    """Runs the map tasks of an RDD and of a query, and reads their shuffles later, that of the
    query twice: block by block and, if Spark's settings allow it, in batches. Returns the rows of
    all reads.

    Gates: as `rows_by_key`; on the driver, `mapped` before and `read-rows`, `read-blocks` and
    `read-batches` after each read.
    """
    shuffled = rows_by_key(spark, maps, partitions, rows, gates=gates)
    answers = [summaries(shuffled)]
    # Each map task has all groups. With adaptive execution this runs the map tasks.
    numbers = spark.range(0, group_maps * groups, 1, group_maps)
    sums = numbers.groupBy((col("id") % groups).alias("k")).agg({"id": "sum"}).rdd
    stand_before(gates, "mapped")
    answers.append(summaries(shuffled))
    stand_before(gates, "read-rows")
    for in_batches, gate in (("false", "read-blocks"), ("true", "read-batches")):
        # So Spark hands its key for queries to the tasks that read.
        spark.sparkContext.setLocalProperty(
            "__fetch_continuous_blocks_in_batch_enabled", in_batches
        )
        answers.append(summary_of(sums.collect()))
        stand_before(gates, gate)
    return answers


def kept_and_shuffled(spark, maps=6, partitions=8, rows=12000, gates=None):
    """Reads a shuffle of rows that are also kept on disk, then the shuffle and the kept rows, and
    then drops both.

    Gates: as `rows_by_key`; on the driver, `between-0` before they are read again, `between-1`
    before and `dropped` after they are dropped.
    """
    kept = keyed(spark, maps, rows, gates=gates).persist(StorageLevel.DISK_ONLY)
    shuffled = kept.partitionBy(partitions)
    answers = [summaries(shuffled)]
    stand_before(gates, "between-0")
    # One task reads the kept rows of all executors.
    answers += [summaries(shuffled), summaries(kept.coalesce(1))]
    stand_before(gates, "between-1")
    kept.unpersist(blocking=True)
    shuffled._jrdd.rdd().cleanShuffleDependencies(True)
    stand_before(gates, "dropped")
    return answers


def pushed_by_spark(spark, maps=6, partitions=8, rows=12000, mergers=(None, None), gates=None):
    """Reads two shuffles, and reads them again. The map tasks push the blocks of each to one of the
    `mergers` with Spark's own push-based shuffle. Gates: as `rows_by_key`, for both shuffles; on
    the driver, `between-0` before the second pass."""
    shuffles = []
    for merger in mergers:
        shuffles.append(rows_by_key(spark, maps, partitions, rows, gates=gates))
        if merger:
            push_to(spark, shuffles[-1], merger)
    answers = [summaries(shuffled) for shuffled in shuffles]
    stand_before(gates, "between-0")
    return answers + [summaries(shuffled) for shuffled in shuffles]


def push_to(spark, shuffled, merger):
    """Names the service to which map tasks push, as YARN's scheduler does."""
    host, port = merger.rsplit(":", 1)
    jvm = spark._jvm
    merger_id = jvm.org.apache.spark.storage.BlockManagerId
    service = merger_id.apply("shuffle-push-merger", host, int(port), jvm.scala.Option.empty())
    # Python's RDD holds the values of Spark's shuffled RDD.
    values = shuffled._jrdd.rdd()
    shuffle = values.dependencies().head().rdd().dependencies().head()
    shuffle.setMergerLocs(jvm.PythonUtils.toSeq([service]))


def rows_in_order(spark, maps=6, partitions=4, rows=12000, gates=None):
    """Returns the keys of each partition, and aggregates of rows, both in the order of arrival.
    Gates: as `rows_by_key`."""
    shuffled = rows_by_key(spark, maps, partitions, rows, gates=gates)
    keys = shuffled.mapPartitionsWithIndex(lambda i, found: [(i, [key for key, _ in found])])
    groups = spark.range(0, rows, 1, maps).groupBy((col("id") % 7).alias("k"))
    lists = groups.agg(first("id"), last("id"), collect_list("id")).sort("k")
    return [sorted(keys.collect()), [list(row) for row in lists.collect()]]


def repeated_after_cancel(spark, maps=6, partitions=8, rows=12000, gates=None):
    """Returns the rows of a shuffle whose first job was cancelled, and those of another one.

    Gates: `map-<i>` before map i of the first gives its rows; on the driver, `cancel` before and
    `cancelled` after the first job is cancelled.
    """
    shuffled = rows_by_key(spark, maps, partitions, rows, gates=gates)
    if gates:
        cancel_at_gate(spark.sparkContext, shuffled, gates)
    return [summaries(shuffled), summaries(rows_by_key(spark, maps, partitions, rows))]


def cancel_at_gate(context, rdd, gates):
    """Begins to compute an RDD, and cancels the job. Gates: `cancel` before, `cancelled` after."""
    cancelled = []

    def compute():
        context.setJobGroup("doomed", "a job that is cancelled", interruptOnCancel=True)
        try:
            rdd.count()
        except Py4JJavaError:
            cancelled.append(True)

    doomed = InheritableThread(target=compute)
    doomed.start()
    stand_before(gates, "cancel")
    context.cancelJobGroup("doomed")
    doomed.join()
    assert cancelled
    stand_before(gates, "cancelled")


def many_tiny_blocks(spark, maps, partitions):
    """Shuffles one record in each of `maps * partitions` blocks."""
    blocks = spark._jvm.io.lodestone.e2e.ManyTinyBlocks
    return json.loads(blocks.run(spark.sparkContext._jsc, maps, partitions))


def sort_files(spark, source, target, partitions, split_bytes):
    """Sorts the records of the Sort Benchmark in `source` into files in `target`."""
    files = spark._jvm.io.lodestone.sort.SortFiles
    return json.loads(files.run(spark.sparkContext._jsc, source, target, split_bytes, partitions))


def exchange_used_twice(spark, rows=60000, maps=6, partitions=16):
    """Joins two aggregates over one exchange, twice: the second time on the same shuffle."""
    spread = spark.range(0, rows, 1, maps).selectExpr("id % 1009 as k", "id as v")
    spread = spread.repartition(partitions, "k")
    sums = spread.groupBy("k").agg({"v": "sum"}).withColumnRenamed("sum(v)", "s")
    tops = spread.groupBy("k").agg({"v": "max"}).withColumnRenamed("max(v)", "top")
    joined = sums.join(tops, "k")
    answers = [sorted(list(row) for row in joined.collect()) for _ in range(2)]
    return [*answers, plan_of(joined)]


def dropped_side(spark, rows=60000, maps=6, gates=None):
    """Joins with a side that turns out to be empty: adaptive execution drops the other one, whose
    map tasks have run.

    Gates: `answered` on the driver when the answer is complete, `forgotten` when no object refers
    to the query any more.
    """
    fact = spark.range(0, rows, 1, maps).selectExpr("id % 1000 as k", "id")
    # No square is 3 modulo 7.
    none = spark.range(0, 100000, 1, 4).selectExpr("id % 1000 as k", "id as v")
    none = none.where("v * v % 7 = 3")
    joined = fact.join(none, "k").selectExpr("id", "v")
    answer = [[list(row) for row in joined.collect()], plan_of(joined)]
    stand_before(gates, "answered")
    del fact, none, joined
    gc.collect()
    stand_before(gates, "forgotten")
    return answer


def skewed_join(spark, rows=120000, maps=12):
    """Joins by a key of which one value has half of the rows. Adaptive execution splits that
    partition by ranges of maps."""
    fact = spark.range(0, rows, 1, maps).selectExpr(
        "if(id % 2 = 0, 7, id % 1000) as k", "id", "sha2(cast(id as string), 256) as filler"
    )
    names = spark.range(0, 1000, 1, 3).selectExpr("id as k", "concat('name-', id) as name")
    answer = fact.join(names, "k").selectExpr(
        "count(*)", "sum(id)", "sum(crc32(filler))", "sum(crc32(name))"
    )
    return [list(answer.collect()[0]), plan_of(answer)]


def local_read(spark, rows=60000, maps=6):
    """Joins with a side that turns out to be small: adaptive execution broadcasts it, and reads the
    other side's map outputs in place."""
    fact = spark.range(0, rows, 1, maps).selectExpr("id % 1000 as k", "id")
    few = spark.range(0, 100000, 1, 4).selectExpr("id as k", "id * 3 as v").where("v % 9973 = 0")
    answer = fact.join(few, "k").selectExpr("count(*)", "sum(id)", "sum(v)")
    return [list(answer.collect()[0]), plan_of(answer)]


def plan_of(frame) -> dict[str, bool]:
    """Returns what adaptive execution did to the plan."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return {
        "skew": "skew=true" in plan,
        "coalesced": "AQEShuffleRead coalesced" in plan,
        "local": "AQEShuffleRead local" in plan,
        "reused": "ReusedExchange" in plan,
        "empty": "LocalTableScan <empty>" in plan or "EmptyRelation" in plan,
    }


def spilled_shuffles(spark, seeds=(1,), at_least=None, rows=700000, maps=2, partitions=4):
    """Shuffles, for each seed, rows that do not fit into memory. Returns for each the number of
    rows, sums and checksum, or the reason of its failure.

    With `at_least`, no further seed follows after that many once a task has failed.
    """
    sizes = {"rows": rows, "maps": maps, "partitions": partitions}
    answers = []
    for seed in seeds:
        answers.append(answer_or_failure(spark, partial(spilled_shuffle, seed=seed, **sizes)))
        if at_least is not None and len(answers) >= at_least and has_failed_tasks(spark):
            break
    return answers


def has_failed_tasks(spark):
    """Returns whether a task of any stage has failed in this application."""
    return any(stage.numFailedTasks for stage in stages_of(spark))


def stages_of(spark):
    """Returns the last attempt of each stage of this application."""
    tracker = spark.sparkContext.statusTracker()
    stages = map(tracker.getStageInfo, itertools.count())
    return itertools.takewhile(lambda stage: stage is not None, stages)


def spilled_shuffle(spark, seed, rows, maps=2, partitions=4):
    """Shuffles rows that do not fit into memory. Returns their number, sums and checksum."""
    made = spark.range(0, rows, 1, maps).selectExpr(
        "id", f"{filler(f'id * {seed}')} as filler", f"id * {seed} as product"
    )
    summed = made.repartition(partitions).selectExpr(
        "count(*)", "sum(id)", "sum(product)", "sum(crc32(filler))"
    )
    return list(summed.collect()[0])


def shuffles_in_a_row(spark, turns=4, gates=None, **sizes):
    """Returns the rows of several shuffles, one after the other. Gates: `turn-<n>` on the driver
    after shuffle n."""
    answers = []
    for turn in range(turns):
        answers += keyed_rows(spark, **sizes)
        stand_before(gates, f"turn-{turn}")
    return answers


def two_attempts_of_a_map(spark, maps=6, partitions=8, rows=12000, gates=None):
    """Summarizes rows as `keyed_rows`. Gates: `map-0-<n>` before attempt n of map 0 gives its
    rows."""

    def make(index, numbers):
        if index == 0:
            stand_before(gates, f"map-0-{TaskContext.get().attemptNumber()}")
        for number in numbers:
            yield number, value_of(number, 200)

    made = spark.sparkContext.parallelize(range(rows), maps).mapPartitionsWithIndex(make)
    shuffled = made.partitionBy(partitions)
    return summaries(shuffled)


def with_a_greedy_attempt(spark, maps=6, partitions=8, rows=12000, megabytes=2000, gates=None):
    """Summarizes rows as `keyed_rows`. With gates, the first attempt of map 0 takes more memory
    than its container may have, and waits at gate `greedy` for its end."""

    def make(index, numbers):
        if gates and index == 0 and TaskContext.get().attemptNumber() == 0:
            taken = b"x" * (megabytes << 20)
            stand_before(gates, "greedy")
            del taken
        for number in numbers:
            yield number, value_of(number, 200)

    made = spark.sparkContext.parallelize(range(rows), maps).mapPartitionsWithIndex(make)
    return summaries(made.partitionBy(partitions))


def reshuffled_at_random(spark, rows=12000, gates=None):
    """Returns each row once, through a shuffle that sends it elsewhere when it is repeated. Gates:
    `reread-<i>` in its reduce task i."""

    def reread(index, records):
        kept = list(records)
        stand_before(gates, f"reread-{index}")
        return iter(kept)

    made = spark.sparkContext.parallelize(range(rows), 6).map(lambda n: (n, value_of(n, 200)))
    # The order in which rows leave the first shuffle decides where the second one sends them.
    scattered = made.partitionBy(6).repartition(8).mapPartitionsWithIndex(reread)
    gathered = scattered.partitionBy(4)
    return summaries(gathered)


def summaries(rows):
    """Returns per partition its index, the number of its rows, and their checksum."""
    return sorted(rows.mapPartitionsWithIndex(lambda i, rs: [(i, *summary_of(rs))]).collect())


def summary_of(records):
    """Returns the number of rows, and a checksum that does not depend on their order."""
    count, total = 0, 0
    for number, value in records:
        count += 1
        record = hashlib.blake2b(f"{number}:{value}".encode(), digest_size=8)
        total = (total + int.from_bytes(record.digest(), "big")) % 2**64
    return count, f"{total:016x}"


def value_of(number: int, length: int) -> str:
    """Returns a value that looks random, so that compression does not shrink the blocks to
    nothing."""
    block = hashlib.sha256(str(number).encode()).hexdigest()
    return (block * (length // len(block) + 1))[:length]


def hexadecimal(number: int, length: int) -> str:
    """Returns a value that repeats nothing."""
    return hashlib.shake_128(str(number).encode()).hexdigest(length // 2)


def filler(number: str) -> str:
    """Returns such a value of some 64 characters as SQL, for a tenth of the cost of SHA-2: jobs
    that spill make it for many rows."""
    return f"concat({', '.join(f'hex(xxhash64({number}, {part}))' for part in range(4))})"


def sql_aggregate(spark, rows=200000, partitions=32):
    """Returns exact sums, from a SQL shuffle."""
    frame = spark.range(0, rows, 1, 6).selectExpr("id % 1009 as k", "id as v")
    grouped = frame.repartition(partitions, "k").groupBy("k").agg({"v": "sum", "*": "count"})
    return sorted([list(row) for row in grouped.collect()])


def shipments(spark, tables, queries, damage=False):
    """Returns the rows of queries of TPC-H. Where Comet runs, it must have planned shuffles of its
    own. With `damage`, each query is answered again from map outputs that were damaged meanwhile:
    one byte in each file."""
    query.name_tables(spark, tables)
    return [shipment(spark, name, damage) for name in queries]


def shipments_in_turns(spark, tables, queries, gates=None):
    """Returns the rows of queries of TPC-H, after it has answered them again and again until gate
    `over` opens: with the same rows each time. Gates: on the driver, `turn-<n>` before turn n."""
    query.name_tables(spark, tables)
    is_over = threading.Event()

    def wait():
        stand_before(gates, "over")
        is_over.set()

    threading.Thread(target=wait, daemon=True).start()
    answer = None
    for turn in itertools.count():
        stand_before(gates, f"turn-{turn}")
        rows = [query.rows_of(spark, name) for name in queries]
        answer = answer or rows
        assert rows == answer, f"turn {turn} has other rows than the first"
        if is_over.is_set():
            return answer


def shipment(spark, name, damage):
    frame = query.frame_of(spark, name)
    rows = query.rows_in(frame)
    if "CometPlugin" in spark.conf.get("spark.plugins", ""):
        assert has_native_shuffle(frame), frame._jdf.queryExecution().toString()
    if damage:
        local = Path(spark.sparkContext.getConf().get("spark.local.dir"))
        files = [file for file in local.rglob("shuffle_*.data") if file.stat().st_size > 0]
        assert files, "no map output is there to be damaged"
        for file in files:
            damage_byte(file)
        assert query.rows_in(frame) == rows
    return rows


def native_shuffles(spark, tables, name):
    """Returns whether Comet plans a shuffle for the query in this session, in another one, and
    after all settings of the session were dropped."""
    planned = []
    for session, statement in [(spark, ""), (spark.newSession(), ""), (spark, "RESET")]:
        if statement:
            session.sql(statement)
        query.name_tables(session, tables)
        planned.append(has_native_shuffle(query.frame_of(session, name)))
    return planned


def has_native_shuffle(frame) -> bool:
    return "CometNativeShuffle" in frame._jdf.queryExecution().executedPlan().toString()


def damage_byte(file: Path) -> None:
    """Changes a byte in the middle."""
    with open(file, "r+b") as opened:
        opened.seek(file.stat().st_size // 2)
        byte = opened.read(1)[0]
        opened.seek(-1, os.SEEK_CUR)
        opened.write(bytes([byte ^ 0xFF]))


def decisions(spark, tables, queries):
    """Returns the rows of queries of TPC-DS."""
    query.name_tables(spark, tables)
    return [tpcds.rows_of(spark, tpcds.prepared(spark, name)) for name in queries]


def sorted_numbers(spark, rows=100000, maps=8, partitions=12):
    """Sorts by sampled ranges. Returns whether rows are in order, and sums over all of them."""
    scattered = spark.sparkContext.parallelize(range(rows), maps)
    ordered = scattered.map(lambda n: (n * 7919 % rows, n)).sortByKey(numPartitions=partitions)

    def summarise(records):
        keys = [key for key, _ in records]
        yield keys == sorted(keys), len(keys), sum(keys), keys[:1], keys[-1:]

    return [list(part) for part in ordered.mapPartitions(summarise).collect()]


def many_shuffles(spark, turns=2, kinds=(), tables=None, queries=(), kills=None):
    """Runs shuffles of these kinds, or of all, one after another; many spill if memory is short.
    Returns the answer of each, or the reason of its failure, and the bytes that tasks have spilled.

    `kills` is a pipe: for each number in a line, a running task is killed; the number selects it.
    """
    killer = spark._jvm.io.lodestone.e2e.TaskKiller.of(spark.sparkContext._jsc)
    if tables:
        query.name_tables(spark, tables)
    jobs = [KINDS[kind] for kind in kinds or KINDS]
    jobs += [partial(query.rows_of, name=name) for name in queries]
    with tasks_killed_by(killer, kills):
        answers = [answer_or_failure(spark, job) for _ in range(turns) for job in jobs]
    return {
        "answers": answers,
        "spilled": killer.spilledBytes(),
        "killed": killer.killed(),
        "killed_in_spill": killer.killedInSpill(),
    }


@contextmanager
def tasks_killed_by(killer, kills):
    """Kills tasks as the lines of the pipe demand."""
    if not kills:
        yield
        return

    def kill_until_over(pipe):
        for line in pipe:
            if line == KILLS_OVER:
                return
            killer.kill(int(line))

    # Open it for both, so that opening does not wait, and the end of a writer is not its end.
    with os.fdopen(os.open(kills, os.O_RDWR), encoding="utf-8") as pipe:
        thread = threading.Thread(target=kill_until_over, args=(pipe,), daemon=True)
        thread.start()
        yield
        with open(kills, "w", encoding="utf-8") as own:
            own.write(KILLS_OVER)
        thread.join()


def answer_or_failure(spark, job):
    """Returns the answer of a job or, if it fails, a string with the reason."""
    try:
        return job(spark)
    except Py4JJavaError as failed:
        return f"failed: {failed.java_exception.toString()[:FAILURE_CHARACTERS]}"
    except PySparkException as failed:
        return f"failed: {str(failed)[:FAILURE_CHARACTERS]}"


def spilled_join(spark, rows=150000, maps=4, partitions=4, seed=7):
    """Joins two sides that are both sorted, and aggregates with a group for each row."""
    wide = filler(f"id * {seed}")
    left = spark.range(0, rows, 1, maps).selectExpr("id as k", f"{wide} as filler")
    right = spark.range(0, rows, 1, maps).selectExpr(f"{rows - 1} - id as k", "id as v")
    joined = left.repartition(partitions, "k").hint("merge").join(right, "k")
    grouped = joined.groupBy("filler").agg({"k": "max", "v": "sum"})
    summed = grouped.selectExpr("count(*)", "sum(`max(k)`)", "sum(`sum(v)` % 1000 * crc32(filler))")
    return list(summed.collect()[0])


def grouped_and_reduced(spark, maps=4, records=30000, keys=40000, partitions=4):
    """Combines, groups and joins RDDs of the JVM: their maps and their readers both spill."""
    sums = spark._jvm.io.lodestone.e2e.GroupAndReduce
    return json.loads(sums.run(spark.sparkContext._jsc, maps, records, keys, partitions))


def sorted_records(spark, maps=4, records=60000, partitions=4, seed=1):
    """Sorts RDDs of the JVM where they are read."""
    sort = spark._jvm.io.lodestone.e2e.RecordSort
    return json.loads(sort.run(spark.sparkContext._jsc, seed, maps, records, partitions))


def skewed_rows(spark):
    """Returns the rows without the plan: if tasks fail, adaptive execution may plan otherwise."""
    return skewed_join(spark)[0]


# With and without combining, sorts, aggregates, joins, Python and the JVM; and the one that mode
# auto merges.
KINDS = {
    "combined": partial(word_count, rows=60000),
    "rows": partial(keyed_rows, maps=12, partitions=16, rows=60000, wide=(3,)),
    "numbers": sorted_numbers,
    "aggregate": partial(sql_aggregate, rows=400000),
    "skew": skewed_rows,
    "spilled": partial(spilled_shuffle, seed=3, rows=250000),
    "join": spilled_join,
    "groups": grouped_and_reduced,
    "records": sorted_records,
    "blocks": partial(many_tiny_blocks, maps=100, partitions=100),
}


def seeded_spills(spark, runs, gates=None):
    """Runs one job after another, each as it was drawn. Returns the answer of each, or the reason
    of its failure, and the bytes that tasks have spilled.

    Gates: on the driver, `run-<name>` before a job and `over-<name>` after it.
    """
    killer = spark._jvm.io.lodestone.e2e.TaskKiller.of(spark.sparkContext._jsc)
    answers = []
    for name, kind, sizes in runs:
        stand_before(gates, f"run-{name}")
        answers.append(answer_or_failure(spark, partial(SPILLING[kind], **sizes)))
        stand_before(gates, f"over-{name}")
    return {"answers": answers, "spilled": killer.spilledBytes()}


SPILLING = {"shuffle": spilled_shuffle, "join": spilled_join, "sort": sorted_records}


def read_in_pieces(spark, maps=12, partitions=2, gates=None):
    """Shuffles rows so that each block is a chunk of its own. Gates: `reading-<r>` after the first
    record of partition r."""
    rows = maps * partitions * 72

    def make(number):
        return number, hashlib.shake_128(str(number).encode()).digest(32768)

    def read(index, records):
        for count, record in enumerate(records):
            if count == 0:
                stand_before(gates, f"reading-{index}")
            yield record

    made = spark.sparkContext.parallelize(range(rows), maps).map(make)
    return summaries(made.partitionBy(partitions).mapPartitionsWithIndex(read))


# Four kilobytes, as long as nothing compresses them.
WIDE = "cast(repeat(lpad(cast(id as string), 8, '0'), 512) as binary)"


def repeated_in_part(spark, fickle=False, maps=6, partitions=4, gates=None):
    """Returns each row once, through a SQL shuffle in which each block is a chunk of its own. A map
    task that is repeated sends its rows where they went before or, if `fickle`, anywhere. Gates:
    `first-<r>` after the first row of partition r, `again-<r>` when the task is repeated."""
    target = "java_method('java.lang.System', 'nanoTime')" if fickle else "cast(id as string)"
    made = spark.range(0, maps * partitions * 640, 1, maps)
    spread = made.selectExpr("id", f"{target} as target", f"{WIDE} as wide")

    def reread(index, rows):
        for count, row in enumerate(rows):
            if count == 0:
                is_first = TaskContext.get().taskAttemptId() < maps + partitions
                stand_before(gates, f"{'first' if is_first else 'again'}-{index}")
            yield row[0], hashlib.sha256(row[2]).hexdigest()

    reread_rows = spread.repartition(partitions, "target").rdd.mapPartitionsWithIndex(reread)
    return summaries(reread_rows.partitionBy(4))


def tour_of_classes(spark):
    """Loads the classes that most jobs load: shuffles of RDDs and of tables, with Python workers; a
    join, aggregates and a sort of files."""
    with tempfile.TemporaryDirectory() as folder:
        kinds = "id as k", "cast(id as decimal(15,2)) as d", "cast(id as string) as s"
        spark.range(0, 1000, 1, 4).selectExpr(*kinds).write.parquet(f"{folder}/numbers")
        spark.read.parquet(f"{folder}/numbers").createOrReplaceTempView("numbers")
        query = spark.sql("""
            select a.s, count(distinct b.k) as n, sum(a.d) as total
            from numbers a join numbers b on a.k = b.k * 3
            where a.d > 5 and exists (select 1 from numbers c where c.k = a.k)
            group by a.s order by total desc
        """)
        return [keyed_rows(spark), len(query.collect())]
