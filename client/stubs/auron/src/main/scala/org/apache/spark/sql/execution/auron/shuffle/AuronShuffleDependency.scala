// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.auron.shuffle

import scala.reflect.ClassTag

import org.apache.spark.{Aggregator, Partitioner, ShuffleDependency}
import org.apache.spark.rdd.RDD
import org.apache.spark.serializer.Serializer
import org.apache.spark.shuffle.{BaseShuffleHandle, ShuffleHandle, ShuffleWriteProcessor}
import org.apache.spark.sql.types.StructType

/**
 * Stands for the class of this name of Apache Auron (releases 7.0.0, 8.0.0; commit 4b0a3451,
 * spark-extension/src/main/scala/org/apache/spark/sql/execution/auron/shuffle).
 */
class AuronShuffleDependency[K: ClassTag, V: ClassTag, C: ClassTag](
    rows: RDD[_ <: Product2[K, V]],
    override val partitioner: Partitioner,
    override val serializer: Serializer,
    override val keyOrdering: Option[Ordering[K]],
    override val aggregator: Option[Aggregator[K, V, C]],
    override val mapSideCombine: Boolean,
    override val shuffleWriterProcessor: ShuffleWriteProcessor,
    val schema: StructType)
    extends ShuffleDependency[K, V, C](
      rows,
      partitioner,
      serializer,
      keyOrdering,
      aggregator,
      mapSideCombine,
      shuffleWriterProcessor)

object AuronShuffleDependency {
  def isArrowShuffle(handle: ShuffleHandle): Boolean =
    handle.asInstanceOf[BaseShuffleHandle[_, _, _]].dependency
      .isInstanceOf[AuronShuffleDependency[_, _, _]]
}
