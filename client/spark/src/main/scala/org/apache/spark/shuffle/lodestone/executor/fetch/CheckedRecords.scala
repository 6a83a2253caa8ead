// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream

import scala.util.control.NonFatal

import org.apache.spark.TaskKilledException
import org.apache.spark.shuffle.{FetchFailedException, ShuffleReadMetricsReporter}
import org.apache.spark.storage.BlockId

/**
 * The records of one stream after another. At the end of a stream their number is compared with the
 * one that was written. Spark has two iterators here, and each costs a call per record: that pays
 * for it.
 */
private[fetch] final class CheckedRecords(
    streams: Iterator[(BlockId, InputStream)],
    recordsIn: InputStream => Iterator[(Any, Any)],
    check: RecordsCheck,
    metrics: ShuffleReadMetricsReporter)
    extends Iterator[(Any, Any)] {
  private var records: Iterator[(Any, Any)] = Iterator.empty

  /** The stream that is being read. */
  private var block: Option[BlockId] = None
  private var read = 0L

  /** The answer of the last `hasNext`, which is expensive. */
  private var hasRecord = false

  override def hasNext: Boolean = {
    if (!hasRecord) hasRecord = hasMore || nextStream()
    hasRecord
  }

  override def next(): (Any, Any) = {
    if (!hasNext) throw new NoSuchElementException("there are no more records")
    hasRecord = false
    read += 1
    metrics.incRecordsRead(1)
    try records.next()
    catch brokenStream
  }

  private def opened(stream: InputStream): Iterator[(Any, Any)] =
    try recordsIn(stream)
    catch brokenStream

  private def hasMore: Boolean =
    try records.hasNext
    catch brokenStream

  private def hasStream: Boolean =
    try streams.hasNext
    catch brokenStream

  private def fetched(): (BlockId, InputStream) =
    try streams.next()
    catch brokenStream

  private def nextStream(): Boolean = {
    end()
    while (!hasMore && hasStream) {
      val (id, stream) = fetched()
      block = Some(id)
      read = 0
      check.begin(id)
      records = opened(stream)
      if (!hasMore) end()
    }
    hasMore
  }

  /** Serializers and codecs throw anything for wrong bytes. */
  private val brokenStream: PartialFunction[Throwable, Nothing] = {
    case failure: FetchFailedException => check.failed(failure)
    case killed: TaskKilledException => throw killed
    // Kryo, Java and zstd have no exception in common. The task always ends: no row is lost.
    case NonFatal(cause) if block.isDefined => check.broken(block.get, cause)
  }

  private def end(): Unit = block.foreach { id =>
    block = None
    val written = check.written(id)
    if (written != BlockRecords.NotCounted && written != read) check.wrong(id, read, written)
  }
}
