// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.concurrent.{ScheduledFuture, ScheduledThreadPoolExecutor, ThreadFactory, TimeUnit}

import scala.concurrent.ExecutionContext

import org.slf4j.LoggerFactory

/** One thread for every time-out and every pause before a retry. What it runs is short. */
private[lodestone] object RequestTimer {
  private val threads: ThreadFactory = task => {
    val thread = new Thread(task, "lodestone-timer")
    thread.setDaemon(true)
    thread
  }

  private val executor = {
    val timer = new ScheduledThreadPoolExecutor(1, threads)
    timer.setRemoveOnCancelPolicy(true)
    timer
  }

  def after(delayMs: Long)(task: => Unit): ScheduledFuture[_] = {
    val run: Runnable = () => task
    executor.schedule(run, delayMs, TimeUnit.MILLISECONDS)
  }
}

/** Runs a callback where the future was completed: for callbacks that only pass something on. */
private[lodestone] object SameThread extends ExecutionContext {
  private val log = LoggerFactory.getLogger("org.apache.spark.shuffle.lodestone.transport")

  override def execute(callback: Runnable): Unit = callback.run()
  override def reportFailure(cause: Throwable): Unit = log.error("A callback failed", cause)
}
