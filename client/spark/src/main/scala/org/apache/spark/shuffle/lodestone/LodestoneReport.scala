// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.util.concurrent.TimeoutException
import java.util.concurrent.atomic.AtomicReference

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.{Duration, MILLISECONDS}

import org.apache.spark.shuffle.lodestone.driver.DriverCoordinator

/**
 * A report of what Lodestone did in this application. Public, for tests and tools. From Python:
 * `sc._jvm.org.apache.spark.shuffle.lodestone.LodestoneReport.json()`.
 */
object LodestoneReport {

  /** The event loop answers in microseconds, unless the driver is in trouble. */
  private val AnswerTimeoutMs = 5000L

  private val latest = new AtomicReference[DriverCoordinator]()

  /** Returns the report of the running application, or of the last one; `{}` if there was none. */
  def json(): String =
    Option(latest.get).flatMap(driver => within(AnswerTimeoutMs)(driver.json())).getOrElse("{}")

  /**
   * Waits until no report of a task has arrived for a moment and the driver owes no answer. Returns
   * false if that takes longer than `millis`.
   */
  def awaitQuiet(millis: Long): Boolean =
    Option(latest.get).forall(driver => within(millis)(driver.quiet()).isDefined)

  private[lodestone] def follow(driver: DriverCoordinator): Unit = latest.set(driver)

  private def within[T](millis: Long)(answer: Future[T]): Option[T] =
    try {
      Some(Await.result(answer, Duration(millis, MILLISECONDS)))
    } catch {
      case _: TimeoutException => None
    }
}
