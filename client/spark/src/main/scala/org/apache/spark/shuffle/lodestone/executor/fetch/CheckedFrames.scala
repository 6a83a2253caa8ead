// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream

import org.apache.spark.shuffle.lodestone.executor.rows.frames.{FrameDecoder, FrameRecords}
import org.apache.spark.shuffle.lodestone.executor.rows.frames.WholeFrames
import org.apache.spark.storage.BlockId

/**
 * The records of one stream of an engine's frames after another. An engine may trust its bytes, and
 * do anything for wrong ones. So each stream has its checksum compared before the engine gets it:
 * chunks when they arrive, and originals here, if their map task reported a number. This number is
 * a checksum where other formats have a number of records.
 */
private[fetch] final class CheckedFrames(
    streams: Iterator[(BlockId, InputStream)],
    decoder: FrameDecoder,
    check: RecordsCheck,
    task: ReduceTask)
    extends Iterator[(Any, Any)] {
  private var records: Option[FrameRecords] = None

  /** The stream that is being read. */
  private var block: Option[BlockId] = None
  private val brokenStream = check.brokenStream(() => block)

  task.context.addTaskCompletionListener[Unit](_ => close())

  override def hasNext: Boolean = {
    task.context.killTaskIfInterrupted()
    try records.exists(_.hasNext) || nextStream()
    catch brokenStream
  }

  override def next(): (Any, Any) =
    try {
      if (!records.exists(_.hasNext) && !nextStream()) {
        throw new NoSuchElementException("there are no more records")
      }
      val from = records.get
      val record = from.next()
      task.metrics.incRecordsRead(from.rowsIn(record).toLong)
      record
    } catch brokenStream

  private def nextStream(): Boolean = {
    close()
    while (records.isEmpty && streams.hasNext) {
      val (id, stream) = streams.next()
      check.begin(id)
      block = Some(id)
      val bytes = ChecksummedBlock.of(id, stream, check)
      val opened = decoder.decode(new WholeFrames(bytes, decoder))
      records = Some(opened)
      if (!opened.hasNext) close()
    }
    if (records.isEmpty) task.context.taskMetrics().mergeShuffleReadMetrics()
    records.isDefined
  }

  private def close(): Unit = {
    records.foreach(_.close())
    records = None
    block = None
  }
}
