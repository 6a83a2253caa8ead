// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.concurrent.{ScheduledThreadPoolExecutor, TimeUnit}
import java.util.concurrent.ThreadPoolExecutor.DiscardPolicy
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import scala.concurrent.ExecutionContext
import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.DaemonThreads

/**
 * The one thread that owns all state of the driver side. Whatever arrives is an event; whatever
 * takes time is a future whose outcome is another event. An event waits for nothing, but for locks that
 * Spark holds for a moment.
 *
 * @param clockNs
 *   what time it is, for what lasts
 */
private[driver] final class EventLoop(clockNs: () => Long = () => System.nanoTime()) {
  import EventLoop._

  private val log = LoggerFactory.getLogger(classOf[EventLoop])
  private val waiting = new AtomicInteger()
  private val waitingBytes = new AtomicLong()
  private val executor = newExecutor()

  /** Runs the callbacks of futures as events: they answer our own calls, and none is refused. */
  val context: ExecutionContext = new ExecutionContext {
    override def execute(event: Runnable): Unit = executor.execute(guarded(event))
    override def reportFailure(cause: Throwable): Unit = log.error("An event failed", cause)
  }

  /** An event from outside. False: too many wait, and this one is not taken. */
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

  /** One that holds so many bytes. False: those that wait hold too many, or are too many. */
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

  /** An event of our own side, never refused: it is as rare as a shuffle. */
  def post(event: => Unit): Unit = executor.execute(guarded(() => event))

  /** An event in the future; it must find out by itself whether it still means anything. */
  def later(delayMs: Long)(event: => Unit): Unit =
    executor.schedule(guarded(() => event), delayMs, TimeUnit.MILLISECONDS)

  def nowMs: Long = TimeUnit.NANOSECONDS.toMillis(clockNs())

  /** Events that have not begun are dropped; those that come later too. */
  def stop(): Unit = executor.shutdownNow()

  private def guarded(event: Runnable): Runnable = () =>
    try {
      event.run()
    } catch {
      // A bug in one event must not silence the loop: each shuffle can go on without the others,
      // and one without an answer is read from its originals after a bounded wait.
      case NonFatal(bug) => log.error("An event failed; its shuffle is not merged", bug)
    }
}

private[driver] object EventLoop {

  /** A report of one task is some hundred bytes: this many are some ten MB. */
  private val MaxWaitingEvents = 100000

  /** Of events that hold more than that. */
  private val MaxWaitingBytes = 64L << 20

  private def newExecutor(): ScheduledThreadPoolExecutor = {
    val threads = DaemonThreads.named("driver")
    val executor = new ScheduledThreadPoolExecutor(1, threads, new DiscardPolicy)
    executor.setExecuteExistingDelayedTasksAfterShutdownPolicy(false)
    executor
  }
}
