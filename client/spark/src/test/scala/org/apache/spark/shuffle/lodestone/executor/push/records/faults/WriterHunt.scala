// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records.faults

import java.nio.file.Path
import java.util.Properties

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark._
import org.apache.spark.internal.config
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.lodestone.LocalSpark
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, MapEncoded}

/**
 * Map tasks whose disks, memory, network and neighbours fail at any point. Each either writes
 * exactly the rows that it was given, in their order, or fails. Never anything else.
 *
 * Cases follow from seeds. `-Dlodestone.writer.seed=N` repeats one of them,
 * `-Dlodestone.writer.first=N` begins with it; `-Dlodestone.writer.cases=N` sets their number for
 * each codec and kind of rows.
 */
private[push] abstract class WriterHunt {
  @TempDir var directory: Path = _

  private val base = Option(System.getProperty("lodestone.writer.seed")).map(_.toLong)
  private val firstSeed = base.getOrElse {
    java.lang.Long.getLong("lodestone.writer.first", System.nanoTime() & 0xffffffL).longValue
  }
  private val cases =
    if (base.isDefined) 1 else Integer.getInteger("lodestone.writer.cases", usualCases).intValue

  /** With this number all cases take less than half a minute on an idle machine. */
  protected def usualCases: Int

  private val codecs = Seq(
    "lz4" -> Seq("spark.io.compression.codec" -> "lz4"),
    "zstd" -> Seq("spark.io.compression.codec" -> "zstd"),
    "lzf" -> Seq("spark.io.compression.codec" -> "lzf"),
    "none" -> Seq("spark.shuffle.compress" -> "false"),
    "snappy" -> Seq("spark.io.compression.codec" -> classOf[CountedCodec].getName),
    "encrypted" -> Seq("spark.io.encryption.enabled" -> "true"))

  /**
   * Runs the cases of each codec and kind. `task` writes and checks one case, and returns its
   * outcome.
   */
  protected def hunt(kinds: SparkConf => Seq[RowKind])(task: WriterTask => Ended): Unit = {
    val all = new Tally
    for (((codec, settings), number) <- codecs.zipWithIndex) withSpark(settings) { spark =>
      val tally = new Tally
      val ofCodec = kinds(spark.conf)
      val first = if (base.isDefined) firstSeed else firstSeed + number * ofCodec.size * cases
      for ((kind, row) <- ofCodec.zipWithIndex; i <- 0 until cases) {
        val seed = if (base.isDefined) firstSeed else first + row * cases + i
        // The output of plain Spark does not depend on the codec.
        val isCompared = number == 0
        val one = new WriterTask(new WriterCase(seed), kind, spark, isCompared)
        val ended = task(one)
        Seq(tally, all).foreach(_.add(ended))
        one.judge(ended)
      }
      println(s"${getClass.getSimpleName}, $codec, seeds from $first: $tally")
    }
    if (base.isEmpty) all.assertMeaning()
  }

  private final class Tally {
    private var written = 0
    private var failed = 0
    private var spills = 0
    private var faults = 0

    def add(ended: Ended): Unit = {
      if (ended.failure.isEmpty) written += 1 else failed += 1
      spills += ended.spills
      faults += ended.faults + (if (ended.mayFail) 1 else 0)
    }

    override def toString: String =
      s"$written tasks wrote their rows, $failed failed, $spills spills, $faults faults"

    /**
     * Otherwise the cases would prove nothing. For all codecs together: about one task of fifteen
     * meets a fault, so that few tasks may meet hardly any by chance.
     */
    def assertMeaning(): Unit = {
      val tasks = written + failed
      assertTrue(written > tasks / 2 && failed > tasks / 50, toString)
      assertTrue(spills > tasks && faults > tasks / 50, toString)
    }
  }

  private def withSpark(settings: Seq[(String, String)])(test: SparkContext => Unit): Unit = {
    val conf = LocalSpark.conf("writer-faults", master = "local[1]")
      .set("spark.local.dir", directory.toString)
      .setAll(settings)
    val spark = new SparkContext(conf)
    try test(spark)
    finally spark.stop()
  }
}

/**
 * The outcome of a map task.
 *
 * @param faults
 *   the faults that occurred, of which each ends a task
 * @param mayFail
 *   true if something else occurred, after which a task may fail or continue
 */
private[push] final case class Ended(
    failure: Option[Throwable],
    faults: Int,
    spills: Int,
    mayFail: Boolean = false)

/** One map task of a hunt: the needs of its writer, and its rows. */
private[push] final class WriterTask(
    val which: WriterCase,
    val kind: RowKind,
    spark: SparkContext,
    isCompared: Boolean) {
  val story = s"$which, ${kind.name}"
  val appId: String = spark.applicationId
  SparkEnv.get.conf
    .set(config.SHUFFLE_SPILL_NUM_ELEMENTS_FORCE_SPILL_THRESHOLD, which.mostRecords)
  private val memory = {
    val little = new SparkConf(false)
      .set("spark.testing.memory", which.memoryBytes.toString)
      .set("spark.testing.reservedMemory", "0")
      .set("spark.memory.offHeap.enabled", which.isOffHeap.toString)
      .set("spark.memory.offHeap.size", which.memoryBytes.toString)
    new TaskMemoryManager(UnifiedMemoryManager(little, 1), 0)
  }
  val context: TaskContext =
    new TaskContextImpl(0, 0, 0, which.seed, 0, 1, memory, new Properties, null)
  val other = new OtherConsumer(memory, which.manners)
  val partitioner = new ByNumber(which.partitions)
  val dependency: ShuffleDependency[Any, Any, Any] = kind.dependency(spark, partitioner)

  /** The rows as the task computes them, with the events in between. */
  def rows: Iterator[Product2[Any, Any]] = which.rows.indices.iterator.map { row =>
    which.before(row, other)
    record(row)
  }

  private def record(row: Int): Product2[Any, Any] =
    kind.record(which.rows(row)._1, which.bytesOf(row))

  /** The error that ended the task. */
  def failureOf(task: => Unit): Option[Throwable] =
    try {
      task
      None
    } catch {
      // Catches everything, because Spark's lack of memory is an error, and compares it with the
      // events.
      case cause: Throwable => Some(cause)
    }

  /** Compares the rows of each partition with the task's and with plain Spark's. */
  def check(read: Int => Iterator[(Any, Any)]): Unit = {
    checkRows(read, story)
    if (isCompared) {
      val sparks = SparksOutput.of(dependency, which.seed, which.rows.indices.iterator.map(record))
      try checkRows(sparks.recordsIn, s"of Spark's own writer, $story")
      finally sparks.remove()
      val written = context.taskMetrics().shuffleWriteMetrics.recordsWritten
      kind.checkCount(sparks.recordsWritten, written, s"records in Spark's metrics, $story")
    }
  }

  private def checkRows(read: Int => Iterator[(Any, Any)], story: String): Unit = {
    val numbers = which.rows.indices.groupBy(which.rows(_)._1)
    for (partition <- 0 until which.partitions) {
      val rows = numbers.getOrElse(partition, Nil).iterator.map(which.bytesOf)
      kind.check(rows, read(partition), s"partition $partition, $story")
    }
  }

  /** Compares the report on a written output with its lengths and with what Spark gets. */
  def checkEncoded(
      report: Option[MapEncoded],
      lengths: Array[Long],
      status: Option[MapStatus]): Unit = {
    assertEquals(kind.format == BlockFormat.EncodedRows, report.isDefined, story)
    for (encoded <- report) {
      assertEquals(lengths.sum, encoded.length, s"reported length, $story")
      // Spark rounds each size up by a tenth at most, or keeps the mean of small ones.
      val sizes = (0 until which.partitions).map(status.get.getSizeForBlock(_)).sum
      val (least, most) = (encoded.size - which.partitions, 1.1 * encoded.size + which.partitions)
      assertTrue(sizes >= least && sizes <= most, s"$sizes instead of ${encoded.size}, $story")
    }
  }

  /** True if this outcome is right. */
  def judge(ended: Ended): Unit = {
    val isClean = ended.faults == 0 && !ended.mayFail
    ended.failure match {
      case Some(cause) if isClean && !cause.isInstanceOf[TaskKilledException] =>
        throw new AssertionError(s"it failed without a fault, $story", cause)
      case Some(_) =>
      case None => assertEquals(0, ended.faults, s"it went on after a fault, $story")
    }
    other.giveBack()
    // Spark loses count of memory that it was granting when a spill fails. The end of the task
    // corrects it.
    val left = memory.cleanUpAllAllocatedMemory()
    if (ended.faults == 0) assertEquals(0L, left, s"memory stays, $story")
    assertEquals(0, CountedCodec.open.getAndSet(0), s"streams of a codec stay open, $story")
  }
}
