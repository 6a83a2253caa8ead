// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.counts

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.LogCapture
import org.apache.spark.shuffle.lodestone.plan.{CountedMaps, GetCounts, MapCounted}
import org.apache.spark.shuffle.lodestone.plan.counts.{CountLimits, PackedLongs}
import org.apache.spark.util.SizeEstimator

/** The numbers of records that the driver keeps. */
final class MapCountsSuite {
  private val partitions = 10

  /** A different number for each map and partition, so that each shows its origin. */
  private def counted(shuffleId: Int, mapIndex: Int, mapId: Long): MapCounted =
    MapCounted(
      shuffleId,
      mapIndex,
      mapId,
      PackedLongs(Array.tabulate(partitions)(p => mapId * 100 + p)))

  private def known(counts: MapCounts, asked: GetCounts): Map[Long, Seq[Long]] = {
    val answer = counts.answer(asked)
    val rows = answer.mapIds.length
    val width = answer.endPartition - answer.startPartition
    assertEquals(rows * width, answer.records.length)
    val here = (0 until rows).map { row =>
      answer.mapIds(row) -> (0 until width).map(p => answer.records(row * width + p))
    }.toMap
    if (answer.nextMapIndex == CountedMaps.NoMore) here
    else here ++ known(counts, asked.copy(startMapIndex = answer.nextMapIndex))
  }

  private def all(counts: MapCounts, shuffleId: Int): Map[Long, Seq[Long]] =
    known(counts, GetCounts(shuffleId, 0, Int.MaxValue, 0, Int.MaxValue))

  private def ofMaps(mapIds: Seq[Long], columns: Range): Map[Long, Seq[Long]] =
    mapIds.map(mapId => mapId -> columns.map(p => mapId * 100 + p)).toMap

  private def filled(counts: MapCounts, shuffleId: Int, maps: Int): MapCounts = {
    counts.registered(shuffleId, maps, partitions)
    (0 until maps).foreach(map => counts.counted(counted(shuffleId, map, 1000L + map)))
    counts
  }

  @Test def `a question for some maps and partitions returns just those`(): Unit = {
    val counts = filled(new MapCounts, 1, maps = 20)
    filled(counts, 2, maps = 3)
    assertEquals(ofMaps(1000L to 1019L, 0 until partitions), all(counts, 1))
    assertEquals(ofMaps(1005L to 1006L, 3 until 5), known(counts, GetCounts(1, 5, 7, 3, 5)))
    assertEquals(
      ofMaps(1000L to 1019L, 9 until 10),
      known(counts, GetCounts(1, 0, Int.MaxValue, 9, 10)))
    assertEquals(Map.empty, known(counts, GetCounts(3, 0, Int.MaxValue, 0, 1)))
    assertEquals(Map.empty, known(counts, GetCounts(1, 20, 25, 0, 1)))
  }

  @Test def `answers are cut to a size and go on where they ended`(): Unit = {
    val counts = filled(new MapCounts(mostInAnswer = 45), 1, maps = 20)
    val first = counts.answer(GetCounts(1, 2, 20, 0, partitions))
    assertTrue(first.nextMapIndex > 2 && first.records.length <= 45, s"$first")
    assertEquals(
      ofMaps(1002L to 1019L, 0 until partitions),
      known(counts, GetCounts(1, 2, 20, 0, 99)))
    // One map is more than that.
    val narrow = filled(new MapCounts(mostInAnswer = 5), 1, maps = 3)
    assertEquals(1, narrow.answer(GetCounts(1, 0, 3, 0, partitions)).mapIds.length)
    assertEquals(3, all(narrow, 1).size)
  }

  @Test def `a shuffle whose maps have not run yet is known when there is room`(): Unit = {
    val each = filled(new MapCounts, 1, maps = 20).bytesHeld
    val counts = new MapCounts(mostBytes = each + each / 2)
    counts.registered(9, 20, partitions)
    (1 to 2).foreach(filled(counts, _, maps = 20))
    (1 to 2).foreach(counts.removed)
    assertEquals(ofMaps(1000L to 1019L, 0 until partitions), all(filled(counts, 9, maps = 20), 9))
    counts.removed(9)
    counts.registered(8, 20, partitions)
    (1 to 2).foreach(filled(counts, _, maps = 20))
    (1 to 2).foreach(counts.removed)
    counts.counted(counted(8, mapIndex = 0, mapId = 1000))
    assertEquals(ofMaps(Seq(1000L), 0 until partitions), all(counts, 8))
  }

  @Test def `both attempts of a map are known and the last two of three`(): Unit = {
    val counts = filled(new MapCounts, 1, maps = 2)
    counts.counted(counted(1, mapIndex = 0, mapId = 7))
    assertEquals(ofMaps(Seq(7L, 1000L, 1001L), 0 until partitions), all(counts, 1))
    counts.counted(counted(1, mapIndex = 0, mapId = 8))
    assertEquals(ofMaps(Seq(7L, 8L, 1001L), 0 until partitions), all(counts, 1))
    val bytes = counts.bytesHeld
    counts.counted(counted(1, mapIndex = 0, mapId = 8))
    assertEquals(bytes, counts.bytesHeld)
    assertEquals(ofMaps(Seq(7L, 8L, 1001L), 0 until partitions), all(counts, 1))
  }

  @Test def `numbers that do not fit the shuffle are ignored`(): Unit = {
    val counts = filled(new MapCounts, 1, maps = 2)
    val before = all(counts, 1)
    Seq(counted(1, -1, 5), counted(1, 2, 5), counted(9, 0, 5)).foreach(counts.counted)
    counts.counted(MapCounted(1, 0, 5, PackedLongs(Array(1L, 2L))))
    assertEquals(before, all(counts, 1))
  }

  @Test def `a shuffle that is removed leaves nothing behind`(): Unit = {
    val counts = filled(new MapCounts, 1, maps = 20)
    assertTrue(counts.bytesHeld > 0)
    counts.removed(1)
    assertEquals(0, counts.bytesHeld)
    counts.counted(counted(1, 0, 5))
    assertEquals(Map.empty, all(counts, 1))
  }

  @Test def `beyond the limit the shuffle that was idle longest is forgotten with one warning`()
      : Unit = {
    val each = filled(new MapCounts, 1, maps = 50).bytesHeld
    val counts = new MapCounts(mostBytes = 3 * each + each / 2)
    val said = LogCapture.warnings {
      (1 to 3).foreach(filled(counts, _, maps = 50))
      assertEquals(50, all(counts, 1).size)
      (4 to 6).foreach(filled(counts, _, maps = 50))
    }
    assertTrue(counts.bytesHeld <= 3 * each + each / 2)
    val kept = (1 to 6).filter(all(counts, _).size == 50)
    assertEquals(Seq(4, 5, 6), kept)
    // It was asked for after the second and the third.
    assertEquals(Map.empty, all(counts, 2))
    // Forgotten numbers do not return in parts, and do not drive out complete ones.
    counts.counted(counted(1, 0, 5))
    assertEquals(Map.empty, all(counts, 1))
    assertEquals(1, said.count(_.contains("RECORDS_UNCHECKED")), s"$said")
  }

  @Test def `a shuffle that is idle longest is the first to go`(): Unit = {
    val each = filled(new MapCounts, 1, maps = 50).bytesHeld
    val counts = new MapCounts(mostBytes = 2 * each + each / 2)
    (1 to 2).foreach(filled(counts, _, maps = 50))
    assertEquals(50, all(counts, 1).size)
    filled(counts, 3, maps = 50)
    assertEquals(Seq(1, 3), Seq(1, 2, 3).filter(all(counts, _).nonEmpty))
  }

  @Test def `one shuffle does not take the room of all others`(): Unit = {
    val each = filled(new MapCounts, 1, maps = 50).bytesHeld
    val counts = new MapCounts(mostBytesOfShuffle = each)
    filled(counts, 1, maps = 500)
    filled(counts, 2, maps = 50)
    assertTrue(all(counts, 1).size <= 51)
    assertEquals(50, all(counts, 2).size)
  }

  @Test def `the numbers take the memory that is accounted for`(): Unit = {
    val counts = new MapCounts
    val empty = SizeEstimator.estimate(counts)
    counts.registered(1, 2000, 1000)
    (0 until 2000).foreach { map =>
      val records = PackedLongs(Array.tabulate(1000)(p => 500L + (p * 37 + map) % 300))
      counts.counted(MapCounted(1, map, 1000L + map, records))
    }
    val takes = SizeEstimator.estimate(counts) - empty
    println(s"2,000 x 1,000 numbers of records take $takes bytes of the driver")
    assertTrue(takes <= counts.bytesHeld * 11 / 10, s"$takes, and not ${counts.bytesHeld}")
  }

  @Test def `numbers that cannot fit are not sent`(): Unit = {
    assertTrue(CountLimits.isKept(1000, 1000, 1))
    assertTrue(CountLimits.isKept(100, CountLimits.MostPartitions, 1))
    assertFalse(CountLimits.isKept(100000, 1000, 1))
    assertFalse(CountLimits.isKept(2, CountLimits.MostPartitions + 1, 1))
    assertFalse(CountLimits.isKept(Int.MaxValue, CountLimits.MostPartitions, 1))
    // A checksum of a block of frames has four bytes.
    assertTrue(CountLimits.isKept(4096, 1024, 4))
    assertFalse(CountLimits.isKept(4097, 1024, 4))
    val counts = new MapCounts
    counts.registered(1, 100000, 1000)
    counts.counted(MapCounted(1, 0, 5, PackedLongs(new Array[Long](1000))))
    assertEquals(0, counts.bytesHeld)
  }
}
