// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.junit.jupiter.api.Assertions.{assertEquals, assertNotEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShufflePlan}
import org.apache.spark.shuffle.lodestone.wire.PushBatch

final class PushRequestsSuite {
  private def merge(partitions: Int, services: Int): ShufflePlan =
    ShufflePlan(
      generation = 0,
      partitions,
      replicas = 1,
      Array(Array.tabulate(services)(ServiceLocation("a", _, 1))))

  /** (reduceId, offset, length) of every block in a request. */
  private def blocksOf(requests: Seq[PushRequest], lengths: Array[Long]): Seq[(Int, Long, Int)] =
    requests.flatMap { request =>
      val ranges = ArrayBuffer.empty[(Long, Long)]
      request.ranges(lengths.scanLeft(0L)(_ + _))((offset, length) => ranges += offset -> length)
      assertEquals(request.sizeBytes.toLong, ranges.map(_._2).sum)
      val bytes = ranges.iterator.flatMap { case (offset, length) =>
        (0L until length).iterator.map(offset + _)
      }
      request.reduceIds.toSeq.map { reduceId =>
        val place = Vector.fill(lengths(reduceId).toInt)(bytes.next())
        assertEquals(Vector.tabulate(place.size)(place.head + _), place, "a block in two pieces")
        (reduceId, place.head, place.size)
      }
    }

  @Test def everyBlockWorthPushingIsInExactlyOneRequestAtItsOffset(): Unit = {
    val seed = System.nanoTime()
    val random = new Random(seed)
    for (round <- 0 until 500) {
      val said = s"seed $seed, round $round"
      val lengths = Array.fill(1 + random.nextInt(200)) {
        if (random.nextInt(4) == 0) 0L else random.nextInt(300).toLong
      }
      val merging = merge(lengths.length, 1 + random.nextInt(math.min(5, lengths.length)))
      val maxBlock = 1L + random.nextInt(300)
      val batch = maxBlock + random.nextInt(1000)
      val limited = merging.copy(maxBlockBytes = maxBlock)
      val requests = PushRequests(lengths, limited, batch, random)
      val offsets = lengths.scanLeft(0L)(_ + _)
      val expected = lengths.indices
        .filter(r => lengths(r) > 0 && lengths(r) <= maxBlock)
        .map(r => (r, offsets(r), lengths(r).toInt))
      assertEquals(expected, blocksOf(requests, lengths).sortBy(_._1), said)
      requests.foreach { request =>
        assertTrue(request.sizeBytes <= batch, said)
        request.reduceIds.foreach { reduceId =>
          val service = merging.services(request.serviceIndex)
          assertEquals(Seq(service), merging.servicesOf(reduceId), said)
        }
        val ofService = requests.count(_.serviceIndex == request.serviceIndex)
        assertEquals(ofService == 1, request.isWhole, said)
      }
    }
  }

  @Test def aRequestNeverHoldsMoreSegmentsThanTheProtocolAllows(): Unit = {
    val lengths = Array.fill(PushBatch.MaxSegments + 1)(1L)
    val requests = PushRequests(lengths, merge(lengths.length, 1), 1 << 20, new Random(1))
    assertEquals(Set(PushBatch.MaxSegments, 1), requests.map(_.reduceIds.length).toSet)
  }

  @Test def smallBlocksOfOneServiceTravelTogether(): Unit = {
    Seq(2, 16).foreach { services =>
      val lengths = Array.fill(1000)(100L)
      val requests = PushRequests(lengths, merge(1000, services), 1 << 20, new Random(1))
      assertEquals(services, requests.size)
    }
  }

  @Test def mapsBeginWithDifferentRequests(): Unit = {
    val lengths = Array.fill(100)(100L)
    def order(seed: Long) =
      PushRequests(lengths, merge(100, 1), 100, new Random(seed)).map(_.reduceIds.head)
    assertNotEquals(order(1), order(2))
  }

  @Test def offsetsBeyondTwoGigabytesAreKept(): Unit = {
    val lengths = Array(3L << 30, 5L)
    val plan = merge(2, 1).copy(maxBlockBytes = 1 << 20)
    val requests = PushRequests(lengths, plan, 4 << 20, new Random(1))
    assertEquals(Seq((1, 3L << 30, 5)), blocksOf(requests, lengths))
  }

  @Test def requestsOfAMapHaveNamesThatDoNotOverlap(): Unit = {
    val requests = PushRequests(Array.fill(1000)(100L), merge(1000, 3), 4000, new Random(1))
    val names = requests.flatMap { request =>
      request.firstSegment until request.firstSegment + request.reduceIds.length
    }
    assertEquals((0 until 1000).toSet, names.toSet)
    assertEquals(1000, names.size)
  }
}
