// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records.faults

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.shuffle.lodestone.executor.push.records.{RecordCounts, SerializedMapWriter}
import org.apache.spark.storage.ShuffleBlockId

/** The writer of map outputs that executors keep, with disks that fail at any byte. */
@Tag("seldom")
final class WriterFaultsSuite extends WriterHunt {
  override protected def usualCases: Int = 30

  @Test def `a map task whose disks and memory fail writes all of its rows or fails`(): Unit =
    hunt { conf =>
      Seq(RowsOfSql, new ObjectsByKryo(conf)) ++ EncodedRowsOfSql.ifUsed(conf)
    }(write)

  private def write(task: WriterTask): Ended = {
    val which = task.which
    val spills = new FaultySpills(which.faultOf)
    val output = new MemoryOutput(which.outputBytes, which.failsToCommit)
    val writer = new SerializedMapWriter[Any, Any](
      task.dependency,
      which.seed,
      task.context,
      task.context.taskMetrics().shuffleWriteMetrics,
      output,
      spills,
      new RecordCounts(task.partitioner.numPartitions),
      task.kind.format)
    val failure = task.failureOf(writer.write(task.rows))
    if (failure.isDefined) {
      writer.stop(success = false)
    } else {
      assertTrue(output.isCommitted, task.story)
      task.check(partition => recordsIn(task, partition, output))
      task.checkEncoded(writer.encoded, writer.getPartitionLengths(), writer.stop(success = true))
    }
    assertEquals(0, spills.left, s"spills stay, ${task.story}")
    Ended(failure, spills.hit + output.hit + task.other.hit, spills.count)
  }

  /** Reads them like Spark. */
  private def recordsIn(
      task: WriterTask,
      partition: Int,
      output: MemoryOutput): Iterator[(Any, Any)] = {
    val bytes = output.bytesOf(partition)
    if (bytes.isEmpty) {
      Iterator.empty
    } else {
      val block = ShuffleBlockId(task.dependency.shuffleId, task.which.seed, partition)
      task.kind.recordsIn(block, bytes)
    }
  }
}
