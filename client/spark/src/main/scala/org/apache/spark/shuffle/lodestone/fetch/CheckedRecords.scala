// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import java.io.InputStream

import org.apache.spark.shuffle.ShuffleReadMetricsReporter
import org.apache.spark.storage.BlockId

/**
 * The records of one stream after another. When a stream is at its end, what came out of it is compared
 * with what was written. Spark has two iterators in the place of this one, of which each costs a call per
 * record: that pays for the comparison.
 */
private[fetch] final class CheckedRecords(
    streams: Iterator[(BlockId, InputStream)],
    recordsIn: InputStream => Iterator[(Any, Any)],
    check: RecordsCheck,
    metrics: ShuffleReadMetricsReporter)
    extends Iterator[(Any, Any)] {
  private var records: Iterator[(Any, Any)] = Iterator.empty

  /** Of the stream that is being read, if there is one. */
  private var block: Option[BlockId] = None
  private var read = 0L

  /** That there is a next record was asked and found, which costs something. */
  private var hasRecord = false

  override def hasNext: Boolean = {
    if (!hasRecord) hasRecord = records.hasNext || nextStream()
    hasRecord
  }

  override def next(): (Any, Any) = {
    if (!hasNext) throw new NoSuchElementException("there are no more records")
    hasRecord = false
    read += 1
    metrics.incRecordsRead(1)
    records.next()
  }

  /** False: there is none. */
  private def nextStream(): Boolean = {
    end()
    while (!records.hasNext && streams.hasNext) {
      val (id, stream) = streams.next()
      block = Some(id)
      read = 0
      records = recordsIn(stream)
      if (!records.hasNext) end()
    }
    records.hasNext
  }

  private def end(): Unit = block.foreach { id =>
    block = None
    val written = check.written(id)
    if (written != BlockRecords.NotTold && written != read) check.wrong(id, read, written)
  }
}
