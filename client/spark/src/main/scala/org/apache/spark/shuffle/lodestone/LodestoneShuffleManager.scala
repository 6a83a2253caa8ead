// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.plan.{ReadSize, TaskHosts}
import org.apache.spark.shuffle.sort.SortShuffleManager

/** The value of `spark.shuffle.manager`: Spark's own manager, with Lodestone added. */
private[spark] final class LodestoneShuffleManager(conf: SparkConf, isDriver: Boolean)
    extends SortShuffleManager(conf)
    with LodestoneShuffles {
  override protected val core = new ShuffleCore(conf, isDriver, below(None, shuffleBlockResolver))

  /** Returns the hosts where the tasks of these reads of a shuffle should run, if they gain. */
  private[lodestone] def hostsFor(shuffleId: Int, reads: Seq[ReadSize]): Option[TaskHosts] =
    core.hostsFor(shuffleId, reads)
}
