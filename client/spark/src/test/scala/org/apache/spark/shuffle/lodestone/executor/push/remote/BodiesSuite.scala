// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.concurrent.{Await, Future}
import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.Assertions.{assertArrayEquals, assertEquals, assertThrows}
import org.junit.jupiter.api.Test

import org.apache.spark.TaskKilledException
import org.apache.spark.shuffle.lodestone.executor.push.BodyMemory

/** How many bodies are made at a time, and of what. */
final class BodiesSuite {
  private val mib = 1 << 20

  /** Of a task that is killed when it would wait. */
  private final class Body(bodies: Bodies) {
    private var isToWait = false
    private val room = bodies.begin(() => waits())
    private val output = new SegmentOutput(room)

    private def waits(): Unit =
      if (!isToWait) throw new TaskKilledException("it would wait")

    def waiting(): Body = {
      isToWait = true
      this
    }

    def write(bytes: Int): Body = {
      val piece = new Array[Byte](BodyMemory.PieceBytes)
      for (_ <- 0 until bytes / piece.length) output.write(piece)
      this
    }

    def drop(): Unit = output.free()

    def send(): SegmentBody = {
      output.endSegment(reduceId = 4, number = 0, records = 1)
      output.result(0)
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

  @Test def `bodies that hold little leave the room of a full one to others`(): Unit = {
    val bodies = new Bodies(4 * mib, limitBytes = 8L * mib)
    val (one, two) = (new Body(bodies), new Body(bodies))
    waits(new Body(bodies))
    val sentOne = one.write(mib).send()
    waits(new Body(bodies))
    val sentTwo = two.write(mib).send()
    new Body(bodies).drop()
    sentOne.letGo()
    sentTwo.letGo()
  }

  @Test def `a body of a large record counts with all that it holds`(): Unit = {
    val bodies = new Bodies(4 * mib, limitBytes = 16L * mib)
    val large = new Body(bodies).write(14 * mib)
    waits(new Body(bodies))
    val sent = large.send()
    waits(new Body(bodies))
    sent.letGo()
    new Body(bodies).drop()
  }

  @Test def `of many tasks with large records one at a time goes past the limit`(): Unit = {
    val bodies = new Bodies(4 * mib, limitBytes = 16L * mib)
    val tasks = Seq.fill(4)(new Body(bodies))
    val first = tasks.head.write(20 * mib).send()
    tasks.tail.foreach(task => waits(task.write(5 * mib)))
    first.letGo()
    tasks.tail.foreach(_.drop())
    new Body(bodies).write(16 * mib).drop()
  }

  @Test def `a large record that waits goes on when the one past the limit was sent`(): Unit = {
    val bodies = new Bodies(4 * mib, limitBytes = 8L * mib)
    val (one, two) = (new Body(bodies), new Body(bodies).waiting())
    val first = one.write(50 * mib).send()
    val begun = new CountDownLatch(1)
    val second = Future {
      begun.countDown()
      two.write(50 * mib).send()
    }
    begun.await(20, TimeUnit.SECONDS)
    first.letGo()
    Await.result(second, 20.seconds).letGo()
    assertEquals(0L, bodies.usedBytes)
  }

  @Test def `a map task goes on when the JVM has no direct memory left for it`(): Unit = {
    val bytes = Array.tabulate[Byte](3 * BodyMemory.PieceBytes)(_.toByte)
    val none = new BodyMemory(() => throw new OutOfMemoryError("Cannot reserve"))
    val output = new SegmentOutput(new Bodies(4 * mib, 8L * mib, none).begin(() => ()))
    output.write(bytes)
    output.endSegment(reduceId = 4, number = 0, records = 1)
    val body = output.result(0)
    val sent = new Array[Byte](bytes.length)
    body.slice(0, 1).nioByteBuffer().get(sent)
    assertArrayEquals(bytes, sent)
    body.letGo()
  }
}
