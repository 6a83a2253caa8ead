// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.util.concurrent.atomic.AtomicReference

import org.apache.spark.{HashPartitioner, Partition, TaskContext}
import org.apache.spark.rdd.{RDD, ShuffledRDD}
import org.apache.spark.serializer.Serializer

/** Calls a function of the test once, before any task of the second attempt begins to read. */
private[lodestone] final class SecondReadRDD(
    rows: RDD[(Int, Int)],
    serializer: Serializer,
    beforeSecondRead: () => Unit)
    extends ShuffledRDD[Int, Int, Int](rows, new HashPartitioner(8)) {
  setSerializer(serializer)
  SecondReadRDD.next.set(Some(beforeSecondRead))

  override def compute(split: Partition, context: TaskContext): Iterator[(Int, Int)] = {
    if (context.stageAttemptNumber() > 0) SecondReadRDD.callOnce()
    super.compute(split, context)
  }
}

/** Tasks in local mode have a copy of the RDD, and one JVM. */
private object SecondReadRDD {
  private val next = new AtomicReference[Option[() => Unit]](None)

  private def callOnce(): Unit = synchronized(next.getAndSet(None).foreach(_.apply()))
}
