// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.util.HashMap

import org.apache.spark.{SparkConf, SparkEnv, TaskContext}
import org.apache.spark.shuffle._
import org.apache.spark.shuffle.api.ShuffleExecutorComponents
import org.apache.spark.shuffle.lodestone.plan.BlockFormat
import org.apache.spark.shuffle.sort.{BypassMergeSortShuffleHandle, SerializedShuffleHandle}

/** Creates Lodestone's writers of map outputs, and removes the outputs with their shuffle. */
private[lodestone] final class MapWriters(conf: SparkConf, resolver: IndexShuffleBlockResolver) {

  private val written = new KeptOutputs(resolver)
  private lazy val outputs = executorComponents()

  /**
   * Returns a writer if Spark would sort serialized records, or write a file for each partition.
   */
  def writer[K, V](
      handle: ShuffleHandle,
      format: BlockFormat,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): Option[SerializedMapWriter[K, V]] = {
    val dependency = handle match {
      case sorted: SerializedShuffleHandle[K @unchecked, V @unchecked] => Some(sorted.dependency)
      case bypassed: BypassMergeSortShuffleHandle[K @unchecked, V @unchecked]
          if bypassed.dependency.serializer.supportsRelocationOfSerializedObjects =>
        Some(bypassed.dependency)
      case _ => None
    }
    dependency.map { dependency =>
      written.add(handle.shuffleId, mapId)
      val env = SparkEnv.get
      val spills = new LocalSpillFiles(env.blockManager.diskBlockManager, env.serializerManager)
      new SerializedMapWriter[K, V](
        dependency,
        mapId,
        context,
        metrics,
        outputs,
        spills,
        new RecordCounts(dependency.partitioner.numPartitions),
        format)
    }
  }

  def removed(shuffleId: Int): Unit = written.removed(shuffleId)

  private def executorComponents(): ShuffleExecutorComponents = {
    val components = ShuffleDataIOUtils.loadShuffleDataIO(conf).executor()
    val settings = new HashMap[String, String]()
    conf.getAllWithPrefix(ShuffleDataIOUtils.SHUFFLE_SPARK_CONF_PREFIX).foreach {
      case (key, value) => settings.put(key, value)
    }
    components.initializeExecutor(conf.getAppId, SparkEnv.get.executorId, settings)
    components
  }
}
