// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle

import scala.reflect.ClassTag

import org.apache.gluten.config.{HashShuffleWriterType, ShuffleWriterType}
import org.apache.gluten.vectorized.NativePartitioning

import org.apache.spark.{Aggregator, Partitioner, ShuffleDependency, SparkEnv}
import org.apache.spark.rdd.RDD
import org.apache.spark.serializer.Serializer
import org.apache.spark.sql.execution.metric.SQLMetric

/**
 * Stands for gluten-substrait/src/main/scala/org/apache/spark/shuffle/
 * ColumnarShuffleDependency.scala of apache/incubator-gluten, v1.6.0 (89718982).
 */
class ColumnarShuffleDependency[K: ClassTag, V: ClassTag, C: ClassTag](
    @transient private val _rdd: RDD[_ <: Product2[K, V]],
    override val partitioner: Partitioner,
    override val serializer: Serializer = SparkEnv.get.serializer,
    override val keyOrdering: Option[Ordering[K]] = None,
    override val aggregator: Option[Aggregator[K, V, C]] = None,
    override val mapSideCombine: Boolean = false,
    override val shuffleWriterProcessor: ShuffleWriteProcessor = new ShuffleWriteProcessor,
    val nativePartitioning: NativePartitioning,
    val metrics: Map[String, SQLMetric],
    val shuffleWriterType: ShuffleWriterType = HashShuffleWriterType)
    extends ShuffleDependency[K, V, C](
      _rdd,
      partitioner,
      serializer,
      keyOrdering,
      aggregator,
      mapSideCombine,
      shuffleWriterProcessor)
