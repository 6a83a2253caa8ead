// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream

import org.apache.spark.storage.BlockId

/**
 * The records of one stream after another. At the end of a stream their number is compared with the
 * one that was written. Spark has four iterators here, and each costs two calls per record: that
 * pays for it.
 */
private[fetch] final class CheckedRecords(
    streams: Iterator[(BlockId, InputStream)],
    recordsIn: InputStream => Iterator[(Any, Any)],
    check: RecordsCheck,
    task: ReduceTask)
    extends Iterator[(Any, Any)] {
  private var records: Iterator[(Any, Any)] = Iterator.empty

  /** The stream that is being read. */
  private var block: Option[BlockId] = None
  private var read = 0L

  override def hasNext: Boolean = {
    task.context.killTaskIfInterrupted()
    try records.hasNext || nextStream()
    catch brokenStream
  }

  override def next(): (Any, Any) =
    try {
      if (!records.hasNext && !nextStream()) {
        throw new NoSuchElementException("there are no more records")
      }
      val record = records.next()
      read += 1
      task.metrics.incRecordsRead(1)
      record
    } catch brokenStream

  private def nextStream(): Boolean = {
    end()
    while (!records.hasNext && streams.hasNext) {
      val (id, stream) = streams.next()
      check.begin(id)
      block = Some(id)
      read = 0
      records = recordsIn(stream)
      if (!records.hasNext) end()
    }
    if (!records.hasNext) task.context.taskMetrics().mergeShuffleReadMetrics()
    records.hasNext
  }

  private val brokenStream = check.brokenStream(() => block)

  private def end(): Unit = block.foreach { id =>
    block = None
    val written = check.written(id)
    if (written != BlockRecords.NotCounted && written != read) check.wrong(id, read, written)
  }
}
