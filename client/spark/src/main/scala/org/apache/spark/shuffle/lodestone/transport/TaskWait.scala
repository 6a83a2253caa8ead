// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import scala.concurrent.{Await, Future, TimeoutException}
import scala.concurrent.duration.DurationLong
import scala.util.Try

/** Waits on a task's own thread, and checks whether the task was killed without an interrupt. */
private[lodestone] object TaskWait {

  /** The longest time between two checks. */
  val LookMs = 500L

  /** @param alive throws when the task was killed */
  def apply[T](future: Future[T])(alive: => Unit): Try[T] = {
    while (!future.isCompleted) {
      alive
      try {
        Await.ready(future, LookMs.millis)
      } catch {
        case _: TimeoutException => // look again
      }
    }
    future.value.get
  }
}
