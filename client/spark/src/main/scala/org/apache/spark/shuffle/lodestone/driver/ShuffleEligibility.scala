// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.apache.spark.{ShuffleDependency, SparkConf}
import org.apache.spark.io.CompressionCodec
import org.apache.spark.shuffle.lodestone.Reason

/**
 * Whether a shuffle can be merged at all: a merged chunk is the blocks of several maps one after
 * another, read as one stream.
 */
private[lodestone] object ShuffleEligibility {

  private val LocalDiskIo = "org.apache.spark.shuffle.sort.io.LocalDiskShuffleDataIO"

  /** None: it can. */
  def obstacle(conf: SparkConf, dependency: ShuffleDependency[_, _, _]): Option[Reason] =
    ofApplication(conf).orElse {
      if (!dependency.serializer.supportsRelocationOfSerializedObjects) {
        Some(Reason.SerializerNotRelocatable)
      } else if (dependency.rdd.isBarrier()) {
        Some(Reason.BarrierStage)
      } else if (dependency.rdd.getNumPartitions <= 1) {
        Some(Reason.SingleMap)
      } else if (dependency.partitioner.numPartitions == 0) {
        Some(Reason.SinglePartition)
      } else {
        None
      }
    }

  private def ofApplication(conf: SparkConf): Option[Reason] =
    if (conf.getBoolean("spark.io.encryption.enabled", false)) {
      Some(Reason.IoEncryption)
    } else if (conf.getBoolean("spark.authenticate", false)) {
      Some(Reason.Authentication)
    } else if (conf.getBoolean("spark.shuffle.push.enabled", false)) {
      Some(Reason.SparkPush)
    } else if (conf.get("spark.shuffle.sort.io.plugin.class", LocalDiskIo) != LocalDiskIo) {
      Some(Reason.CustomShuffleIo)
    } else if (conf.getBoolean("spark.shuffle.useOldFetchProtocol", false)) {
      // The map id is the map index then. Readers go by the map id (FetchPlan): an attempt that
      // Spark has replaced would look like the one that replaced it.
      Some(Reason.OldFetchProtocol)
    } else if (conf.getBoolean("spark.shuffle.compress", true) && !codecConcatenates(conf)) {
      Some(Reason.CodecNotConcatenable)
    } else {
      None
    }

  private def codecConcatenates(conf: SparkConf): Boolean =
    CompressionCodec.supportsConcatenationOfSerializedStreams(CompressionCodec.createCodec(conf))
}
