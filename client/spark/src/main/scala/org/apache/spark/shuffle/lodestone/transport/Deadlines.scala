// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.util.concurrent.{ScheduledFuture, TimeUnit}

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.HostPort

/**
 * How long requests may take: `spark.lodestone.request.timeout`, and longer by what the bytes take
 * at the lowest rate that is worth waiting for. The time counts from the last sign of life of the
 * service, since requests share a connection and a small one may stand behind big ones; but not for
 * ever, since a service that answers others may never answer this one.
 *
 * @param silent
 *   is told of a service that gave no sign of life in time, after all those who waited for it
 */
private[transport] final class Deadlines(
    baseMs: Long,
    silent: HostPort => Unit,
    nanoClock: () => Long = () => System.nanoTime()) {
  import Deadlines._

  /** Services with requests under way. */
  private val pulses = mutable.HashMap.empty[HostPort, Pulse]

  /** For a request that moves so many bytes, in either direction. */
  def boundMs(bytes: Long): Long = baseMs + bytes * 1000 / FloorBytesPerSecond

  /** After this long such a request has failed, if it did not end before. */
  def longestMs(bytes: Long): Long = Patience * boundMs(bytes)

  /** Something came from the service: it lives. */
  def heard(service: HostPort): Unit =
    synchronized(pulses.get(service).foreach(_.heardAtNs = nanoClock()))

  /** `expired` is called, on the timer's thread, unless the deadline is met before. */
  def start(service: HostPort, bytes: Long)(expired: IOException => Unit): Deadline = {
    val deadline = new Deadline(service, bytes, expired)
    deadline.begin()
    deadline
  }

  /** Of one request, or of the next chunk of a stream. */
  final class Deadline private[Deadlines] (
      service: HostPort,
      private[Deadlines] var bytes: Long,
      private[Deadlines] val expired: IOException => Unit) {
    private var startNs = 0L
    private var dueNs = 0L
    private var timer: Option[ScheduledFuture[_]] = None

    private[Deadlines] def begin(): Unit = Deadlines.this.synchronized {
      startNs = nanoClock()
      pulses.getOrElseUpdate(service, new Pulse(startNs)).open += this
      armFor(TimeUnit.MILLISECONDS.toNanos(boundMs(bytes)))
    }

    /** It has come so far; what comes next has so many bytes. */
    def restart(nextBytes: Long): Unit = Deadlines.this.synchronized {
      if (timer.isDefined) {
        disarm()
        bytes = nextBytes
        begin()
      }
    }

    def met(): Unit = Deadlines.this.synchronized(disarm())

    private def armFor(delayNs: Long): Unit = {
      timer.foreach(_.cancel(false))
      dueNs = nanoClock() + delayNs
      timer = Some(RequestTimer.after(TimeUnit.NANOSECONDS.toMillis(delayNs) + 1)(look()))
    }

    private def disarm(): Unit = {
      timer.foreach(_.cancel(false))
      timer = None
      pulses.get(service).foreach { pulse =>
        pulse.open -= this
        if (pulse.open.isEmpty) pulses -= service
      }
    }

    private def look(): Unit = {
      val ended = Deadlines.this.synchronized {
        val over = if (timer.isDefined) verdict() else None
        over.map { failure =>
          val late = if (isSilence(failure)) pulses(service).open.toList else List(this)
          late.foreach(_.disarm())
          failure -> late
        }
      }
      ended.foreach { case (failure, late) =>
        late.foreach(_.expired(failure))
        if (isSilence(failure)) silent(service)
      }
    }

    private def isSilence(failure: IOException): Boolean =
      FailureClass.of(failure) == FailureClass.Silence

    /** None: there is still time, and another look at its end. */
    private def verdict(): Option[IOException] = {
      val nowNs = nanoClock()
      // We stood still ourselves: the answer may be waiting to be read.
      if (nowNs - dueNs > StandstillNs) startNs = nowNs
      val pulse = pulses(service)
      // As long as the biggest request under way may take, no answer is no bad sign.
      val quietMs = boundMs(pulse.open.iterator.map(_.bytes).max)
      val quietLeftNs = TimeUnit.MILLISECONDS.toNanos(quietMs) - (nowNs - lastSignNs(pulse))
      val leftNs = TimeUnit.MILLISECONDS.toNanos(longestMs(bytes)) - (nowNs - startNs)
      if (quietLeftNs <= 0) {
        Some(new RequestTimeoutException(service, quietMs))
      } else if (leftNs <= 0) {
        Some(new SlowAnswerException(service, longestMs(bytes)))
      } else {
        armFor(math.min(quietLeftNs, leftNs))
        None
      }
    }

    private def lastSignNs(pulse: Pulse): Long =
      if (pulse.heardAtNs - startNs > 0) pulse.heardAtNs else startNs
  }

  /** When a service was heard of, and what is asked of it. */
  private final class Pulse(var heardAtNs: Long) {
    val open = mutable.HashSet.empty[Deadline]
  }
}

private[transport] object Deadlines {

  /** A connection that is slower than this is no help: the originals are read over the same network. */
  val FloorBytesPerSecond: Long = 1024 * 1024

  /** A timer that is so late says that this JVM was stopped: by its garbage collector, or from outside. */
  private val StandstillNs = TimeUnit.MILLISECONDS.toNanos(500)

  /** How many times as long a request may take while the service answers others. */
  val Patience = 4
}
