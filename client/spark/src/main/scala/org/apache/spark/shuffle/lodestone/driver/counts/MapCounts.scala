// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.counts

import java.util.{LinkedHashMap => JLinkedHashMap}

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.plan.{CountedMaps, GetCounts, MapCounted}
import org.apache.spark.shuffle.lodestone.plan.counts.{CountLimits, PackedLongs}

/**
 * The numbers of records that map attempts wrote for each partition, within limits of memory. The
 * event loop owns them, like all state of the driver.
 */
private[driver] final class MapCounts(
    mostBytes: Long = CountLimits.MostBytes,
    mostBytesOfShuffle: Long = CountLimits.MostBytesOfShuffle,
    mostInAnswer: Int = CountLimits.MostInAnswer) extends Logged {
  import MapCounts._

  /** All shuffles. The one that was idle longest comes first. */
  private val shuffles = new JLinkedHashMap[Int, Counts](16, 0.75f, true)
  private var bytes = 0L
  private var saidFull = false

  /** @param numberBytes the least bytes of a number */
  def registered(
      shuffleId: Int,
      numMaps: Int,
      numPartitions: Int,
      numberBytes: Int = 1): Unit =
    if (CountLimits.isKept(numMaps, numPartitions, numberBytes)) {
      shuffles.put(shuffleId, new Counts(numMaps, numPartitions))
      ()
    }

  def counted(message: MapCounted): Unit =
    Option(shuffles.get(message.shuffleId)).foreach { counts =>
      if (counts.fits(message) && !counts.isFull) {
        bytes += counts.add(message)
        if (counts.bytes > mostBytesOfShuffle) {
          counts.isFull = true
          sayFull(message.shuffleId)
        }
        makeRoom()
      }
    }

  /**
   * Returns the known numbers of these maps and partitions. The answer may end before the last map.
   */
  def answer(asked: GetCounts): CountedMaps =
    Option(shuffles.get(asked.shuffleId)).fold(CountedMaps.Nothing)(_.answer(asked, mostInAnswer))

  def removed(shuffleId: Int): Unit =
    Option(shuffles.remove(shuffleId)).foreach(counts => bytes -= counts.bytes)

  /** The memory of all numbers, with the objects around them. */
  def bytesHeld: Long = bytes

  private def makeRoom(): Unit = {
    val eldest = shuffles.entrySet().iterator()
    while (bytes > mostBytes && eldest.hasNext) {
      val entry = eldest.next()
      // A shuffle without numbers makes no room.
      if (entry.getValue.bytes > 0) {
        sayFull(entry.getKey)
        bytes -= entry.getValue.forget()
      }
    }
  }

  private def sayFull(shuffleId: Int): Unit = if (!saidFull) {
    saidFull = true
    log.warn(
      s"The driver keeps $bytes bytes of numbers of records, and has no room for more: readers " +
        s"may take originals of shuffle $shuffleId, and later of others, without a check. " +
        "RECORDS_UNCHECKED counts these blocks. This warning is not repeated.")
  }
}

private object MapCounts {

  /** The size of the objects around the bytes of one attempt. */
  private val BytesAround = 128

  /**
   * The limit for one map. Two attempts of a task may run at a time, and Spark may accept either.
   */
  private val MostAttempts = 2

  private final class Attempt(val mapId: Long, val records: PackedLongs) {
    def bytes: Long = records.bytes.toLong + BytesAround
  }

  private final class Counts(numMaps: Int, numPartitions: Int) {
    private val maps = mutable.LongMap.empty[List[Attempt]]
    var bytes = 0L

    /** True if no more numbers of it are kept. */
    var isFull = false

    def fits(message: MapCounted): Boolean =
      message.mapIndex >= 0 && message.mapIndex < numMaps && message.records.length == numPartitions

    /** Adds the numbers of an attempt. Returns by how many bytes the memory grows. */
    def add(message: MapCounted): Long = {
      val before = maps.getOrElse(message.mapIndex.toLong, Nil)
      val now = new Attempt(message.mapId, message.records) ::
        before.filter(_.mapId != message.mapId).take(MostAttempts - 1)
      maps.put(message.mapIndex.toLong, now)
      val growth = now.map(_.bytes).sum - before.map(_.bytes).sum
      bytes += growth
      growth
    }

    /** Forgets all numbers. Returns how many bytes they had. */
    def forget(): Long = {
      val freed = bytes
      maps.clear()
      bytes = 0
      isFull = true
      freed
    }

    def answer(asked: GetCounts, mostInAnswer: Int): CountedMaps = {
      val first = math.max(0, asked.startPartition)
      val end = math.max(first, math.min(asked.endPartition, numPartitions))
      val endMap = math.min(asked.endMapIndex, numMaps)
      val mapIds = new mutable.ArrayBuilder.ofLong
      val records = new mutable.ArrayBuilder.ofLong
      var mapIndex = math.max(0, asked.startMapIndex)
      var room = mostInAnswer.toLong
      // The answer has at least one map, and the executor asks again from its end.
      while (mapIndex < endMap && (room == mostInAnswer || room >= MostAttempts * (end - first))) {
        maps.getOrElse(mapIndex.toLong, Nil).foreach { attempt =>
          mapIds += attempt.mapId
          var partition = first
          while (partition < end) {
            records += attempt.records(partition)
            partition += 1
          }
          room -= end - first
        }
        mapIndex += 1
      }
      CountedMaps(
        if (mapIndex < endMap) mapIndex else CountedMaps.NoMore,
        first,
        end,
        PackedLongs(mapIds.result()),
        PackedLongs(records.result()))
    }
  }
}
