// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.remote

import org.junit.jupiter.api.Assertions.{assertArrayEquals, assertThrows}
import org.junit.jupiter.api.Test

import org.apache.spark.TaskKilledException
import org.apache.spark.shuffle.lodestone.push.BodyMemory

/** How many bodies are made at a time, and of what. */
final class BodiesSuite {
  private val mib = 1 << 20

  private def waits(bodies: Bodies): Unit = {
    assertThrows(
      classOf[TaskKilledException],
      () => bodies.begin(throw new TaskKilledException("it would wait")))
    ()
  }

  private def doesNotWait(bodies: Bodies): Unit =
    bodies.begin(throw new AssertionError("it waits"))

  @Test def `bodies that hold little leave the room of a full one to others`(): Unit = {
    val bodies = new Bodies(4 * mib, limitBytes = 8L * mib)
    doesNotWait(bodies)
    doesNotWait(bodies)
    waits(bodies)
    bodies.made(mib.toLong)
    waits(bodies)
    bodies.made(mib.toLong)
    doesNotWait(bodies)
    bodies.drop()
    bodies.end(mib.toLong)
    bodies.end(mib.toLong)
  }

  @Test def `a body of a large record counts with all that it holds`(): Unit = {
    val bodies = new Bodies(4 * mib, limitBytes = 16L * mib)
    doesNotWait(bodies)
    bodies.made(14L * mib)
    waits(bodies)
    bodies.end(14L * mib)
    doesNotWait(bodies)
    bodies.drop()
  }

  @Test def `a map task goes on when the JVM has no direct memory left for it`(): Unit = {
    val bytes = Array.tabulate[Byte](3 * BodyMemory.PieceBytes)(_.toByte)
    val output =
      new SegmentOutput(new BodyMemory(() => throw new OutOfMemoryError("Cannot reserve")))
    output.write(bytes)
    output.endSegment(reduceId = 4, number = 0, records = 1)
    val body = output.result(0, () => ())
    val sent = new Array[Byte](bytes.length)
    body.slice(0, 1).nioByteBuffer().get(sent)
    assertArrayEquals(bytes, sent)
    body.letGo()
  }
}
