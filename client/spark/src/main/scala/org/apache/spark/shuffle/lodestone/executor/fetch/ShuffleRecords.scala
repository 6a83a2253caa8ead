// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream

import org.apache.spark.{Aggregator, InterruptibleIterator, TaskContext}
import org.apache.spark.shuffle.{BaseShuffleHandle, ShuffleReadMetricsReporter}
import org.apache.spark.shuffle.lodestone.executor.rows.{RowReader, SqlRows}
import org.apache.spark.storage.BlockId
import org.apache.spark.util.CompletionIterator

/** From the streams of blocks to what a reduce task asked for: combined and sorted as Spark does it. */
private[fetch] final class ShuffleRecords[K, C](
    handle: BaseShuffleHandle[K, _, C],
    context: TaskContext,
    metrics: ShuffleReadMetricsReporter) {
  private val dependency = handle.dependency

  private val recordsIn: InputStream => Iterator[(Any, Any)] = {
    val instance = dependency.serializer.newInstance()
    if (SqlRows.areOf(dependency.serializer)) new RowReader(instance)
    else instance.deserializeStream(_).asKeyValueIterator
  }

  /** The records of one stream after another, each stream compared with what was written. */
  def of(streams: Iterator[(BlockId, InputStream)], check: RecordsCheck): Iterator[(Any, Any)] =
    new CheckedRecords(streams, recordsIn, check, metrics)

  /** What is asked for, made of all records. */
  def asked(all: Iterator[(Any, Any)]): Iterator[Product2[K, C]] = {
    val completed = CompletionIterator[(Any, Any), Iterator[(Any, Any)]](
      all,
      context.taskMetrics().mergeShuffleReadMetrics())
    sort(combine(new InterruptibleIterator(context, completed))) match {
      case same: InterruptibleIterator[Product2[K, C]] => same
      case made => new InterruptibleIterator(context, made)
    }
  }

  /** The values are already combined if the map side did it. */
  private def combine(records: Iterator[(Any, Any)]): Iterator[Product2[K, C]] =
    dependency.aggregator match {
      case Some(aggregator) if dependency.mapSideCombine =>
        aggregator.combineCombinersByKey(records.asInstanceOf[Iterator[(K, C)]], context)
      case Some(aggregator) =>
        aggregator
          .asInstanceOf[Aggregator[K, Any, C]]
          .combineValuesByKey(records.asInstanceOf[Iterator[(K, Any)]], context)
      case None => records.asInstanceOf[Iterator[Product2[K, C]]]
    }

  private def sort(records: Iterator[Product2[K, C]]): Iterator[Product2[K, C]] =
    dependency.keyOrdering match {
      case Some(ordering) =>
        val sorter = SparkSorter[K, C](context, ordering, dependency.serializer)
        sorter.insertAllAndUpdateMetrics(records)
      case None => records
    }
}
