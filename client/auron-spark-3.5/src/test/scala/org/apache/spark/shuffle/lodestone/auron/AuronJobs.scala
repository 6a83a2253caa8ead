// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.auron

import org.apache.spark.rdd.RDD
import org.apache.spark.serializer.Serializer
import org.apache.spark.shuffle.lodestone.{PushJobs, TwoAttempts}

/** Jobs whose exchanges are Auron's. */
private[auron] abstract class AuronJobs
    extends PushJobs(classOf[LodestoneAuronShuffleManager], "auron-7") {

  override protected def shuffled(
      rows: RDD[(Int, String)],
      serializer: Serializer,
      partitions: Int): RDD[String] = FakeAuron.read(FakeAuron.exchange(rows, partitions))

  /** The plan of an exchange writes, and not the writer. */
  override protected def write: TwoAttempts.Write = (rdd, of, part, context) =>
    of.shuffleWriterProcessor.write(rdd, of, context.taskAttemptId(), context, part)
}
