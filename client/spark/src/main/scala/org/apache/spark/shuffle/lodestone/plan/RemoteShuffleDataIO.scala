// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.api.ShuffleDriverComponents
import org.apache.spark.shuffle.sort.io.{LocalDiskShuffleDataIO, LocalDiskShuffleDriverComponents}

/**
 * Tells Spark's scheduler that map outputs do not go with their executors: it neither runs finished maps
 * again when one is lost, nor keeps one because of what it wrote. Those few outputs that are on an
 * executor's disk after all are run again when a reader does not find them.
 */
private[spark] final class RemoteShuffleDataIO(conf: SparkConf)
    extends LocalDiskShuffleDataIO(conf) {
  override def driver(): ShuffleDriverComponents = new LocalDiskShuffleDriverComponents {
    override def supportsReliableStorage(): Boolean = true
  }
}
