// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import scala.util.Random

import org.junit.jupiter.api.Assertions.{assertEquals, assertNotEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShufflePlan}
import org.apache.spark.shuffle.lodestone.wire.PushBatch

final class PushPlanSuite {
  private def merge(partitions: Int, services: Int): ShufflePlan =
    ShufflePlan(
      generation = 0,
      partitions,
      replicas = 1,
      Array(Array.tabulate(services)(ServiceLocation("a", _, 1))))

  /** (reduceId, offset, length) of every block in the plan. */
  private def blocksOf(plan: PushPlan): Seq[(Int, Long, Int)] = plan.requests.flatMap { request =>
    assertEquals(request.sizeBytes.toLong, request.ranges.map(_.length).sum)
    val bytes = request.ranges.iterator.flatMap { range =>
      (0L until range.length).iterator.map(range.offset + _)
    }
    request.reduceIds.indices.map { i =>
      val place = Vector.fill(request.lengths(i))(bytes.next())
      assertEquals(Vector.tabulate(place.size)(place.head + _), place, "a block in two pieces")
      (request.reduceIds(i), place.head, request.lengths(i))
    }
  }

  @Test def everyBlockWorthPushingIsInExactlyOneRequestAtItsPlaceInTheFile(): Unit = {
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
      val plan = PushPlan(lengths, merging.copy(maxBlockBytes = maxBlock), batch, random)
      val offsets = lengths.scanLeft(0L)(_ + _)
      val expected = lengths.indices
        .filter(r => lengths(r) > 0 && lengths(r) <= maxBlock)
        .map(r => (r, offsets(r), lengths(r).toInt))
      assertEquals(expected, blocksOf(plan).sortBy(_._1), said)
      assertEquals(lengths.count(_ > maxBlock), plan.tooLarge, said)
      plan.requests.foreach { request =>
        assertTrue(request.sizeBytes <= batch, said)
        request.reduceIds.foreach { reduceId =>
          val service = merging.services(request.serviceIndex)
          assertEquals(Seq(service), merging.servicesOf(reduceId), said)
        }
      }
    }
  }

  @Test def aRequestNeverHoldsMoreSegmentsThanTheProtocolAllows(): Unit = {
    val lengths = Array.fill(PushBatch.MaxSegments + 1)(1L)
    val plan = PushPlan(lengths, merge(lengths.length, 1), 1 << 20, new Random(1))
    assertEquals(Set(PushBatch.MaxSegments, 1), plan.requests.map(_.reduceIds.length).toSet)
  }

  @Test def smallBlocksOfOneServiceTravelTogether(): Unit = {
    Seq(2, 16).foreach { services =>
      val plan = PushPlan(Array.fill(1000)(100L), merge(1000, services), 1 << 20, new Random(1))
      assertEquals(services, plan.requests.size)
    }
  }

  @Test def mapsBeginWithDifferentRequests(): Unit = {
    val lengths = Array.fill(100)(100L)
    def order(seed: Long) =
      PushPlan(lengths, merge(100, 1), 100, new Random(seed)).requests.map(_.ranges.head.offset)
    assertNotEquals(order(1), order(2))
  }

  @Test def offsetsBeyondTwoGigabytesAreKept(): Unit = {
    val lengths = Array(3L << 30, 5L)
    val plan = PushPlan(lengths, merge(2, 1).copy(maxBlockBytes = 1 << 20), 4 << 20, new Random(1))
    assertEquals(Seq((1, 3L << 30, 5)), blocksOf(plan))
    assertEquals(1, plan.tooLarge)
  }

  @Test def requestsOfAMapHaveNamesThatDoNotOverlap(): Unit = {
    val plan = PushPlan(Array.fill(1000)(100L), merge(1000, 3), 4000, new Random(1))
    val names = plan.requests.flatMap { request =>
      request.firstSegment until request.firstSegment + request.reduceIds.length
    }
    assertEquals((0 until 1000).toSet, names.toSet)
    assertEquals(1000, names.size)
  }
}
