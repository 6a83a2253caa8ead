// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.auron

import org.apache.spark.{Dependency, Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow

/**
 * Stands for org.apache.spark.sql.auron.NativeRDD of Apache Auron (releases 7.0.0, 8.0.0; commit
 * 4b0a3451, spark-extension/src/main/scala/org/apache/spark/sql/auron/NativeRDD.scala). Lodestone
 * only hands it on. There it has a plan, which NativeHelper.executeNativePlan runs.
 */
abstract class NativeRDD(spark: SparkContext, parents: Seq[Dependency[_]])
    extends RDD[InternalRow](spark, parents) {

  /** Runs the plan, whose native code pushes to the writer of this name. */
  def executeNativePlan(
      writer: String,
      partition: Partition,
      context: TaskContext): Iterator[InternalRow]
}
