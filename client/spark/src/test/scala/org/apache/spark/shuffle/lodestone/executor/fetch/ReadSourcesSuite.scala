// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.util.Random

import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Assertions._

import org.apache.spark.shuffle.lodestone.plan.ServiceLocation
import org.apache.spark.shuffle.lodestone.wire.{LaidRun, LaidSegment, PartitionLayout, Status}
import org.apache.spark.storage.{BlockId, BlockManagerId, RDDBlockId, ShuffleBlockId}
import org.apache.spark.util.SizeEstimator

class ReadSourcesSuite {

  private val service = ServiceLocation("127.0.0.1", 7337, 1L)
  private val hosts = Vector("a", "b").map(host => BlockManagerId(host, host, 7000))

  /** The attempt that Spark accepted. */
  private def attempt(map: Int): Long = 100L + map

  private def block(reduce: Int, map: Int): (BlockId, Long, Int) =
    (ShuffleBlockId(1, attempt(map), reduce), 10L, map)

  private def originals(blocks: (Int, Int)*): ReadSources.BlocksByAddress =
    blocks
      .groupBy { case (_, map) => hosts(map % 2) }
      .toSeq
      .map { case (host, list) => host -> list.map { case (reduce, map) => block(reduce, map) } }

  private def segment(map: Int): LaidSegment = LaidSegment(map, attempt(map), 0, 10, -1, 0)

  /** One run of slots after the other, with a gap of ten slots between them. */
  private def layout(reduce: Int, runs: Seq[LaidSegment]*): (ServiceLocation, PartitionLayout) = {
    val starts = runs.scanLeft(0)((first, run) => first + run.size + 10)
    val laid = starts.zip(runs).map { case (first, run) => LaidRun(first, run.toArray) }
    service -> PartitionLayout(reduce, Status.Ok, laid.toArray)
  }

  private def slotsOf(chunk: FetchChunk): Seq[(Int, Int)] =
    chunk.runs.toSeq.map(run => (run.first, run.count))

  private def blocksOf(blocks: ReadSources.BlocksByAddress): Set[(BlockId, Int)] =
    blocks.flatMap { case (_, list) => list.map { case (id, _, map) => (id, map) } }.toSet

  private def mapsOf(sources: ReadSources): Seq[Seq[Int]] =
    sources.merged.flatMap(_.chunks.map(_.segments.map(_.mapIndex).toSeq).toSeq)

  @Test def `a chunk of accepted attempts stands for its originals and holes stay originals`()
      : Unit = {
    val sources =
      ReadSources(originals((0, 0), (0, 1), (0, 2)), Seq(layout(0, Seq(segment(2), segment(0)))))
    assertEquals(Seq(Seq(2, 0)), mapsOf(sources))
    assertEquals(Set((ShuffleBlockId(1, 101, 0), 1)), blocksOf(sources.originals))
    assertEquals(2, ReadSources.countOf(sources.replaced))
    assertEquals(0, sources.rejectedBlocks)
  }

  @Test def `merged blocks count with their lengths where Spark sees larger sizes`(): Unit = {
    val encoded = Seq(segment(2), segment(0)).map(_.copy(length = 3))
    val blocks = originals((0, 0), (0, 1), (0, 2))
    assertEquals(30, ReadSources(blocks, Nil).mostBytes)
    assertEquals(3 + 10 + 3, ReadSources(blocks, Seq(layout(0, encoded))).mostBytes)
  }

  @Test def `a chunk has no more runs of slots than a service takes`(): Unit = {
    val cut = new ChunkCut(service, 0, Long.MaxValue)
    val maps = 0 to 2 * ChunkCut.MaxRuns
    // Two segments in the last run that has room, and one between runs.
    val slots = maps.map(map => if (map < ChunkCut.MaxRuns) 2 * map else 2 * map - 1)
    for ((map, slot) <- maps.zip(slots)) cut.add(slot, segment(map))
    val chunks = cut.result()
    assertEquals(Seq(ChunkCut.MaxRuns, ChunkCut.MaxRuns), chunks.map(_.runs.length))
    assertEquals(maps, chunks.flatMap(_.segments.map(_.mapIndex)))
    assertEquals(
      slots,
      chunks.flatMap(slotsOf).flatMap { case (first, count) => first until first + count })
  }

  @Test def `layouts are asked for of the partitions alone that have blocks`(): Unit = {
    val blocks = originals((16777216, 0), (3, 1), (3, 0), (7, 1))
    assertEquals(Seq(3, 7, 16777216), ReadSources.partitionsOf(blocks.map(_._2)))
  }

  @Test def `a task may read very many partitions of a few blocks`(): Unit = {
    val partitions = 10000
    val list = (0 until partitions).map(block(_, 0))
    val bytes = SizeEstimator.estimate(WantedBlocks(Seq(list), _ => 0))
    assertTrue(bytes / partitions < 512, s"$bytes bytes for $partitions blocks")
  }

  @Test def `an attempt that Spark did not accept is not fetched`(): Unit = {
    val stale = segment(1).copy(mapId = 999L)
    val sources = ReadSources(
      originals((0, 0), (0, 1), (0, 2), (0, 3)),
      Seq(layout(0, Seq(stale, segment(0), stale, segment(2)), Seq(segment(3), stale))))
    assertEquals(Seq(Seq(0, 2, 3)), mapsOf(sources))
    val chunk = sources.merged.head.chunks.next()
    assertEquals(Seq((1, 1), (3, 1), (14, 1)), slotsOf(chunk))
    assertEquals(30L, chunk.sizeBytes)
    assertEquals(Set((ShuffleBlockId(1, 101, 0), 1)), blocksOf(sources.originals))
    assertEquals(1, sources.rejectedBlocks)
  }

  @Test def `a chunk ends with the segment that brings it to two mebibytes`(): Unit = {
    val mib = 1 << 20
    val lengths = Seq(mib, mib - 1, 1, 5 * mib, mib, mib, 7)
    val segments = lengths.zipWithIndex.map { case (length, map) =>
      segment(map).copy(length = length)
    }
    val sources = ReadSources(originals(lengths.indices.map((0, _)): _*), Seq(layout(0, segments)))
    assertEquals(Seq(Seq(0, 1, 2), Seq(3), Seq(4, 5), Seq(6)), mapsOf(sources))
    val slots = sources.merged.head.chunks.map(slotsOf).toSeq
    assertEquals(Seq(Seq((0, 3)), Seq((3, 1)), Seq((4, 2)), Seq((6, 1))), slots)
  }

  @Test def `a map that Spark knows nothing of is left out`(): Unit = {
    for (attempt <- Seq(attempt(7), -1L, Long.MinValue)) {
      val unknown = segment(7).copy(mapId = attempt)
      val sources = ReadSources(originals((0, 0)), Seq(layout(0, Seq(segment(0), unknown))))
      assertEquals(Seq(Seq(0)), mapsOf(sources))
      assertEquals(0, ReadSources.countOf(sources.originals))
      assertEquals(0, sources.rejectedBlocks)
    }
  }

  @Test def `a segment that is in the layout twice is read once`(): Unit = {
    val twice = ReadSources(
      originals((0, 0), (0, 1)),
      Seq(layout(0, Seq(segment(0)), Seq(segment(0), segment(1)))))
    assertEquals(Seq(Seq(0, 1)), mapsOf(twice))
    assertEquals(Seq((0, 1), (12, 1)), slotsOf(twice.merged.head.chunks.next()))
    assertEquals(Nil, twice.originals)
    val within = ReadSources(originals((0, 0)), Seq(layout(0, Seq(segment(0), segment(0)))))
    assertEquals(Seq(Seq(0)), mapsOf(within))
  }

  @Test def `a layout without segments is no chunk`(): Unit =
    assertEquals(Nil, mapsOf(ReadSources(originals((0, 0)), Seq(layout(0, Nil)))))

  @Test def `blocks of another kind stay as they are`(): Unit = {
    val foreign: ReadSources.BlocksByAddress = Seq(hosts.head -> Seq((RDDBlockId(1, 2), 5L, -1)))
    val sources = ReadSources(foreign ++ originals((0, 0)), Seq(layout(0, Seq(segment(0)))))
    assertEquals(Set((RDDBlockId(1, 2), -1)), blocksOf(sources.originals))
    assertEquals(1, ReadSources.countOf(sources.replaced))
  }

  @Test def `whatever the services claim, every original is read exactly once`(): Unit = {
    val seed = System.nanoTime()
    val random = new Random(seed)
    (0 until 500).foreach { round =>
      val all = for (r <- 0 until 3; m <- 0 until 8 if random.nextInt(5) > 0) yield (r, m)
      val claimed = (0 until 3).map { reduce =>
        val segments = random.shuffle((0 until 10).toList).take(random.nextInt(11)).map { map =>
          val known = segment(map)
          if (random.nextInt(10) == 0) known.copy(mapId = -1L) else known
        }
        layout(reduce, segments.grouped(1 + random.nextInt(4)).toSeq: _*)
      }
      val sources = ReadSources(originals(all: _*), claimed)
      val merged =
        sources.merged.flatMap(_.chunks.flatMap(c => c.segments.map(s => (c.reduceId, s))).toSeq)
      val read = merged.map { case (reduce, s) =>
        (ShuffleBlockId(1, s.mapId, reduce), s.mapIndex)
      } ++
        sources.originals.flatMap(_._2.map(b => (b._1, b._3)))
      val expected = all.map { case (r, m) => (ShuffleBlockId(1, attempt(m), r), m) }
      assertEquals(expected.size, read.size, s"seed $seed, round $round")
      assertEquals(expected.toSet[Any], read.toSet[Any], s"seed $seed, round $round")
    }
  }
}
