// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.{ByteArrayInputStream, InputStream}
import java.nio.ByteBuffer
import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicReference

import scala.collection.mutable.ArrayBuffer

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test

import org.apache.spark.{TaskContext, TaskContextImpl}
import org.apache.spark.shuffle.FetchFailedException
import org.apache.spark.shuffle.lodestone.executor.rows.frames.TestFrames
import org.apache.spark.shuffle.lodestone.wire.Crc32c
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockId}

/** What the reader of an engine may do with streams, and what becomes of their memory. */
final class EngineBlocksSuite {
  private val executor = BlockManagerId("7", "host", 7000)
  private val ids = (0 until 3).map(map => ShuffleBlockId(1, 100L + map, 3))
  private val originals: ReadSources.BlocksByAddress =
    Seq(executor -> ids.zipWithIndex.map { case (id, map) => (id: BlockId, 10L, map) })
  private val context: TaskContext = TaskContext.empty()
  private val metrics = context.taskMetrics().createTempShuffleReadMetrics()
  private val task = ReduceTask(ReadRange(0, 3, 3, 4), context, metrics)

  /** As Spark's iterator: a stream that is closed gives the memory of the newest block back. */
  private final class Blocks(contents: Seq[String]) extends Iterator[(BlockId, InputStream)] {
    val released = ArrayBuffer.empty[Int]
    private var newest = -1

    override def hasNext: Boolean = newest + 1 < contents.size

    override def next(): (BlockId, InputStream) = {
      newest += 1
      val stream = new ByteArrayInputStream(contents(newest).getBytes("UTF-8")) {
        override def close(): Unit = { released += newest; () }
      }
      (ids(newest), stream)
    }
  }

  private def reader(blocks: Iterator[(BlockId, InputStream)]): EngineBlocks =
    new EngineBlocks(
      BlockStreams(new OriginalsCheck(BlockRecords.Unknown, originals, None), () => blocks),
      task)

  @Test def `a stream that is read to its end gives its memory back once and no other's`(): Unit = {
    val blocks = new Blocks(Seq("ab", "cde"))
    val engine = reader(blocks)
    val first = engine.next().frames()
    assertEquals("ab", new String(first.readAllBytes(), "UTF-8"))
    assertEquals(Seq(0), blocks.released.toSeq)
    val second = engine.next().frames()
    first.close()
    assertEquals(-1, first.read())
    assertEquals(Seq(0), blocks.released.toSeq, "the second one is being read")
    assertEquals('c', second.read())
    second.close()
    assertEquals(Seq(0, 1), blocks.released.toSeq)
    assertFalse(engine.hasNext)
  }

  @Test def `an engine that leaves a stream before its end gets no other and no end`(): Unit = {
    for (contents <- Seq(Seq("ab", "cde"), Seq("ab"))) {
      val engine = reader(new Blocks(contents))
      assertEquals('a', engine.next().frames().read())
      val left = assertThrows(classOf[IllegalStateException], () => { engine.hasNext; () })
      assertTrue(left.getMessage.contains("neither read to its end"), left.getMessage)
    }
    val engine = reader(new Blocks(Seq("ab", "cde")))
    assertEquals('a', engine.next().frames().read())
    assertThrows(classOf[IllegalStateException], () => { engine.next(); () })
    ()
  }

  @Test def `an engine need not look for the end behind the last frame`(): Unit = {
    val blocks = new Blocks(Seq("ab", "cde"))
    val engine = reader(blocks)
    assertEquals("ab", new String(engine.next().frames().readNBytes(2), "UTF-8"))
    assertTrue(engine.hasNext)
    assertEquals(Seq(0), blocks.released.toSeq)
  }

  @Test def `a block that the engine cannot decode is fetched from another run of its map`()
      : Unit = {
    val engine = reader(new Blocks(Seq("ab")))
    val block = engine.next()
    val failed = assertThrows(classOf[FetchFailedException], () => block.broken("no frame"))
    assertTrue(failed.getMessage.contains("no frame"), failed.getMessage)
    // An engine may call it for each failure: the first one counts.
    assertThrows(classOf[IllegalStateException], () => block.broken("no frame"))
    ()
  }

  private def readFrames(written: Long, frames: Array[Byte]): Array[Byte] = {
    val check = new OriginalsCheck(_ => written, originals, None)
    val stream: InputStream = new ByteArrayInputStream(frames)
    val blocks =
      BlockStreams(check, () => Iterator.single[(BlockId, InputStream)]((ids(0), stream)))
    new EngineBlocks(blocks, task, Some(TestFrames)).next().frames().readAllBytes()
  }

  @Test def `no byte of a damaged original reaches an engine that decodes by itself`(): Unit = {
    val frames = TestFrames.of("ab", "cde")
    val written = Integer.toUnsignedLong(Crc32c.of(ByteBuffer.wrap(frames)))
    assertArrayEquals(frames, readFrames(written, frames))
    for (at <- frames.indices) {
      val damaged = frames.clone()
      damaged(at) = (damaged(at) ^ 1).toByte
      assertThrows(
        classOf[FetchFailedException],
        () => { readFrames(written, damaged); () })
    }
  }

  @Test def `an original without a checksum that ends in a frame has its map run again`(): Unit = {
    val frames = TestFrames.of("ab", "cde")
    assertArrayEquals(frames, readFrames(BlockRecords.NotCounted, frames))
    for (wrong <- Seq(frames.dropRight(1), frames ++ frames.take(2), "X".getBytes ++ frames)) {
      assertThrows(
        classOf[FetchFailedException],
        () => { readFrames(BlockRecords.NotCounted, wrong); () })
    }
  }

  /** Reads a stream as one of a chunk, whose bytes are known before. */
  private def readKnown(frames: Array[Byte]): Array[Byte] = {
    val originalsCheck = new OriginalsCheck(BlockRecords.Unknown, originals, None)
    val check = new RecordsCheck {
      override def begin(id: BlockId): Unit = originalsCheck.begin(id)
      override def written(id: BlockId): Long = originalsCheck.written(id)
      override def bytesOf(id: BlockId): Option[Long] = Some(frames.length.toLong)
      override def wrong(id: BlockId, read: Long, written: Long): Nothing =
        originalsCheck.wrong(id, read, written)
      override def broken(id: BlockId, cause: Throwable): Nothing =
        originalsCheck.broken(id, cause)
    }
    val stream: InputStream = new ByteArrayInputStream(frames)
    val blocks =
      BlockStreams(check, () => Iterator.single[(BlockId, InputStream)]((ids(0), stream)))
    new EngineBlocks(blocks, task, Some(TestFrames)).next().frames().readNBytes(frames.length)
  }

  @Test def `a chunk that ends in a frame does not go on in the next one`(): Unit = {
    val frames = TestFrames.of("ab", "cde")
    assertArrayEquals(frames, readKnown(frames))
    val first = TestFrames.of("ab").length
    for (cut <- 1 until frames.length if cut != first) {
      assertThrows(
        classOf[FetchFailedException],
        () => { readKnown(frames.take(cut)); () },
        s"after $cut bytes")
    }
  }

  @Test def `the end of a task ends a call of another thread that waits`(): Unit =
    assertEndsWaiting(() => ())

  @Test def `so it does if the engine has set the task's context on its thread`(): Unit =
    assertEndsWaiting(() => TaskContext.setTaskContext(context))

  private def assertEndsWaiting(begin: () => Unit): Unit = {
    val begun = new CountDownLatch(1)
    val waiting = new Iterator[(BlockId, InputStream)] {
      override def hasNext: Boolean = true
      override def next(): (BlockId, InputStream) = {
        begun.countDown()
        new CountDownLatch(1).await()
        throw new IllegalStateException("it waits for ever")
      }
    }
    val engine = reader(waiting)
    val ended = new AtomicReference[Throwable]
    val thread = new Thread(() =>
      try { begin(); engine.next(); () }
      catch { case thrown: InterruptedException => ended.set(thrown) })
    thread.start()
    assertTrue(begun.await(20, TimeUnit.SECONDS))
    context.asInstanceOf[TaskContextImpl].markTaskCompleted(None)
    thread.join(TimeUnit.SECONDS.toMillis(20))
    assertFalse(thread.isAlive)
    assertEquals(classOf[InterruptedException], ended.get.getClass)
    val after = new AtomicReference[Throwable]
    val late = new Thread(() =>
      try { begin(); engine.hasNext; () }
      catch { case thrown: IllegalStateException => after.set(thrown) })
    late.start()
    late.join(TimeUnit.SECONDS.toMillis(20))
    assertTrue(after.get.getMessage.contains("has ended"), after.toString)
  }

  @Test def `a call on a thread of another task is made as the reader's task`(): Unit = {
    val seen = new AtomicReference[TaskContext]
    val blocks = new Iterator[(BlockId, InputStream)] {
      override def hasNext: Boolean = { seen.set(TaskContext.get()); false }
      override def next(): (BlockId, InputStream) = Iterator.empty.next()
    }
    val other = TaskContext.empty()
    TaskContext.setTaskContext(other)
    try {
      assertFalse(reader(blocks).hasNext)
      assertTrue(seen.get eq context)
      assertTrue(TaskContext.get() eq other)
    } finally TaskContext.unset()
  }
}
