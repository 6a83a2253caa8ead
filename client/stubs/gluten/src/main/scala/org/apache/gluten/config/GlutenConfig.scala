// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.config

/**
 * Stands for gluten-substrait/src/main/scala/org/apache/gluten/config/GlutenConfig.scala of
 * apache/incubator-gluten, v1.6.0 (89718982), with the defaults that are there.
 */
class GlutenConfig {
  def maxBatchSize: Int = 4096

  def shuffleWriterBufferSize: Int = maxBatchSize

  def columnarShuffleReallocThreshold: Double = 0.25

  def columnarShuffleCodecBackend: Option[String] = None
}

object GlutenConfig {
  def get: GlutenConfig = new GlutenConfig
}

trait ShuffleWriterType {
  val name: String
}

case object HashShuffleWriterType extends ShuffleWriterType {
  override val name: String = "hash"
}

case object SortShuffleWriterType extends ShuffleWriterType {
  override val name: String = "sort"
}

case object GpuHashShuffleWriterType extends ShuffleWriterType {
  override val name: String = "gpu_hash"
}
