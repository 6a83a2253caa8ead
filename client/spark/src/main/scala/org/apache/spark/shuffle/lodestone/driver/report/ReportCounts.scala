// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import scala.collection.concurrent.TrieMap

import org.apache.spark.shuffle.lodestone.plan.{EncodedBytes, PushCounts, ReadCounts, Reason}

/** Sums of the reports of tasks. Only the event loop changes them; metrics read them too. */
private[driver] final class ReportCounts {
  @volatile var blocksPushed = 0L
  @volatile var bytesPushed = 0L
  @volatile var pushRequests = 0L
  @volatile var chunksRead = 0L
  @volatile var chunkBytes = 0L
  @volatile var localChunkBytes = 0L
  @volatile var mergedBlocksRead = 0L
  @volatile var originalsRead = 0L
  @volatile var rowBytes = 0L
  @volatile var encodedBytes = 0L
  @volatile var compressedBytes = 0L

  /** Counts by the codes of [[Reason]]. Other codes are counted together. */
  val reasons = TrieMap.empty[String, Long]

  def reasonsInOrder: Seq[(String, Long)] = reasons.toSeq.sorted

  /** The sums by their names in the report and in Spark's metrics. */
  def numbers: Seq[(String, Long)] = Seq(
    "blocksPushed" -> blocksPushed,
    "bytesPushed" -> bytesPushed,
    "pushRequests" -> pushRequests,
    "chunksRead" -> chunksRead,
    "chunkBytes" -> chunkBytes,
    "localChunkBytes" -> localChunkBytes,
    "mergedBlocksRead" -> mergedBlocksRead,
    "originalsRead" -> originalsRead,
    "rowBytes" -> rowBytes,
    "encodedBytes" -> encodedBytes,
    "compressedBytes" -> compressedBytes)

  def add(counts: PushCounts): Unit = {
    blocksPushed += counts.blocks
    bytesPushed += counts.bytes
    pushRequests += counts.requests
    counts.unpushed.foreach { case (code, count) => addReason(code, count) }
  }

  def add(counts: ReadCounts): Unit = {
    chunksRead += counts.chunks
    chunkBytes += counts.chunkBytes
    localChunkBytes += counts.localChunkBytes
    mergedBlocksRead += counts.mergedBlocks
    originalsRead += counts.originals
    counts.fallbacks.foreach { case (code, count) => addReason(code, count) }
  }

  def add(bytes: EncodedBytes): Unit = {
    rowBytes += bytes.rows
    encodedBytes += bytes.encoded
    compressedBytes += bytes.compressed
  }

  def addReason(code: String, count: Long): Unit = {
    val known = if (Reason.of(code).isDefined) code else "OTHER"
    reasons.update(known, reasons.getOrElse(known, 0L) + count)
  }
}
