// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import org.apache.spark.{ShuffleDependency, SparkEnv}
import org.apache.spark.internal.config
import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, EncodedBytes}

/** Collects the records of a map task, and makes segments of them when there are enough. */
private[remote] trait RecordCollector {
  def add(partition: Int, key: Any, value: Any): Unit

  /** All of them are given away when this returns, in the last round of segments. */
  def finish(): Unit

  /** Returns the sizes that Spark gets for blocks of these lengths, when all are finished. */
  def sizes(lengths: Array[Long]): Array[Long] = lengths

  /** The bytes of all segments, if they are in a format of our own. */
  def encoded: Option[EncodedBytes] = None

  /** Gives all memory back, also in the middle. */
  def close(): Unit

  /** The largest amount of Spark's memory that it had. */
  def peakBytes: Long
}

private[remote] object RecordCollector {

  /**
   * Chooses as Spark chooses among its writers. A collector that holds objects must not get an
   * object that the task changes later, and Spark prevents this only if its own writer would hold
   * objects.
   */
  def apply(
      dependency: ShuffleDependency[_, _, _],
      format: BlockFormat,
      memory: TaskMemoryManager,
      segments: SegmentWriter): RecordCollector = {
    val env = SparkEnv.get
    val numPartitions = dependency.partitioner.numPartitions
    def serializer = dependency.serializer.newInstance()
    if (dependency.serializer.supportsRelocationOfSerializedObjects) {
      new SerializedRecords(dependency.serializer, format, numPartitions, memory, segments)
    } else if (numPartitions <= env.conf.get(config.SHUFFLE_SORT_BYPASS_MERGE_THRESHOLD)) {
      new StreamedRecords(serializer, env.serializerManager, numPartitions, memory, segments)
    } else {
      new ObjectRecords(serializer, env.serializerManager, memory, segments)
    }
  }

  /**
   * The bytes that are pushed together, before compression: services begin while maps run, and yet
   * a partition gets segments of some 64 KiB if it has as much.
   */
  def enoughBytes(numPartitions: Int): Long =
    math.max(EnoughBytes, numPartitions * EnoughBytesPerPartition)

  val EnoughBytes: Long = 16L << 20
  private val EnoughBytesPerPartition = 64L << 10
}
