// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records.faults

import java.nio.file.Path
import java.util.Properties

import scala.util.Try

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{SparkContext, TaskContext, TaskContextImpl}
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.shuffle.lodestone.LocalSpark
import org.apache.spark.shuffle.lodestone.executor.push.records.{RecordCounts, SerializedMapWriter}
import org.apache.spark.shuffle.lodestone.plan.BlockFormat

/** A map task commits all of its records, or fails if a part of the path loses some. */
final class OutputCheckSuite {
  @TempDir var directory: Path = _

  private val partitions = 7
  private val rows = 100

  /** Returns the end of a map task with this output, of which `more` rows are lost. */
  private def write(output: MemoryOutput, more: Seq[Int] = Nil): Try[Unit] = {
    val conf = LocalSpark.conf("output-check", master = "local[1]")
      .set("spark.local.dir", directory.toString)
    val spark = new SparkContext(conf)
    try {
      val partitioner = new ByNumber(partitions)
      val memory = new TaskMemoryManager(UnifiedMemoryManager(spark.conf, 1), 0)
      val context: TaskContext =
        new TaskContextImpl(0, 0, 0, 1, 0, 1, memory, new Properties, null)
      val counts = new RecordCounts(partitioner.numPartitions)
      more.foreach(counts.add)
      val writer = new SerializedMapWriter[Any, Any](
        new ObjectsByKryo(spark.conf).dependency(spark, partitioner),
        0,
        context,
        context.taskMetrics().shuffleWriteMetrics,
        output,
        new FaultySpills(_ => SpillFault.None),
        counts,
        BlockFormat.SparkStream)
      Try(writer.write(Iterator.tabulate(rows)(n => (n, n))))
    } finally {
      spark.stop()
    }
  }

  private def assertNotCommitted(output: MemoryOutput, ended: Try[Unit], why: String): Unit = {
    assertEquals(why, ended.failed.get.getMessage)
    assertFalse(output.isCommitted)
    assertTrue(output.isAborted)
  }

  @Test def `a map task commits all of its rows`(): Unit = {
    val output = new MemoryOutput(Long.MaxValue, failsToCommit = false)
    write(output).get
    assertTrue(output.isCommitted)
  }

  @Test def `a map task that loses a record fails`(): Unit = {
    val output = new MemoryOutput(Long.MaxValue, failsToCommit = false)
    assertNotCommitted(
      output,
      write(output, more = Seq(3)),
      "a map task took 15 records for partition 3, and wrote 14: its output is not committed")
  }

  @Test def `a map task whose output has fewer bytes than it was sent fails`(): Unit = {
    val output = new MemoryOutput(Long.MaxValue, failsToCommit = false, forgets = true)
    val ended = write(output)
    val length = output.bytesOf(0).length
    assertNotCommitted(
      output,
      ended,
      s"a map task sent ${length + 1} bytes of partition 0 to its output of $length: " +
        "its output is not committed")
  }
}
