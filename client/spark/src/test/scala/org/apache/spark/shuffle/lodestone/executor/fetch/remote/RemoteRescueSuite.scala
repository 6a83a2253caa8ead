// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import java.nio.ByteBuffer
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}

import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.network.shuffle.BlockFetchingListener
import org.apache.spark.shuffle.lodestone.driver.ScriptedService
import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.executor.fetch.{ChunkFetcher, Fallback, FetchChunk}
import org.apache.spark.shuffle.lodestone.executor.fetch.{FetchPartition, Portion, ReadSources}
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadTally
import org.apache.spark.shuffle.lodestone.plan.BlockFormat.SparkStream
import org.apache.spark.shuffle.lodestone.plan.{Reason, ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Application, BlockSequence, Crc32c, FetchSegments}
import org.apache.spark.shuffle.lodestone.wire.{LaidRun, LaidSegment, PartitionLayout, Refused}
import org.apache.spark.shuffle.lodestone.wire.{SegmentLayout, SegmentLayoutReply, SegmentRun}
import org.apache.spark.shuffle.lodestone.wire.Status
import org.apache.spark.storage.{BlockManagerId, ShuffleBlockChunkId}

/** A chunk with replicas, some of them damaged on the disks of their services. */
final class RemoteRescueSuite {
  private val generation = ShuffleGeneration(3, 0)
  private val client = new ServiceClient(Application("app", -1), 5000)
  private val bytes = "rows of a map task".getBytes
  private val written = Seq(segmentOf(1))
  private var services = List.empty[ScriptedService]

  @AfterEach def stop(): Unit = {
    client.close()
    services.foreach(_.close())
  }

  private def segmentOf(map: Int): LaidSegment = LaidSegment(
    map,
    map + 1000L,
    BlockSequence.last(BlockSequence(0)),
    bytes.length,
    -1,
    Crc32c.of(ByteBuffer.wrap(bytes)))

  /** A service that has these segments in the slots from 7 on. */
  private def copy(
      chunk: Int => Reaction,
      has: Seq[LaidSegment] = written,
      mostMaps: Int = Int.MaxValue): ScriptedService = {
    var asked = 0
    val started = new ScriptedService(services.size + 1L).answering {
      case SegmentLayout(_, maps, _) if maps.end - maps.start > mostMaps =>
        Answer(Refused(Status.TooLarge, 1, "scripted"))
      case layout: SegmentLayout =>
        val runs = for {
          (segment, at) <- has.zipWithIndex
          if layout.maps.start <= segment.mapIndex && segment.mapIndex < layout.maps.end
        } yield LaidRun(7 + at, Array(segment))
        val partition = PartitionLayout(layout.reduceIds.head, Status.Ok, runs.toArray)
        Answer(SegmentLayoutReply(1, SparkStream.name, Array(partition)))
      case _: FetchSegments =>
        asked += 1
        chunk(asked)
    }
    services :+= started
    started
  }

  private def whole: Reaction = Serve(ByteBuffer.wrap(bytes))

  private def damaged(): ScriptedService =
    copy(_ => Serve(ByteBuffer.wrap(bytes.updated(3, 'X'.toByte))))

  /** Reads the chunk of these segments, from the first service first. */
  private def read(segments: Seq[LaidSegment] = written, limitMs: Long = 30000): String = {
    val at = services.map { one =>
      ServiceLocation(one.address.host, one.address.port, one.incarnation)
    }
    val plan = ShufflePlan(0, 1, services.size, Array(at.toArray))
    val rescue =
      new RemoteRescue(client, generation, plan, new RetryPolicy(limitMs, client.downSinceNs))
    val chunk = FetchChunk(at.head, 0, Array(SegmentRun(7, segments.size)), segments.toArray)
    val partitions = Seq(FetchPartition(0, Vector(Portion(Vector(chunk)))))
    val events = new LinkedBlockingQueue[String]()
    val fallback = new Fallback {
      override def chunkFailed(
          reduceId: Int,
          chunk: FetchChunk,
          reason: Reason,
          cause: Throwable): Unit = {
        events.add(reason.code)
        ()
      }
      override val hasOther: Boolean = false
      override def end(reduceId: Int, reason: Reason, what: String): Nothing =
        throw new AssertionError(what)
      override def apply(reduceId: Int, maps: Int => Boolean): ReadSources.BlocksByAddress = Nil
    }
    val fetcher = new ChunkFetcher(
      client,
      generation,
      partitions,
      fallback,
      Some(rescue),
      new ReadTally,
      own = null)
    val listener = new BlockFetchingListener {
      override def onBlockFetchSuccess(id: String, data: ManagedBuffer): Unit =
        events.add("arrived")
      override def onBlockFetchFailure(id: String, cause: Throwable): Unit = ()
    }
    val id = ShuffleBlockChunkId(3, 0, 0, 0).name
    val merger = BlockManagerId.SHUFFLE_MERGER_IDENTIFIER
    fetcher.fetchBlocks("here", 1, merger, Array(id), listener, null)
    events.poll(45, TimeUnit.SECONDS)
  }

  private def times(one: ScriptedService): Int = one.seen(classOf[FetchSegments])

  @Test def `a damaged chunk is read from the service that has it whole`(): Unit = {
    val one = damaged()
    val two = copy(_ => whole)
    assertEquals("arrived", read())
    // Each request that brings damaged bytes is repeated once.
    assertEquals((2, 1), (times(one), times(two)))
  }

  @Test def `a replica is found whose service sends its layout only in parts`(): Unit = {
    val segments = Seq(segmentOf(1), segmentOf(2))
    copy(_ => Refuse("[DISK_FAILED] Input/output error"), segments)
    val two = copy(_ => Serve(ByteBuffer.wrap(bytes ++ bytes)), segments, mostMaps = 1)
    assertEquals("arrived", read(segments))
    assertEquals(3, two.seen(classOf[SegmentLayout]))
  }

  @Test def `a chunk of which all replicas are damaged is given up after a few looks`(): Unit = {
    val both = Seq(damaged(), damaged())
    assertEquals(Reason.ChunkCorrupt.code, read())
    both.foreach(one => assertTrue(times(one) <= 12, s"asked ${times(one)} times"))
  }

  @Test def `a service that has no descriptor left for a chunk is asked for it again`(): Unit = {
    val one = copy(asked => if (asked > 4) whole else Refuse("[OVERLOADED] Too many open files"))
    assertEquals("arrived", read())
    assertEquals(5, times(one))
  }

  @Test def `a chunk that its service cannot read from its disk is given up at once`(): Unit = {
    val one = copy(_ => Refuse("[DISK_FAILED] Input/output error"))
    assertEquals(Reason.FetchDiskFailed.code, read())
    assertEquals(1, times(one))
  }

  @Test def `a chunk that two services cannot read from their disks is given up after a few looks`()
      : Unit = {
    val both = Seq.fill(2)(copy(_ => Refuse("[DISK_FAILED] Input/output error")))
    assertEquals(Reason.FetchDiskFailed.code, read())
    both.foreach(one => assertTrue(times(one) <= 4, s"asked ${times(one)} times"))
  }

  @Test def `two services that stay busy are not asked in turn without a pause`(): Unit = {
    val both = Seq.fill(2)(copy(_ => Refuse("[OVERLOADED] Too many open files")))
    assertEquals(Reason.FetchOverloaded.code, read(limitMs = 3000))
    // Two requests in each look, and no more looks than there are pauses of half a second.
    assertTrue(both.map(times).sum <= 16, s"asked ${both.map(times)} times")
  }

  @Test def `a busy service that has a chunk whole is waited for while another has it damaged`()
      : Unit = {
    val one = damaged()
    // Each of these looks takes half a second.
    val two = copy { asked =>
      if (asked > 12) whole else Answer(Refused(Status.Overloaded, 2, "scripted"))
    }
    assertEquals("arrived", read())
    assertTrue(times(one) <= 12, s"asked ${times(one)} times")
    assertEquals(13, times(two))
  }
}
