// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import org.apache.spark.SparkEnv
import org.apache.spark.internal.config
import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.serializer.Serializer
import org.apache.spark.shuffle.lodestone.executor.push.records.{BlockEncoder, PartitionedRecords}
import org.apache.spark.shuffle.lodestone.executor.push.records.{RecordInput, RecordPages}
import org.apache.spark.shuffle.lodestone.executor.rows.BlockEncryption
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, EncodedBytes}

/**
 * Records whose bytes may be in any order: each is serialized once, alone, and then only copied.
 */
private[remote] final class SerializedRecords(
    serializer: Serializer,
    format: BlockFormat,
    numPartitions: Int,
    memory: TaskMemoryManager,
    segments: SegmentWriter)
    extends RecordCollector {
  private val env = SparkEnv.get
  private val encryption = BlockEncryption()
  private val encoder =
    BlockEncoder(format, serializer, numPartitions, env, segments.segmentBytes)
  private val pages = new RecordPages(
    memory,
    numPartitions,
    env.conf.get(config.SHUFFLE_SPILL_NUM_ELEMENTS_FORCE_SPILL_THRESHOLD),
    write)
  private val enoughBytes = RecordCollector.enoughBytes(numPartitions)
  private val input = RecordInput(serializer, pages)

  override def add(partition: Int, key: Any, value: Any): Unit = {
    input.add(partition, key, value)
    if (pages.recordBytes >= enoughBytes) pages.giveAll()
  }

  override def finish(): Unit = {
    input.finish()
    segments.beginLastRound()
    pages.giveAll()
  }

  override def close(): Unit =
    try encoder.abandon()
    finally pages.free()

  override def sizes(lengths: Array[Long]): Array[Long] = encoder.sizes(lengths)

  override def encoded: Option[EncodedBytes] = encoder.encoded

  override def peakBytes: Long = pages.peakBytes

  private def write(held: PartitionedRecords): Unit = {
    while (held.hasNext) {
      val partition = held.partition
      segments.add(partition) { out =>
        encryption.writing(out) { segment =>
          encoder.open(segments.blockOf(partition), segment)
          var records = 0
          while (held.hasNext && held.partition == partition && !segments.isSegmentFull) {
            records += held.next(encoder)
          }
          encoder.close()
          records
        }
      }
    }
    segments.endRound()
  }
}
