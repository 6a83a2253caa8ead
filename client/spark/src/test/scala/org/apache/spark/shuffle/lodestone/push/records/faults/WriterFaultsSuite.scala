// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.records

import java.io.ByteArrayInputStream
import java.nio.file.Path
import java.util.Properties

import scala.collection.mutable.ArrayBuffer

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark._
import org.apache.spark.internal.config
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.serializer.{KryoSerializer, Serializer}
import org.apache.spark.shuffle.lodestone.push.RecordCounts
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.UnsafeRowSerializer
import org.apache.spark.storage.ShuffleBlockId

/**
 * A map task whose disks, memory and neighbours fail at any point either writes exactly the rows that it
 * was given, in their order, or fails. Never anything else.
 *
 * Cases follow from seeds. `-Dlodestone.writer.seed=N` repeats one of them; `-Dlodestone.writer.cases=N`
 * says how many there are for each codec and serializer.
 */
final class WriterFaultsSuite {
  @TempDir var directory: Path = _

  private val base = Option(System.getProperty("lodestone.writer.seed")).map(_.toLong)
  private val firstSeed = base.getOrElse(System.nanoTime() & 0xffffffL)
  private val cases =
    if (base.isDefined) 1 else Integer.getInteger("lodestone.writer.cases", 150).intValue

  private val codecs = Seq(
    "lz4" -> Seq("spark.io.compression.codec" -> "lz4"),
    "zstd" -> Seq("spark.io.compression.codec" -> "zstd"),
    "none" -> Seq("spark.shuffle.compress" -> "false"),
    "snappy" -> Seq("spark.io.compression.codec" -> "snappy"))

  @Test def `a map task whose disks and memory fail writes all of its rows or fails`(): Unit =
    for ((name, settings) <- codecs) withSpark(settings) { spark =>
      val tally = new Tally
      for (kind <- Seq(RowsOfSql, ObjectsByKryo(spark.conf)); i <- 0 until cases) {
        val seed = if (base.isDefined) firstSeed else firstSeed + i
        run(new WriterCase(seed), kind, spark, tally)
      }
      println(s"$name, seeds from $firstSeed: $tally")
      if (base.isEmpty) tally.assertMeaning()
    }

  private final class Tally {
    var written = 0
    var failed = 0
    var spills = 0
    var faults = 0

    override def toString: String =
      s"$written tasks wrote their rows, $failed failed, $spills spills, $faults faults"

    /** Otherwise the cases would say nothing. */
    def assertMeaning(): Unit = {
      assertTrue(written > cases / 4 && failed > cases / 20, toString)
      assertTrue(spills > cases / 2 && faults > cases / 20, toString)
    }
  }

  private def run(
      which: WriterCase,
      kind: RowKind,
      spark: SparkContext,
      tally: Tally): Unit = {
    val story = s"$which, ${kind.getClass.getSimpleName}"
    val little = new SparkConf(false)
      .set("spark.testing.memory", which.memoryBytes.toString)
      .set("spark.testing.reservedMemory", "0")
    val memory = new TaskMemoryManager(UnifiedMemoryManager(little, 1), 0)
    SparkEnv.get.conf
      .set(config.SHUFFLE_SPILL_NUM_ELEMENTS_FORCE_SPILL_THRESHOLD, which.mostRecords)
    val context: TaskContext =
      new TaskContextImpl(0, 0, 0, which.seed, 0, 1, memory, new Properties, null)
    val other = new OtherConsumer(memory, which.manners)
    val spills = new FaultySpills(which.faultOf)
    val output = new MemoryOutput(which.outputBytes, which.failsToCommit)
    val partitioner = new ByNumber(which.partitions)
    val dependency = new ShuffleDependency[Any, Any, Any](
      spark.parallelize(Seq.empty[(Any, Any)], 1),
      partitioner,
      kind.serializer)
    val writer = new SerializedMapWriter[Any, Any](
      dependency,
      which.seed,
      context,
      context.taskMetrics().shuffleWriteMetrics,
      output,
      spills,
      RecordCounts(partitioner))
    val failure = failureOf {
      writer.write(which.rows.indices.iterator.map { row =>
        which.before(row, other)
        kind.record(which.rows(row)._1, which.bytesOf(row))
      })
    }
    val hit = spills.hit + output.hit + other.hit
    tally.spills += spills.count
    tally.faults += hit
    failure match {
      case Some(cause) =>
        tally.failed += 1
        if (hit == 0 && !which.isKilled) {
          throw new AssertionError(s"it failed without a fault, $story", cause)
        }
        writer.stop(success = false)
      case None =>
        tally.written += 1
        assertEquals(0, hit, s"it went on after a fault, $story")
        assertTrue(output.isCommitted, story)
        checkRows(which, kind, dependency.shuffleId, output, story)
    }
    assertEquals(0, spills.left, s"spills stay, $story")
    other.giveBack()
    // Spark loses count of what it was just granting when a consumer cannot spill; the task's end tidies up.
    val left = memory.cleanUpAllAllocatedMemory()
    if (hit == 0) assertEquals(0L, left, s"memory stays, $story")
  }

  /** Spark's want of memory is an error, and ends tasks only. */
  private def failureOf(task: => Unit): Option[Throwable] =
    try {
      task
      None
    } catch {
      // Whatever ends a task: it is compared with what was done to it.
      case cause: Throwable => Some(cause)
    }

  private def checkRows(
      which: WriterCase,
      kind: RowKind,
      shuffleId: Int,
      output: MemoryOutput,
      story: String): Unit = {
    val expected = Array.fill(which.partitions)(ArrayBuffer.empty[Int])
    for (row <- which.rows.indices) expected(which.rows(row)._1) += row
    for (partition <- 0 until which.partitions) {
      val read = rowsIn(kind, ShuffleBlockId(shuffleId, which.seed, partition), output)
      for (row <- expected(partition)) {
        assertTrue(read.hasNext, s"rows of partition $partition are missing, $story")
        assertArrayEquals(
          which.bytesOf(row),
          read.next(),
          s"row $row of partition $partition, $story")
      }
      assertFalse(read.hasNext, s"partition $partition has more rows, $story")
    }
  }

  /** As Spark reads them. */
  private def rowsIn(
      kind: RowKind,
      block: ShuffleBlockId,
      output: MemoryOutput): Iterator[Array[Byte]] = {
    val bytes = output.bytesOf(block.reduceId)
    if (bytes.isEmpty) {
      Iterator.empty
    } else {
      val stream =
        SparkEnv.get.serializerManager.wrapStream(block, new ByteArrayInputStream(bytes))
      val records = kind.serializer.newInstance().deserializeStream(stream).asKeyValueIterator
      records.map { case (_, value) => kind.bytesIn(value) }
    }
  }

  private def withSpark(settings: Seq[(String, String)])(test: SparkContext => Unit): Unit = {
    val conf = new SparkConf(false)
      .setMaster("local[1]")
      .setAppName("writer-faults")
      .set("spark.ui.enabled", "false")
      .set("spark.driver.host", "127.0.0.1")
      .set("spark.driver.bindAddress", "127.0.0.1")
      .set("spark.local.dir", directory.toString)
      .setAll(settings)
    val spark = new SparkContext(conf)
    try test(spark)
    finally spark.stop()
  }
}

/** Keys are partitions. */
private final class ByNumber(override val numPartitions: Int) extends Partitioner {
  override def getPartition(key: Any): Int = key.asInstanceOf[Int]
}

private sealed trait RowKind {
  def serializer: Serializer
  def record(partition: Int, bytes: Array[Byte]): Product2[Any, Any]
  def bytesIn(value: Any): Array[Byte]
}

/** One row object is used again and again, as SQL does it. What is in it does not matter here. */
private object RowsOfSql extends RowKind {
  private val row = new UnsafeRow(1)
  override val serializer: Serializer = new UnsafeRowSerializer(1)

  override def record(partition: Int, bytes: Array[Byte]): Product2[Any, Any] = {
    row.pointTo(bytes, bytes.length)
    (partition, row)
  }

  override def bytesIn(value: Any): Array[Byte] = value.asInstanceOf[UnsafeRow].getBytes.clone()
}

private final case class ObjectsByKryo(conf: SparkConf) extends RowKind {
  override val serializer: Serializer =
    new KryoSerializer(conf.clone.set("spark.kryoserializer.buffer.max", "256m"))

  override def record(partition: Int, bytes: Array[Byte]): Product2[Any, Any] = (partition, bytes)

  override def bytesIn(value: Any): Array[Byte] = value.asInstanceOf[Array[Byte]]
}
