// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote.faults

import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}

import org.apache.spark.ShuffleDependency
import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.shuffle.lodestone.executor.push.records.faults.RowKind
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.{ChunkReceiver, DamagedChunkException}
import org.apache.spark.shuffle.lodestone.transport.{ServiceClient, SizedChunk}
import org.apache.spark.shuffle.lodestone.wire.{
  BlockSequence,
  SeenSegments,
  WantedChunk,
  LaidSegment
}
import org.apache.spark.shuffle.lodestone.wire.{MapRange, SegmentRun}
import org.apache.spark.storage.ShuffleBlockId

/**
 * The segments of one map attempt that a service shows to readers, in the order in which they were
 * made.
 */
private[remote] final class ShownBlocks(
    client: ServiceClient,
    service: ServiceLocation,
    dependency: ShuffleDependency[Any, Any, Any],
    mapId: Long,
    kind: RowKind,
    story: String) {
  private val id = ShuffleGeneration(dependency.shuffleId, 0)

  /** By partition. A segment, and where it is among those of its partition. */
  private val withSlots: Map[Int, Seq[(Int, LaidSegment)]] = {
    val reduceIds = (0 until dependency.partitioner.numPartitions).toArray
    val asked = client.layout(service, id, MapRange.All, reduceIds, reduceIds.length)
    val layouts = ShownBlocks.await(asked).partitions
    layouts.map { layout =>
      val all = for {
        run <- layout.runs.toSeq
        (segment, i) <- run.segments.toSeq.zipWithIndex
      } yield (run.first + i, segment)
      layout.reduceId -> all
    }.toMap
  }
  private val bytesOf: Map[(Int, Int), Array[Byte]] =
    withSlots.toSeq.flatMap { case (reduceId, all) =>
      all.map { case (slot, segment) =>
        (reduceId, slot, segment)
      }
    }.grouped(ShownBlocks.MostChunks).flatMap(fetched).toMap

  def count: Int = withSlots.values.map(_.size).sum

  def recordsOf(reduceId: Int): Iterator[(Any, Any)] = {
    val segments = withSlots(reduceId).sortBy { case (_, segment) =>
      BlockSequence.numberOf(segment.sequence)
    }
    assertTrue(segments.forall(_._2.mapId == mapId), s"an attempt that was not committed, $story")
    val met = new SeenSegments
    segments.foreach { case (_, segment) => met.add(segment) }
    assertTrue(segments.isEmpty || met.isWhole(0), s"segments of $reduceId are missing, $story")
    segments.iterator.flatMap { case (slot, segment) =>
      val bytes = bytesOf((reduceId, slot))
      assertEquals(segment.length, bytes.length, story)
      val records = recordsIn(reduceId, bytes).toVector
      assertEquals(segment.records, records.size, s"records of a segment of $reduceId, $story")
      records
    }
  }

  private def recordsIn(reduceId: Int, bytes: Array[Byte]): Iterator[(Any, Any)] =
    if (bytes.isEmpty) {
      Iterator.empty
    } else {
      val block = ShuffleBlockId(id.shuffleId, mapId, reduceId)
      // A row object is used again and again by its stream.
      kind.recordsIn(block, bytes).map {
        case (key, row: org.apache.spark.sql.catalyst.expressions.UnsafeRow) => (key, row.copy())
        case record => record
      }
    }

  private def fetched(
      wanted: Seq[(Int, Int, LaidSegment)]): Seq[((Int, Int), Array[Byte])] = {
    val came = new Array[Array[Byte]](wanted.size)
    val over = new CountDownLatch(wanted.size)
    val receiver = new ChunkReceiver {
      override def received(i: Int, data: ManagedBuffer): Option[DamagedChunkException] = {
        val bytes = new Array[Byte](data.size().toInt)
        data.nioByteBuffer().get(bytes)
        came(i) = bytes
        over.countDown()
        None
      }
      override def failed(i: Int, cause: Throwable): Unit = over.countDown()
    }
    val chunks = wanted.map { case (reduceId, slot, segment) =>
      SizedChunk(WantedChunk(reduceId, Array(SegmentRun(slot, 1))), segment.length.toLong)
    }
    client.fetchChunks(service, id, chunks.toArray, receiver)
    assertTrue(over.await(60, TimeUnit.SECONDS), s"chunks did not come, $story")
    wanted.zip(came).map { case ((reduceId, slot, _), bytes) =>
      assertTrue(bytes != null, s"a chunk failed, $story")
      (reduceId, slot) -> bytes
    }
  }
}

private[remote] object ShownBlocks {
  private val MostChunks = 1000

  def await[T](answer: Future[T]): T = Await.result(answer, 60.seconds)
}
