// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import scala.concurrent.{Await, Promise}
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.Assertions.assertSame
import org.junit.jupiter.api.Test

final class RequestTimerSuite {

  /** Spark's handler ends an executor. Otherwise a task would wait forever for its request. */
  @Test def `an error in a task of the timer is not lost, and the timer goes on`(): Unit = {
    val before = Thread.getDefaultUncaughtExceptionHandler
    val seen = Promise[Throwable]()
    Thread.setDefaultUncaughtExceptionHandler { (_, thrown) =>
      seen.trySuccess(thrown)
      ()
    }
    try {
      val error = new OutOfMemoryError("on purpose")
      RequestTimer.after(0)(throw error)
      assertSame(error, Await.result(seen.future, 20.seconds))
      Await.result(RequestTimer.pause(0), 20.seconds)
    } finally {
      Thread.setDefaultUncaughtExceptionHandler(before)
    }
  }
}
