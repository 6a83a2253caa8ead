// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.LongAdder

import org.apache.spark.shuffle.lodestone.plan.{ReadCounts, Reason}

/** Counts what one reduce task reads, on network threads and on the task's own. */
private[fetch] final class ReadTally {
  private val chunks = new LongAdder
  private val chunkBytes = new LongAdder
  private val localChunkBytes = new LongAdder
  private val mergedBlocks = new LongAdder
  private val originals = new LongAdder
  private val fallbacks = new ConcurrentHashMap[Reason, LongAdder]()

  /** @param isLocal whether the service is on this host */
  def chunk(sizeBytes: Long, blocks: Int, isLocal: Boolean): Unit = {
    chunks.increment()
    chunkBytes.add(sizeBytes)
    if (isLocal) localChunkBytes.add(sizeBytes)
    mergedBlocks.add(blocks.toLong)
  }

  /** Counts blocks that are read from executors. */
  def originals(blocks: Int): Unit = originals.add(blocks.toLong)

  /** Counts the reason why blocks, which are counted as originals too, are not read merged. */
  def fallback(reason: Reason, blocks: Int): Unit =
    if (blocks > 0) fallbacks.computeIfAbsent(reason, _ => new LongAdder).add(blocks.toLong)

  def counts: ReadCounts = {
    var byCode = Map.empty[String, Long]
    fallbacks.forEach((reason, blocks) => byCode += reason.code -> blocks.sum())
    ReadCounts(
      chunks.sum(),
      chunkBytes.sum(),
      localChunkBytes.sum(),
      mergedBlocks.sum(),
      originals.sum(),
      byCode)
  }
}
