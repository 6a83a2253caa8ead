// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.concurrent.{ScheduledFuture, ScheduledThreadPoolExecutor, TimeUnit}

import scala.concurrent.{Await, ExecutionContext, Future, Promise, TimeoutException}
import scala.concurrent.duration.DurationLong
import scala.util.Try

import org.apache.spark.shuffle.lodestone.config.{DaemonThreads, Logged}

/** One thread for all time-outs and all pauses before a retry. Its tasks must be short. */
private[lodestone] object RequestTimer {
  private val executor = {
    val timer = new ScheduledThreadPoolExecutor(1, DaemonThreads.named("timer"))
    timer.setRemoveOnCancelPolicy(true)
    timer
  }

  def after(delayMs: Long)(task: => Unit): ScheduledFuture[_] = {
    val run: Runnable = () => task
    executor.schedule(run, delayMs, TimeUnit.MILLISECONDS)
  }

  /** Completes on the timer's thread. */
  def pause(delayMs: Long): Future[Unit] = {
    val over = Promise[Unit]()
    after(delayMs)(over.success(()))
    over.future
  }
}

/** Runs a callback on the thread that completes the future. Only for short callbacks. */
private[lodestone] object SameThread extends ExecutionContext with Logged {
  override def execute(callback: Runnable): Unit = callback.run()
  override def reportFailure(cause: Throwable): Unit = log.error("A callback failed", cause)
}

/** Waits on a task's own thread, and checks whether the task was killed without an interrupt. */
private[lodestone] object TaskWait {
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
