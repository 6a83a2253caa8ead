// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.concurrent.TimeUnit

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.config.HostPort

final class ServiceHealthSuite {
  private var nowNs = Long.MaxValue - 5
  private val health = new ServiceHealth(() => nowNs)
  private val service = HostPort("a", 1)

  @Test def aServiceThatFailedIsLeftAloneForTenSecondsAndNoLonger(): Unit = {
    assertFalse(health.isSuspect(service))
    health.failed(service)
    assertTrue(health.isSuspect(service))
    assertFalse(health.isSuspect(HostPort("a", 2)))
    nowNs += TimeUnit.SECONDS.toNanos(10) - 1
    assertTrue(health.isSuspect(service))
    nowNs += 1
    assertFalse(health.isSuspect(service))
  }

  private def pass(seconds: Long): Unit = nowNs += TimeUnit.SECONDS.toNanos(seconds)

  /** The seconds for which the service is avoided from now on. */
  private def boxed(): Int = {
    val seconds = Iterator.from(0).find { _ =>
      val free = !health.isSuspect(service)
      if (!free) pass(1)
      free
    }
    seconds.get
  }

  @Test def aServiceThatAnswersAgainIsTrustedAtOnce(): Unit = {
    health.failed(service)
    health.answered(service)
    assertFalse(health.isSuspect(service))
  }

  @Test def eachFailureKeepsTheServiceAwayForLongerUpToALimit(): Unit = {
    val times = (1 to 7).map { _ =>
      health.failed(service)
      boxed()
    }
    assertEquals(Seq(10, 20, 40, 80, 80, 80, 80), times)
  }

  @Test def requestsThatFailTogetherAreOneFailure(): Unit = {
    (1 to 16).foreach(_ => health.failed(service))
    assertEquals(10, boxed())
  }

  @Test def anAnswerDoesNotResetThePenalty(): Unit = {
    health.failed(service)
    health.answered(service)
    health.failed(service)
    assertEquals(20, boxed())
  }

  @Test def aFailureIsForgottenAfterAMinuteWithoutOne(): Unit = {
    (1 to 3).foreach { _ =>
      health.failed(service)
      health.answered(service)
    }
    pass(120)
    health.failed(service)
    assertEquals(20, boxed(), "two of the three are forgotten")
    pass(600)
    health.failed(service)
    assertEquals(10, boxed())
  }

  @Test def anOutageBeginsWithItsFirstFailureAndEndsWithAnAnswer(): Unit = {
    assertEquals(None, health.downSinceNs(service))
    health.failed(service)
    val begunNs = nowNs
    (1 to 5).foreach { _ =>
      pass(8)
      health.failed(service)
    }
    assertEquals(Some(begunNs), health.downSinceNs(service))
    health.answered(service)
    assertEquals(None, health.downSinceNs(service))
  }

  @Test def anOutageWithoutRequestsEnds(): Unit = {
    health.failed(service)
    pass(11)
    assertEquals(None, health.downSinceNs(service))
    health.failed(service)
    assertEquals(Some(nowNs), health.downSinceNs(service))
  }
}
