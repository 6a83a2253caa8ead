// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.util.concurrent.{CompletableFuture, TimeUnit}

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.config.HostPort

final class DeadlinesSuite {
  private val BaseMs = 100L
  private val Mib = 1024L * 1024
  private val service = HostPort("a", 1)
  private val other = HostPort("b", 1)
  private val silent = new CompletableFuture[HostPort]()
  private val deadlines = new Deadlines(BaseMs, service => { silent.complete(service); () })

  /** `whenOver` runs on the timer's thread, before anything that is due later. */
  private def begin(of: HostPort, bytes: Long)(
      whenOver: => Unit = ()): CompletableFuture[FailureClass] = {
    val end = new CompletableFuture[FailureClass]()
    deadlines.start(of, bytes) { failure =>
      whenOver
      end.complete(FailureClass.of(failure))
    }
    end
  }

  private def await[T](end: CompletableFuture[T]): T = end.get(20, TimeUnit.SECONDS)

  @Test def `a request gets more time for each MiB that it moves`(): Unit = {
    assertEquals(Seq(100L, 1100L, 4100L), Seq(0L, Mib, 4 * Mib).map(deadlines.boundMs))
    assertEquals(4400L, deadlines.longestMs(Mib))
  }

  @Test def `a silent service has failed and is reported after the request`()
      : Unit = {
    var reportedBefore = false
    val end = begin(service, bytes = 0) { reportedBefore = silent.isDone }
    assertEquals(service, await(silent))
    assertEquals(FailureClass.Silence, await(end))
    assertFalse(reportedBefore, "its connection was closed before the waiting request failed")
  }

  @Test def `a small request waits as long as the big one that it stands behind`(): Unit = {
    val started = System.nanoTime()
    val big = begin(service, bytes = Mib / 4)()
    var tookMs = 0L
    val small = begin(service, bytes = 0) { tookMs = (System.nanoTime() - started) / 1000000 }
    assertEquals(FailureClass.Silence, await(small))
    assertEquals(FailureClass.Silence, await(big))
    assertTrue(tookMs >= deadlines.boundMs(Mib / 4), s"it was given up after $tookMs ms")
  }

  @Test def `a service that answers others may be late four times and not longer`(): Unit = {
    val started = System.nanoTime()
    val late = begin(service, bytes = 0)()
    var signs = 0
    // Runs on the thread of the deadlines, before them, so that its load does not matter.
    def tick(): Unit = {
      RequestTimer.after(BaseMs / 4) {
        signs += 1
        deadlines.heard(service)
        if (!late.isDone) tick()
      }
      ()
    }
    tick()
    assertEquals(FailureClass.Straggler, await(late))
    val tookMs = (System.nanoTime() - started) / 1000000
    assertTrue(tookMs >= 4 * BaseMs, s"it was given up after $tookMs ms")
    assertTrue(signs > 3, s"$signs signs of life")
    assertFalse(silent.isDone, "the connection of others was closed")
  }

  @Test def `a deadline that is met or restarted does not expire`(): Unit = {
    val over = new CompletableFuture[String]()
    deadlines.start(service, 0)(_ => over.complete("the met one")).met()
    var early = true
    val restarted = new CompletableFuture[IOException]()
    val stream = deadlines.start(service, 0)(restarted.complete(_))
    stream.restart(Mib)
    val probe = begin(other, bytes = 0) { early = restarted.isDone }
    assertEquals(FailureClass.Silence, await(probe))
    assertFalse(early, "what comes next is bigger")
    assertEquals(FailureClass.Silence, FailureClass.of(await(restarted)))
    assertFalse(over.isDone)
  }

  @Test def `a JVM that stood still does not blame the service`(): Unit = {
    var looks = 0
    val standingStill = new Deadlines(
      BaseMs,
      _ => (),
      () => {
        looks += 1
        // It begins before the JVM stands still.
        if (looks <= 2) System.nanoTime() else System.nanoTime() + TimeUnit.MINUTES.toNanos(1)
      })
    val started = System.nanoTime()
    val end = new CompletableFuture[Long]()
    standingStill.start(service, 0) { _ => end.complete((System.nanoTime() - started) / 1000000) }
    assertTrue(await(end) >= 2 * BaseMs, "its time had not restarted")
  }
}
