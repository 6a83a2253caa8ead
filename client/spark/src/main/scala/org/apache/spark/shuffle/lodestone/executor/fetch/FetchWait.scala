// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.concurrent.TimeUnit

import org.apache.spark.shuffle.ShuffleReadMetricsReporter

/** Where a task waits before it fetches: for the driver, and for layouts. Spark shows it as fetch wait. */
private[fetch] object FetchWait {
  def apply[T](metrics: ShuffleReadMetricsReporter)(wait: => T): T = {
    val beganNs = System.nanoTime()
    try wait
    finally metrics.incFetchWaitTime(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - beganNs))
  }
}
