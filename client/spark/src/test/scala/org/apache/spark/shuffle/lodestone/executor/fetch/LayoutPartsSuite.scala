// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}

import org.apache.spark.shuffle.lodestone.driver.ScriptedService
import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, Reason}
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.{Application, BlockSequence, LaidRun, LaidSegment}
import org.apache.spark.shuffle.lodestone.wire.{MapRange, PartitionLayout, Refused}
import org.apache.spark.shuffle.lodestone.wire.{SegmentLayout, SegmentLayoutReply, SegmentRun}
import org.apache.spark.shuffle.lodestone.wire.Status

/** Layouts that a service does not send in one answer. */
final class LayoutPartsSuite {

  /** What a daemon with 16 MiB has in one answer. */
  private val mostSegments = 13107
  private val client = new ServiceClient(Application("app", -1), 20000)
  private val service = new ScriptedService(1)

  @AfterEach def stop(): Unit = {
    client.close()
    service.close()
  }

  /** All segments of the maps, in turn: the first one of each, then the second one of each. */
  private def segments(maps: Int, perBlock: Int): IndexedSeq[LaidSegment] =
    for (number <- 0 until perBlock; map <- 0 until maps) yield {
      val sequence = BlockSequence(number)
      val marked = if (number == perBlock - 1) BlockSequence.last(sequence) else sequence
      LaidSegment(map, map + 100L, marked, 10, -1, map)
    }

  private def partition(
      reduceId: Int,
      maps: MapRange,
      all: IndexedSeq[LaidSegment]): PartitionLayout = {
    val runs = all.indices
      .filter(slot => maps.start <= all(slot).mapIndex && all(slot).mapIndex < maps.end)
      .foldLeft(List.empty[(Int, Int)]) {
        case ((first, end) :: others, slot) if slot == end => (first, end + 1) :: others
        case (before, slot) => (slot, slot + 1) :: before
      }
    val laid = runs.reverse.map { case (first, end) =>
      LaidRun(first, all.slice(first, end).toArray)
    }
    PartitionLayout(reduceId, Status.Ok, laid.toArray)
  }

  /** A service that shows these segments in each partition. */
  private def showing(all: IndexedSeq[LaidSegment], most: Int = mostSegments): Unit = {
    service.answering { case asked: SegmentLayout =>
      val partitions = asked.reduceIds.map(partition(_, asked.maps, all))
      val count = partitions.iterator.flatMap(_.runs).map(_.segments.length).sum
      if (count > most) Answer(Refused(Status.TooLarge, 1, s"over $most segments"))
      else Answer(SegmentLayoutReply(1, BlockFormat.SparkStream.name, partitions))
    }
    ()
  }

  private def ask(partitions: Int, maps: Int): Seq[LayoutAnswer] = {
    val at = ServiceLocation(service.address.host, service.address.port, service.incarnation)
    val reader =
      new LayoutReader(client, ShuffleGeneration(3, 0), BlockFormat.SparkStream, MapRange(0, maps))
    reader.askOnce(Seq(at -> (0 until partitions)))(_ => maps)
  }

  /** What the task would fetch of each partition. */
  private def cut(answers: Seq[LayoutAnswer]): Seq[(Int, Seq[SegmentRun], Seq[LaidSegment])] =
    for {
      one <- answers
      layout <- one.layouts.toSeq.flatten
      chunk <- new ChunkCut(one.service, layout.reduceId).addFrom(layout)(_ => true).result()
    } yield (chunk.reduceId, chunk.runs.toSeq, chunk.segments.toSeq)

  private def assertAllShown(partitions: Int, maps: Int, perBlock: Int, requests: Int): Unit = {
    val all = segments(maps, perBlock)
    showing(all)
    val found = cut(ask(partitions, maps))
    val runs = found.map { case (reduceId, runs, _) => reduceId -> runs }
    assertEquals((0 until partitions).map(_ -> Seq(SegmentRun(0, all.size))), runs)
    // In a message that fails, they would be megabytes.
    assertTrue(found.forall(_._3 == all), "these are other segments")
    assertEquals(requests, service.seen(classOf[SegmentLayout]))
  }

  @Test def `partitions of more blocks than one answer has are asked for by halves`(): Unit =
    assertAllShown(partitions = 20, maps = 1000, perBlock = 1, requests = 3)

  @Test def `one partition of more blocks than one answer has is asked for by halves of its maps`()
      : Unit =
    assertAllShown(partitions = 1, maps = 20000, perBlock = 1, requests = 3)

  @Test def `segments that maps pushed in turn are read in the order of their slots`(): Unit =
    // All, 7 maps, 3 and 4 of the 7, and the same again for the other half.
    assertAllShown(partitions = 1, maps = 14, perBlock = 2500, requests = 7)

  @Test def `a block that is too large for an answer fails its layout after a few requests`()
      : Unit = {
    showing(segments(maps = 1000, perBlock = 1), most = 0)
    val failed = ask(partitions = 20, maps = 1000).map(one => one.reduceIds -> one.layouts)
    assertEquals(Seq((0 until 20) -> Left(Reason.LayoutFailed)), failed)
    // Halves of 20 partitions, and then of 1,000 maps.
    val requests = service.seen(classOf[SegmentLayout])
    assertTrue(requests <= 16, s"$requests requests")
  }
}
