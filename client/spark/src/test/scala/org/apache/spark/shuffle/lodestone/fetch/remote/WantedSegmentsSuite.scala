// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch.remote

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.driver.RemotePlan
import org.apache.spark.shuffle.lodestone.driver.remote.{RemoteOutput, RemotePart}
import org.apache.spark.shuffle.lodestone.fetch.ChunkCut
import org.apache.spark.shuffle.lodestone.transport.ServiceLocation
import org.apache.spark.shuffle.lodestone.wire._
import org.apache.spark.storage.ShuffleBlockId

/** Outputs of one partition that were pushed by two versions of a plan, of which service `a` has all. */
final class WantedSegmentsSuite {
  private val a = ServiceLocation("host", 1, 7)
  private val b = a.copy(port = 2)
  private val c = a.copy(port = 3)

  private def plan(replicas: Int) =
    RemotePlan(0, numPartitions = 1, replicas, Array(Array(a, c), Array(a, b)))

  /** Maps 0 and 1 by the first version, 2 and 3 by the second one, 4 by both. */
  private val outputs = Seq(Seq(0) -> Seq(0, 1), Seq(1) -> Seq(2, 3), Seq(0, 1) -> Seq(4)).map {
    case (versions, maps) =>
      val blocks = maps.map(map => (ShuffleBlockId(9, map + 100L, 0), 10L, map))
      RemoteOutput(0, versions.map(RemotePart(_, Nil))) -> blocks
  }

  private val layout = {
    val segments = Seq(0, 1, 0, 2, 3, 4, 4).zipWithIndex.map { case (map, i) =>
      LaidSegment(map, map + 100L, sequence = i, length = 10, records = 1, crc32c = i)
    }
    PartitionLayout(0, Status.Ok, Array(LaidRun(0, segments.toArray)))
  }

  /** The maps of each chunk that is read from `a`. */
  private def chunks(replicas: Int): Seq[Seq[Int]] = {
    val wanted = new WantedSegments(outputs, plan(replicas))
    val pick = new PartitionPick(0, wanted.blocks(0), ChunkCut.ChunkBytes)
    pick.add(a, layout, wanted.blocks(0), isOnlyOne = true)
    assertEquals(0, pick.missing)
    pick.result().map(_.segments.map(_.mapIndex).toSeq)
  }

  @Test def `all of a chunk has its copies at the same service`(): Unit =
    assertEquals(Seq(Seq(0, 1, 0), Seq(2, 3), Seq(4), Seq(4)), chunks(replicas = 2))

  @Test def `where there are no copies a chunk is as large as it may be`(): Unit =
    assertEquals(Seq(Seq(0, 1, 0, 2, 3, 4, 4)), chunks(replicas = 1))

  @Test def `a service that cannot be asked is not while another one has all`(): Unit = {
    val wanted = new WantedSegments(outputs, plan(2))
    assertEquals(Right(Set(b, c)), wanted.sources(Set(a)).map(_.keySet))
    assertEquals(Left(0), wanted.sources(Set(a, b)))
  }
}
