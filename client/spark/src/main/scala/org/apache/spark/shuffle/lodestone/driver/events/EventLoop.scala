// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.events

import java.util.concurrent.{ScheduledThreadPoolExecutor, TimeUnit}
import java.util.concurrent.ThreadPoolExecutor.DiscardPolicy
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import scala.concurrent.ExecutionContext

import org.apache.spark.shuffle.lodestone.config.{DaemonThreads, Logged}

/**
 * The one thread that owns all state of the driver side. Each message that arrives is an event. A
 * call that takes time is a future, and its outcome is another event. An event waits for nothing,
 * except for locks that Spark holds for a moment.
 *
 * @param clockNs
 *   a clock that only grows, for measuring durations
 */
private[driver] final class EventLoop(clockNs: () => Long = () => System.nanoTime())
    extends Logged {
  import EventLoop._

  private val waiting = new AtomicInteger()
  private val waitingBytes = new AtomicLong()
  private val executor = newExecutor()

  /** Runs callbacks of futures as events. They belong to our own calls, so none is refused. */
  val context: ExecutionContext = new ExecutionContext {
    override def execute(event: Runnable): Unit = executor.execute(guarded(event))
    override def reportFailure(cause: Throwable): Unit = log.error("An event failed", cause)
  }

  /** Adds an event from outside. Returns false, and does not add it, if too many wait. */
  def offer(event: () => Unit): Boolean =
    if (waiting.incrementAndGet() > MaxWaitingEvents) {
      waiting.decrementAndGet()
      false
    } else {
      executor.execute(guarded { () =>
        waiting.decrementAndGet()
        event()
      })
      true
    }

  /** Adds an event that holds `bytes`. Returns false if those that wait are too many or too big. */
  def offer(bytes: Long)(event: () => Unit): Boolean = {
    def gone(): Unit = {
      waitingBytes.addAndGet(-bytes)
      ()
    }
    val fits = waitingBytes.addAndGet(bytes) <= MaxWaitingBytes
    val taken = fits && offer { () =>
      gone()
      event()
    }
    if (!taken) gone()
    taken
  }

  /** Adds an event of the driver's own, never refused: such events are as rare as shuffles. */
  def post(event: => Unit): Unit = executor.execute(guarded(() => event))

  /** Adds an event after a delay. The event must check whether it still means anything. */
  def later(delayMs: Long)(event: => Unit): Unit =
    executor.schedule(guarded(() => event), delayMs, TimeUnit.MILLISECONDS)

  def nowMs: Long = TimeUnit.NANOSECONDS.toMillis(clockNs())

  /** Drops events that have not begun, and those that come later. */
  def stop(): Unit = executor.shutdownNow()

  private def guarded(event: Runnable): Runnable = () =>
    try {
      event.run()
    } catch {
      case _: InterruptedException if executor.isShutdown => // by stop()
      // Only a bug of the driver arrives here, or an error of the JVM, such as for a class that is
      // another one in this release of Spark. The executor would keep errors to itself. None of
      // them must stop the loop, because shuffles do not depend on each other. Tasks without an
      // answer take originals, or fail in mode remote, after a limited wait. A missing answer never
      // counts as an answer: no row is lost or doubled.
      case bug: Throwable =>
        log.error("A bug: an event of the driver failed, and a shuffle may get no answer", bug)
    }
}

private[driver] object EventLoop {

  /** A report of one task has some hundred bytes, so this many have some ten MB. */
  private val MaxWaitingEvents = 100000

  /** The limit for events that hold more bytes than a report. */
  private val MaxWaitingBytes = 64L << 20

  private def newExecutor(): ScheduledThreadPoolExecutor = {
    val threads = DaemonThreads.named("driver")
    val executor = new ScheduledThreadPoolExecutor(1, threads, new DiscardPolicy)
    executor.setExecuteExistingDelayedTasksAfterShutdownPolicy(false)
    executor
  }
}
