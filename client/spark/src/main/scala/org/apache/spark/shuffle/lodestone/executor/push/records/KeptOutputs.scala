// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import org.apache.spark.shuffle.IndexShuffleBlockResolver

/** The map outputs of an executor, by shuffle. Spark removes the files of its own writers only. */
private[lodestone] final class KeptOutputs(resolver: IndexShuffleBlockResolver) {
  private val maps = new ConcurrentHashMap[Int, ConcurrentLinkedQueue[Long]]()

  /** Notes an output before its first byte is written. */
  def add(shuffleId: Int, mapId: Long): Unit = {
    maps.computeIfAbsent(shuffleId, _ => new ConcurrentLinkedQueue[Long]).add(mapId)
    ()
  }

  /** Removes the outputs of a shuffle that has ended. */
  def removed(shuffleId: Int): Unit =
    Option(maps.remove(shuffleId)).foreach { ids =>
      ids.forEach(mapId => resolver.removeDataByMap(shuffleId, mapId))
    }
}
