// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.executor.fetch.{ChunkCut, WantedBlocks}
import org.apache.spark.shuffle.lodestone.plan.{RemoteOutput, RemotePart, ServiceLocation}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.wire.{LaidRun, LaidSegment, PartitionLayout, Status}
import org.apache.spark.storage.ShuffleBlockId

/** Outputs of one partition, pushed by two versions of a plan. Service `a` has all. */
final class WantedSegmentsSuite {
  private val a = ServiceLocation("host", 1, 7)
  private val b = a.copy(port = 2)
  private val c = a.copy(port = 3)

  private def plan(replicas: Int) =
    ShufflePlan(0, numPartitions = 1, replicas, Array(Array(a, c), Array(a, b)))

  /** Maps 0 and 1 by the first version, 2 and 3 by the second one, 4 by both. */
  private val outputs = Seq(Seq(0) -> Seq(0, 1), Seq(1) -> Seq(2, 3), Seq(0, 1) -> Seq(4)).map {
    case (versions, maps) =>
      val blocks = maps.map(map => (ShuffleBlockId(9, map + 100L, 0), 10L, map))
      RemoteOutput(0, versions.map(RemotePart(_, Nil))) -> blocks
  }

  private val layout = {
    val sequences = Seq(0 -> 0, 1 -> 1, 0 -> 3, 2 -> 1, 3 -> 1, 4 -> 0, 4 -> 3)
    laid(sequences.map { case (map, sequence) => segment(map, sequence) }: _*)
  }

  private def segment(map: Int, sequence: Int, length: Int = 10): LaidSegment =
    LaidSegment(map, map + 100L, sequence, length, records = 1, crc32c = sequence)

  private def laid(segments: LaidSegment*): PartitionLayout =
    PartitionLayout(0, Status.Ok, Array(LaidRun(0, segments.toArray)))

  /** The maps of each chunk that is read from `a`. */
  private def chunks(replicas: Int): Seq[Seq[Int]] = {
    val wanted = new WantedSegments(outputs, plan(replicas))
    val pick = new PartitionPick(0, wanted.blocks(0), ChunkCut.ChunkBytes, wanted.mayJoin)
    pick.add(SourceLayout(a, layout, outputs.indices.toSet))
    assertEquals(Nil, pick.missing)
    pick.result().map(_.segments.map(_.mapIndex).toSeq)
  }

  @Test def `all of a chunk has its replicas at the same service`(): Unit =
    assertEquals(Seq(Seq(0, 1, 0), Seq(2, 3), Seq(4), Seq(4)), chunks(replicas = 2))

  @Test def `a chunk without replicas is as large as it may be`(): Unit =
    assertEquals(Seq(Seq(0, 1, 0, 2, 3, 4, 4)), chunks(replicas = 1))

  /** How many blocks of maps 4 and 5 are lost if services show these, and what is read. */
  private def read(shown: Seq[LaidSegment]*): (Int, Seq[Seq[LaidSegment]]) = {
    val wanted = new WantedBlocks
    wanted.add(4, 104)
    wanted.add(5, 105)
    val pick = new PartitionPick(0, wanted, ChunkCut.ChunkBytes)
    Seq(a, b, c).zip(shown).foreach { case (service, segments) =>
      // Anything may be there of an attempt that is not wanted.
      val other = segment(4, 0).copy(mapId = 204)
      pick.add(SourceLayout(service, laid(other +: segments :+ other: _*), Set(0)))
    }
    (pick.missing.size, pick.result().map(_.segments.toSeq))
  }

  private val whole = Seq(segment(5, 1))
  private val three = Seq(0, 2, 5).map(segment(4, _))

  @Test def `a block is read if all its segments are there, in any order and at any services`()
      : Unit = {
    assertEquals((0, Seq(whole ++ three)), read(whole ++ three))
    val mixed = Seq(three(2), whole.head, three(0), three(1))
    assertEquals((0, Seq(mixed)), read(mixed))
    val spread = Seq(Seq(three(1)), Seq(three(2), whole.head), Seq(three(0)))
    assertEquals((0, spread), read(spread: _*))
  }

  @Test def `a block of which the first, a middle or the last segment is missing is lost`(): Unit =
    for (missing <- three) {
      val others = three.filterNot(_ == missing)
      assertEquals(1, read(whole ++ others)._1, s"without $missing")
      assertEquals(1, read(whole, others)._1, s"without $missing, and at two services")
      val (one, another) = others.splitAt(1)
      assertEquals(1, read(one ++ whole, another)._1, s"without $missing, and spread")
    }

  @Test def `a block that nobody shows, or only one of another attempt, is lost`(): Unit = {
    assertEquals(1, read(whole)._1)
    assertEquals(1, read(three)._1)
    assertEquals(2, read()._1)
  }

  @Test def `a segment that two services have is read once`(): Unit = {
    val replicas = read(whole ++ three, three :+ whole.head)
    assertEquals((0, Seq(whole ++ three)), replicas)
    assertEquals(
      (0, Seq(whole ++ three.take(2), three.drop(2))),
      read(whole ++ three.take(2), three))
  }

  @Test def `a segment that one service has twice, or two have differently, is not believed`()
      : Unit = {
    assertEquals(1, read(whole ++ three :+ three(1))._1)
    assertEquals(1, read(whole ++ whole ++ three)._1)
    assertEquals(1, read(whole ++ three, Seq(three(1).copy(crc32c = 77)))._1)
    assertEquals(1, read(whole ++ three, Seq(whole.head.copy(length = 77)))._1)
  }

  @Test def `a block that says of two segments that they are the last is not believed`(): Unit = {
    assertEquals(1, read(whole ++ Seq(0, 3, 5).map(segment(4, _)))._1)
    assertEquals(1, read(whole ++ Seq(1, 3).map(segment(4, _)))._1)
    assertEquals(1, read(whole ++ Seq(0, 1).map(segment(4, _)))._1)
    assertEquals(1, read(whole ++ Seq(0, 3, 4).map(segment(4, _)))._1, "one behind the last")
  }

  @Test def `a segment without bytes ends its block, and is not fetched`(): Unit = {
    val end = segment(4, 5, length = 0)
    assertEquals((0, Seq(three.take(2) ++ whole)), read((three.take(2) :+ end) ++ whole))
    assertEquals((0, Seq(three.take(2), whole)), read(three.take(2), end +: whole))
    assertEquals(1, read(whole :+ end)._1, "the end alone")
  }

  @Test def `a service that cannot be asked is not while another one has all`(): Unit = {
    val wanted = new WantedSegments(outputs, plan(2))
    assertEquals(Right(Set(b, c)), wanted.sources(Set(a)).map(_.keySet))
    assertEquals(Left(0), wanted.sources(Set(a, b)))
  }

  /** Eight maps of a partition with this many bytes, at services `a` and `b`. */
  private def inTwo(bytes: Long, parts: Seq[RemotePart] = Seq(RemotePart(1, Nil))) = {
    val blocks = (0 until 8).map(map => (ShuffleBlockId(9, map + 100L, 0), bytes / 8, map))
    new WantedSegments(Seq(RemoteOutput(0, parts) -> blocks), plan(2))
  }

  private def sourcesOf(wanted: WantedSegments, without: ServiceLocation*): Int =
    wanted.sources(without.toSet, shared = true).map(_.size).getOrElse(0)

  @Test def `only a large partition that two services have as a whole is read from both`(): Unit = {
    assertEquals(2, sourcesOf(inTwo(9 << 20)))
    assertEquals(Some(4), inTwo(9 << 20).middleOf(0))
    assertEquals(1, sourcesOf(inTwo(8 << 20)), "in the order of its maps")
    assertEquals(1, sourcesOf(inTwo(9 << 20), b))
    assertEquals(1, inTwo(9 << 20).sources(Set.empty).map(_.size).getOrElse(0))
    val several = Seq(RemotePart(0, Nil), RemotePart(1, Nil))
    assertEquals(None, inTwo(9 << 20, several).middleOf(0), "pushed by two versions of a plan")
    assertEquals(None, inTwo(9 << 20, Seq(RemotePart(1, Seq(1)))).middleOf(0), "one copy")
  }

  @Test def `what a map did not send to other services keeps no partition from being shared`()
      : Unit = {
    val plan = ShufflePlan(0, numPartitions = 1, replicas = 2, Array(Array(a, b, c)))
    def outputs(without: Seq[Int]*) = without.zipWithIndex.map { case (of, map) =>
      RemoteOutput(0, Seq(RemotePart(0, of))) ->
        Seq((ShuffleBlockId(9, map + 100L, 0), 5L << 20, map))
    }
    val others = (0 until 3).filterNot(plan.indexesOf(0, plan.groupOf(0, 0)).contains)
    assertEquals(1, others.size)
    assertEquals(Some(1), new WantedSegments(outputs(Nil, others), plan).middleOf(0))
    val one = plan.indexesOf(0, plan.groupOf(0, 0)).take(1)
    assertEquals(None, new WantedSegments(outputs(Nil, one.toSeq), plan).middleOf(0))
  }

  @Test def `two replicas in turn give each segment once, and a block that one lacks is missed`()
      : Unit = {
    def pick(ofB: Seq[LaidSegment]): PartitionPick = {
      val wanted = new WantedBlocks
      for (map <- 0 until 4) wanted.add(map, map + 100L)
      val all = laid((0 until 4).map(segment(_, 1)): _*)
      val pick = new PartitionPick(0, wanted, ChunkCut.OneSegment)
      pick.share(SourceLayout(a, all, Set(0)), SourceLayout(b, laid(ofB: _*), Set(0)), middle = 2)
      pick
    }
    val whole = pick(Seq(3, 2, 1, 0).map(segment(_, 1)))
    assertEquals(Nil, whole.missing)
    val read = whole.result().map(chunk => (chunk.service, chunk.segments.head.mapIndex))
    assertEquals(Seq(a -> 0, b -> 3, a -> 1, b -> 2), read)
    assertEquals(Seq(3 -> 103L), pick(Seq(2, 1).map(segment(_, 1))).missing)
  }
}
