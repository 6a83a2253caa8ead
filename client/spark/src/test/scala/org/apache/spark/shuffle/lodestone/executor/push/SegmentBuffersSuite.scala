// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.concurrent.{Await, Future}
import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.Assertions.{assertArrayEquals, assertEquals, assertThrows}
import org.junit.jupiter.api.Test

import org.apache.spark.TaskKilledException

/** How many buffers are made at a time, and of what. */
final class SegmentBuffersSuite {
  private val mib = 1 << 20

  /** The buffer of a task that is killed when it would wait. */
  private final class Filled(buffers: SegmentBuffers) {
    private var isToWait = false
    private val buffer = buffers.reserve(() => waits())

    private def waits(): Unit =
      if (!isToWait) throw new TaskKilledException("it would wait")

    def waiting(): Filled = {
      isToWait = true
      this
    }

    def write(bytes: Int): Filled = {
      val piece = new Array[Byte](PiecePool.PieceBytes)
      for (_ <- 0 until bytes / piece.length) buffer.write(piece)
      this
    }

    def drop(): Unit = buffer.release()

    def send(): SegmentBuffer = {
      buffer.endSegment(reduceId = 4, number = 0, records = 1)
      buffer.seal(firstSegment = 0)
      buffer
    }
  }

  private def waits(act: => Any): Unit = {
    assertThrows(
      classOf[TaskKilledException],
      () => {
        act
        ()
      })
    ()
  }

  @Test def `buffers that hold little leave the room of a full one to others`(): Unit = {
    val buffers = new SegmentBuffers(4 * mib, limitBytes = 8L * mib)
    val (one, two) = (new Filled(buffers), new Filled(buffers))
    waits(new Filled(buffers))
    val sentOne = one.write(mib).send()
    waits(new Filled(buffers))
    val sentTwo = two.write(mib).send()
    new Filled(buffers).drop()
    sentOne.release()
    sentTwo.release()
  }

  @Test def `a buffer of a large record counts with all that it holds`(): Unit = {
    val buffers = new SegmentBuffers(4 * mib, limitBytes = 16L * mib)
    val large = new Filled(buffers).write(14 * mib)
    waits(new Filled(buffers))
    val sent = large.send()
    waits(new Filled(buffers))
    sent.release()
    new Filled(buffers).drop()
  }

  @Test def `of many tasks with large records one at a time goes past the limit`(): Unit = {
    val buffers = new SegmentBuffers(4 * mib, limitBytes = 16L * mib)
    val tasks = Seq.fill(4)(new Filled(buffers))
    val first = tasks.head.write(20 * mib).send()
    tasks.tail.foreach(task => waits(task.write(5 * mib)))
    first.release()
    tasks.tail.foreach(_.drop())
    new Filled(buffers).write(16 * mib).drop()
  }

  @Test def `a large record that waits goes on when the one past the limit was sent`(): Unit = {
    val buffers = new SegmentBuffers(4 * mib, limitBytes = 8L * mib)
    val (one, two) = (new Filled(buffers), new Filled(buffers).waiting())
    val first = one.write(50 * mib).send()
    val begun = new CountDownLatch(1)
    val second = Future {
      begun.countDown()
      two.write(50 * mib).send()
    }
    begun.await(20, TimeUnit.SECONDS)
    first.release()
    Await.result(second, 20.seconds).release()
    assertEquals(0L, buffers.usedBytes)
  }

  @Test def `a map task goes on when the JVM has no direct memory left for it`(): Unit = {
    val bytes = Array.tabulate[Byte](3 * PiecePool.PieceBytes)(_.toByte)
    val none = new PiecePool(() => throw new OutOfMemoryError("Cannot reserve"))
    val buffer = new SegmentBuffers(4 * mib, 8L * mib, none).reserve(() => ())
    buffer.write(bytes)
    buffer.endSegment(reduceId = 4, number = 0, records = 1)
    buffer.seal(firstSegment = 0)
    val sent = new Array[Byte](bytes.length)
    buffer.slice(0, 1).nioByteBuffer().get(sent)
    assertArrayEquals(bytes, sent)
    buffer.release()
  }
}
