// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle

import org.apache.gluten.vectorized.NativePartitioning

import org.apache.spark.SparkConf

/**
 * Stands for gluten-substrait/src/main/scala/org/apache/spark/shuffle/GlutenShuffleUtils.scala of
 * apache/incubator-gluten, v1.6.0 (89718982).
 */
object GlutenShuffleUtils {
  val DEFAULT_COMPRESSION_LEVEL: Int = Int.MinValue

  def getStartPartitionId(partition: NativePartitioning, partitionId: Int): Int =
    if (partition.getShortName == "rr") partitionId % partition.getNumPartitions else 0

  def getCompressionCodec(conf: SparkConf): String = conf.get("spark.io.compression.codec", "lz4")

  def getCompressionLevel(conf: SparkConf, codec: String): Int =
    if (codec == "zstd") conf.getInt("spark.io.compression.zstd.level", 1)
    else DEFAULT_COMPRESSION_LEVEL

  def getCompressionBufferSize(conf: SparkConf, codec: String): Int =
    conf.getSizeAsBytes(s"spark.io.compression.$codec.blockSize", "32k").toInt
}
