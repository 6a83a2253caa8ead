// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import java.io.InputStream

import org.apache.spark.{Aggregator, InterruptibleIterator, TaskContext}
import org.apache.spark.shuffle.{BaseShuffleHandle, ShuffleReadMetricsReporter}
import org.apache.spark.shuffle.lodestone.wire.rows.{RowReader, SqlRows}
import org.apache.spark.util.CompletionIterator

/** From the streams of blocks to what a reduce task asked for: combined and sorted as Spark does it. */
private[fetch] final class ShuffleRecords[K, C](
    handle: BaseShuffleHandle[K, _, C],
    context: TaskContext,
    metrics: ShuffleReadMetricsReporter) {
  private val dependency = handle.dependency

  /** The records of one stream after another. */
  val in: InputStream => Iterator[(Any, Any)] = {
    val instance = dependency.serializer.newInstance()
    if (SqlRows.areOf(dependency.serializer)) new RowReader(instance)
    else instance.deserializeStream(_).asKeyValueIterator
  }

  /** What is asked for, made of all records. */
  def asked(all: Iterator[(Any, Any)]): Iterator[Product2[K, C]] = {
    val counted = all.map { record =>
      metrics.incRecordsRead(1)
      record
    }
    val completed = CompletionIterator[(Any, Any), Iterator[(Any, Any)]](
      counted,
      context.taskMetrics().mergeShuffleReadMetrics())
    val combined = combine(new InterruptibleIterator(context, completed))
    new InterruptibleIterator(context, sort(combined))
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
