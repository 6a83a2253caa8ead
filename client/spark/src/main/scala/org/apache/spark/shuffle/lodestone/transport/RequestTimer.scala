// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.concurrent.{ExecutionException, Future => JFuture, ScheduledFuture}
import java.util.concurrent.{ScheduledThreadPoolExecutor, TimeUnit}

import scala.concurrent.{Await, ExecutionContext, Future, Promise, TimeoutException}
import scala.concurrent.duration.DurationLong
import scala.util.Try

import org.apache.spark.shuffle.lodestone.config.{DaemonThreads, Logged}

/** One thread for all time-outs and all pauses before a retry. Its tasks must be short. */
private[lodestone] object RequestTimer extends Logged {
  private val executor = {
    val timer = new ScheduledThreadPoolExecutor(1, DaemonThreads.named("timer")) {
      override protected def afterExecute(task: Runnable, thrown: Throwable): Unit = task match {
        case over: JFuture[_] if over.isDone && !over.isCancelled => judge(over)
        case _ =>
      }
    }
    timer.setRemoveOnCancelPolicy(true)
    timer
  }

  /**
   * The executor keeps to itself what a task throws. After an error, such as for a lack of memory,
   * requests may have no outcome, and tasks wait for them: as for errors of other threads, Spark
   * ends the executor.
   */
  private def judge(over: JFuture[_]): Unit =
    try {
      over.get()
      ()
    } catch {
      case failed: ExecutionException => failed.getCause match {
          case error: Error =>
            val thread = Thread.currentThread
            thread.getUncaughtExceptionHandler.uncaughtException(thread, error)
          case bug => log.error("A bug: a task of the timer failed", bug)
        }
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
