// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.util.concurrent.{ScheduledFuture, TimeUnit}

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.config.HostPort

/**
 * The time limits of requests: `spark.lodestone.request.timeout`, plus the time that the bytes take
 * at the lowest useful rate. The time counts from the last answer of the service to any request,
 * because requests share a connection and a small one may wait behind large ones. It has an upper
 * limit, because a service that answers other requests may never answer this one.
 *
 * @param silent
 *   is called with a service that answered nothing in time, after its requests have failed
 */
private[transport] final class Deadlines(
    baseMs: Long,
    silent: HostPort => Unit,
    nanoClock: () => Long = () => System.nanoTime()) {
  import Deadlines._

  /** The services that have requests under way. */
  private val pulses = mutable.HashMap.empty[HostPort, Pulse]

  /** Returns the time limit of a request that moves `bytes`, in either direction. */
  def boundMs(bytes: Long): Long = baseMs + bytes * 1000 / FloorBytesPerSecond

  /** Returns the time after which such a request has ended in any case. */
  def longestMs(bytes: Long): Long = StragglerFactor * boundMs(bytes)
  def heard(service: HostPort): Unit =
    synchronized(pulses.get(service).foreach(_.heardAtNs = nanoClock()))

  /** Starts a deadline. At its end `expired` is called on the timer's thread, unless it is met. */
  def start(service: HostPort, bytes: Long)(expired: IOException => Unit): Deadline = {
    val deadline = new Deadline(service, bytes, expired)
    deadline.begin()
    deadline
  }

  /** The deadline of one request, or of the next chunk of a stream. */
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

    /** A chunk has arrived, and the next one has `nextBytes`. */
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
        val over = if (timer.isDefined) failureIfOver() else None
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

    /** Returns the failure, or None if there is still time: then the timer is set once more. */
    private def failureIfOver(): Option[IOException] = {
      val nowNs = nanoClock()
      // This JVM was stopped for a while: the answer may be there, and not yet read.
      if (nowNs - dueNs > StandstillNs) startNs = nowNs
      val pulse = pulses(service)
      // A service may be silent for as long as the largest request under way may take.
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

  /** The time of the last answer of a service, and its requests under way. */
  private final class Pulse(var heardAtNs: Long) {
    val open = mutable.HashSet.empty[Deadline]
  }
}

private[transport] object Deadlines {

  /** A slower connection is useless: originals come over the same network. */
  val FloorBytesPerSecond: Long = 1024 * 1024

  /** A timer that is later than this shows that this JVM was stopped, as by garbage collection. */
  private val StandstillNs = TimeUnit.MILLISECONDS.toNanos(500)

  /** The factor by which a request may take longer while the service answers others. */
  val StragglerFactor = 4
}
