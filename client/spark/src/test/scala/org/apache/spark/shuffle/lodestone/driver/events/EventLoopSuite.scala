// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.events

import scala.concurrent.{Await, Promise}
import scala.concurrent.duration.DurationInt

import org.apache.logging.log4j.Level
import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}

import org.apache.spark.shuffle.lodestone.LogCapture

final class EventLoopSuite {
  private val loop = new EventLoop()

  @AfterEach def stop(): Unit = loop.stop()

  /** Returns what the log says of an event that throws, when the next one has run. */
  private def saidOf(thrown: Throwable): Seq[String] =
    LogCapture.lines(Level.ERROR, "EventLoop") {
      val next = Promise[Unit]()
      loop.post(throw thrown)
      loop.post {
        next.success(())
        ()
      }
      Await.result(next.future, 20.seconds)
    }

  private def assertSaid(thrown: Throwable): Unit = {
    val said = saidOf(thrown)
    assertEquals(1, said.size, s"$thrown: $said")
    assertTrue(said.head.contains("an event of the driver failed"), said.head)
  }

  @Test def `what an event throws is in the log, also an error, and the next event runs`()
      : Unit = {
    assertSaid(new IllegalStateException("a bug"))
    assertSaid(new NoSuchMethodError("of another release of Spark"))
  }
}
