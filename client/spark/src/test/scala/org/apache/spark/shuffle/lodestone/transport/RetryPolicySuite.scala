// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.util.concurrent.TimeUnit

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.DurationInt
import scala.util.Try

import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.plan.ServiceLocation

final class RetryPolicySuite {
  private val service = ServiceLocation("a", 1, 7)
  private val broken = new IOException("no connection")
  private var nowNs = Long.MaxValue - 5
  private var downSinceNs = Option.empty[Long]
  private val retryPolicy = new RetryPolicy(30000, _ => downSinceNs, () => nowNs)

  private def pass(seconds: Long): Unit = nowNs += TimeUnit.SECONDS.toNanos(seconds)

  @Test def aTransientFailureIsRetriedUntilItSucceeds(): Unit = {
    var attempts = 0
    val answer = retryPolicy(service)(() => true) { () =>
      attempts += 1
      if (attempts < 3) Future.failed(broken) else Future.successful(attempts)
    }
    assertEquals(3, Await.result(answer, 10.seconds))
  }

  @Test def anUnwantedRequestIsNotRetried(): Unit = {
    val answer = retryPolicy(service)(() => false)(() => Future.failed[Int](broken))
    assertTrue(Try(Await.result(answer, 10.seconds)).isFailure)
  }

  @Test def retriesEndAtTheTimeLimit(): Unit = {
    val begunNs = nowNs
    pass(29)
    assertTrue(retryPolicy.mayRetry(service, broken, begunNs))
    pass(2)
    assertFalse(retryPolicy.mayRetry(service, broken, begunNs))
  }

  @Test def theTimeLimitIsSharedByAllTasks(): Unit = {
    downSinceNs = Some(nowNs)
    pass(31)
    assertFalse(retryPolicy.mayRetry(service, broken, nowNs))
    downSinceNs = None
    assertTrue(retryPolicy.mayRetry(service, broken, nowNs))
  }
}
