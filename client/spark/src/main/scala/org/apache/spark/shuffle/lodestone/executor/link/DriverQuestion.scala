// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.link

import java.util.concurrent.TimeoutException

import scala.annotation.tailrec
import scala.concurrent.Future
import scala.util.{Failure, Success}

import org.apache.spark.SparkException
import org.apache.spark.shuffle.lodestone.config.Logged
import org.apache.spark.shuffle.lodestone.plan.PlanAnswer
import org.apache.spark.shuffle.lodestone.transport.{RequestTimer, TaskWait}

/**
 * Asks the driver, on a task's thread, for something of a remote shuffle that only the driver
 * knows. It asks a busy driver again. A task without an answer fails, and Spark runs another
 * attempt. Without an answer it could only do harm: keep an output where nothing protects it, or
 * report outputs as lost that exist.
 */
private[lodestone] object DriverQuestion extends Logged {
  private val Tries = 3

  /** The pause between tries. A full queue is not full for long. */
  private val PauseMs = 1000L

  /**
   * @param what
   *   the subject of the question, such as "services for a map attempt"
   * @param alive
   *   throws when the task was killed
   */
  def apply(what: => String, alive: () => Unit)(ask: => Future[PlanAnswer]): PlanAnswer = {
    @tailrec
    def attempt(left: Int): PlanAnswer =
      TaskWait(ask)(alive()) match {
        case Success(answer) => answer
        case Failure(failure) if left > 1 && mayPass(failure) =>
          log.info(s"The driver did not answer ($what), and is asked again: ${failure.getMessage}")
          TaskWait(RequestTimer.pause(PauseMs))(alive())
          attempt(left - 1)
        case Failure(failure) =>
          throw new SparkException(s"The driver did not answer ($what)", failure)
      }
    attempt(Tries)
  }

  /** An RPC environment that was stopped does not come back. */
  private def mayPass(failure: Throwable): Boolean = failure match {
    case _: TimeoutException | _: SparkException => true
    case _ => false
  }
}
