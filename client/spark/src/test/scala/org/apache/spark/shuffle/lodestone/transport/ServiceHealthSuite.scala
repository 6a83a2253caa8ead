// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.concurrent.TimeUnit

import org.junit.jupiter.api.Assertions.{assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.HostPort

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

  @Test def aServiceThatAnswersAgainIsTrustedAtOnce(): Unit = {
    health.failed(service)
    health.answered(service)
    assertFalse(health.isSuspect(service))
  }
}
