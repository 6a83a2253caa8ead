// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.{ByteArrayInputStream, InputStream}
import java.nio.ByteBuffer

import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.FetchFailedException
import org.apache.spark.shuffle.lodestone.executor.rows.frames.{
  FrameDecoder,
  FrameRecords,
  TestFrames
}
import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.shuffle.lodestone.wire.Crc32c
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockId}

/** Originals with frames of an engine, whose checksums map tasks have reported. */
final class CheckedFramesSuite {
  private val executor = BlockManagerId("7", "host", 7000)
  private val (first, second) = (ShuffleBlockId(1, 100, 3), ShuffleBlockId(1, 101, 3))
  private val originals: ReadSources.BlocksByAddress =
    Seq(executor -> Seq((first, 10L, 0), (second, 10L, 1)))
  private val texts = TestFrames.of("ab", "cde")
  private val context: TaskContext = TaskContext.empty()
  private val metrics = context.taskMetrics().createTempShuffleReadMetrics()
  private val task = ReduceTask(ReadRange(0, 2, 3, 4), context, metrics)
  private val tally = new ReadTally

  /** Counts the streams that the engine begins to decode. */
  private final class Engine extends FrameDecoder {
    var decoded = 0
    override def headBytes: Int = TestFrames.headBytes
    override def bodyBytes(head: ByteBuffer): Int = TestFrames.bodyBytes(head)
    override def decode(frames: InputStream): FrameRecords = {
      decoded += 1
      TestFrames.decode(frames)
    }
  }
  private val engine = new Engine

  private def reading(written: Long, blocks: (BlockId, Array[Byte])*): Iterator[(Any, Any)] = {
    val check = new OriginalsCheck(_ => written, originals, Some(tally))
    val streams = blocks.iterator.map { case (id, bytes) =>
      (id, new ByteArrayInputStream(bytes): InputStream)
    }
    new CheckedFrames(streams, engine, check, task)
  }

  private def checksum(bytes: Array[Byte]): Long =
    Integer.toUnsignedLong(Crc32c.of(ByteBuffer.wrap(bytes)))

  private def reasons: Map[String, Long] = tally.counts.fallbacks

  @Test def `frames of all blocks are decoded and their rows are counted`(): Unit = {
    val read = reading(checksum(texts), first -> texts, second -> texts)
    assertEquals(List("ab", "cde", "ab", "cde"), read.map(_._2).toList)
    assertEquals(10, metrics.recordsRead)
    assertEquals(Map.empty, reasons)
  }

  @Test def `no byte of a damaged block reaches the engine and its map is run again`(): Unit = {
    for (at <- texts.indices) {
      val damaged = texts.clone()
      damaged(at) = (damaged(at) ^ 1).toByte
      val failure = assertThrows(
        classOf[FetchFailedException],
        () => { reading(checksum(texts), first -> damaged).size; () })
      assertTrue(failure.getMessage.contains("is run again"), failure.getMessage)
    }
    assertEquals(0, engine.decoded)
    assertEquals(texts.length, reasons(Reason.OriginalMismatch.code))
  }

  @Test def `a block that is shorter or doubled has its map run again`(): Unit = {
    for (wrong <- Seq(texts ++ texts, TestFrames.of("ab"), Array.emptyByteArray)) {
      assertThrows(
        classOf[FetchFailedException],
        () => { reading(checksum(texts), first -> wrong).size; () })
    }
    assertEquals(0, engine.decoded)
  }

  @Test def `a block that nobody has a checksum of is read as whole frames and counted`(): Unit = {
    assertEquals(2, reading(BlockRecords.NotCounted, first -> texts).size)
    assertEquals(Map(Reason.RecordsUnchecked.code -> 1L), reasons)
    assertThrows(
      classOf[FetchFailedException],
      () => { reading(BlockRecords.NotCounted, first -> texts.dropRight(1)).size; () })
    ()
  }

  @Test def `damage far behind in a large block is found at its end`(): Unit = {
    val frames = TestFrames.of(Seq.fill(40)("x" * (1 << 19)): _*)
    assertTrue(frames.length > ChecksummedBlock.MostBytes)
    assertEquals(40, reading(checksum(frames), first -> frames).size)
    val damaged = frames.clone()
    damaged(damaged.length - 1) = 'y'
    assertThrows(
      classOf[FetchFailedException],
      () => { reading(checksum(frames), first -> damaged).size; () })
    ()
  }
}
