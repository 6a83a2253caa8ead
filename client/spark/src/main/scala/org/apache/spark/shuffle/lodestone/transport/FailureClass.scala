// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException

import org.apache.spark.network.client.ChunkFetchFailureException
import org.apache.spark.shuffle.lodestone.wire.{MalformedMessageException, RefusedException, Status}

/** Says what a map task does with the blocks that it has not pushed yet. */
private[lodestone] sealed abstract class Pushes(val name: String)

private[lodestone] object Pushes {

  /** They are sent as planned, unless the service is in the penalty box. */
  case object GoOn extends Pushes("go on")

  /** No more blocks of this map are sent, to any service. */
  case object EndMap extends Pushes("end for the map")

  /** This executor sends no more blocks of this shuffle to the service. */
  case object LeaveService extends Pushes("leave the service")
}

/**
 * The answer of the plugin to a failure.
 *
 * @param retryAfterMs
 *   the pause before the same request is sent once more; None: it is not
 * @param penalty
 *   whether this JVM avoids the address for some time
 * @param reads
 *   whether a task that meets the failure asks the service for other chunks
 * @param newShuffles
 *   whether a driver that meets the failure plans with the service
 * @param isTransient
 *   whether a request that nothing else can replace is sent again for some time, in mode remote
 * @param keepsSegments
 *   whether the service still has the segments of a map attempt that it took before
 */
private[lodestone] final case class FailureAction(
    retryAfterMs: Option[Long],
    penalty: Boolean,
    pushes: Pushes,
    reads: Boolean,
    newShuffles: Boolean,
    isTransient: Boolean = false,
    keepsSegments: Boolean = false)

/**
 * The kinds of failures, and the answer to each; docs/failures.md has the same table in words. Only
 * this file decides whether the network, the service, or the plugin itself has failed.
 */
private[lodestone] sealed abstract class FailureClass(
    val name: String,
    val action: FailureAction)

private[lodestone] object FailureClass {
  import Pushes._

  /** In this time a service at its limit can write some MiB. */
  private val PauseMs = 100L
  private val Never: Option[Long] = None
  private val AtOnce: Option[Long] = Some(0L)
  private val AfterPause: Option[Long] = Some(PauseMs)

  // format: off
  /** There is no connection, or it broke. Other connections may work. */
  case object Network extends FailureClass("Network",
        FailureAction(AtOnce, penalty = true, GoOn, reads = false, newShuffles = false,
          isTransient = true))

  /** The service answered nothing in time. A second wait would cost too much. */
  case object Silence extends FailureClass("Silence",
        FailureAction(Never, penalty = true, GoOn, reads = false, newShuffles = false,
          isTransient = true))

  /** The service answers others, or works on a larger request, and did not answer this in time. */
  case object Straggler extends FailureClass("Straggler",
        FailureAction(Never, penalty = false, GoOn, reads = true, newShuffles = true,
          isTransient = true))

  /** A disk of the service is full or failed. Data that it wrote before can still be read. */
  case object ServiceDisk extends FailureClass("ServiceDisk",
        FailureAction(Never, penalty = false, LeaveService, reads = true, newShuffles = false,
          keepsSegments = true))

  case object ServiceBusy extends FailureClass("ServiceBusy",
        FailureAction(AfterPause, penalty = false, GoOn, reads = true, newShuffles = false,
          isTransient = true, keepsSegments = true))

  /** The application has its share of the memory, until shuffles of it end. */
  case object ServiceShare extends FailureClass("ServiceShare",
        FailureAction(Never, penalty = false, LeaveService, reads = true, newShuffles = false,
          keepsSegments = true))

  case object ServiceDraining extends FailureClass("ServiceDraining",
        FailureAction(Never, penalty = false, LeaveService, reads = true, newShuffles = false,
          keepsSegments = true))

  /** The service works, but does not have the data that the request names. */
  case object MissingData extends FailureClass("MissingData",
        FailureAction(Never, penalty = false, LeaveService, reads = false, newShuffles = true))

  /** This executor cannot read its own map output. No service is involved. */
  case object OwnDisk extends FailureClass("OwnDisk",
        FailureAction(Never, penalty = false, GoOn, reads = true, newShuffles = true))

  /** Bytes changed on their way, or before it if they arrive damaged again. */
  case object Corrupt extends FailureClass("Corrupt",
        FailureAction(AtOnce, penalty = false, GoOn, reads = true, newShuffles = true,
          isTransient = true))

  /** The shuffle has continued without this map attempt. */
  case object Overtaken extends FailureClass("Overtaken",
        FailureAction(Never, penalty = false, EndMap, reads = true, newShuffles = true))

  /** The service refused only this block or this request. */
  case object Declined extends FailureClass("Declined",
        FailureAction(Never, penalty = false, GoOn, reads = true, newShuffles = true))

  /** A bug of the service or of the plugin. */
  case object Fault extends FailureClass("Fault",
        FailureAction(Never, penalty = false, LeaveService, reads = false, newShuffles = false))

  /** The process there is no Lodestone service, or speaks another protocol. */
  case object Foreign extends FailureClass("Foreign",
        FailureAction(Never, penalty = true, LeaveService, reads = false, newShuffles = false))

  /** Lazy: a class that is used first is made before it, and would be null in it. */
  lazy val all: Seq[FailureClass] = Seq(Network, Silence, Straggler, ServiceDisk, ServiceBusy,
    ServiceShare, ServiceDraining, MissingData, OwnDisk, Corrupt, Overtaken, Declined, Fault,
    Foreign)
  // format: on

  def of(failure: Throwable): FailureClass = failure match {
    case refused: RefusedException => of(refused.status)
    case _: RequestTimeoutException => Silence
    case _: SlowAnswerException => Straggler
    case _: OwnOutputException => OwnDisk
    case _: DamagedChunkException => Corrupt
    // A refusal without a code, of a service that is older than the codes.
    case _: ChunkFetchFailureException => ServiceDisk
    case _: NotLodestoneException | _: RpcFailedException | _: MalformedMessageException => Foreign
    case _: IOException => Network
    case _ => Fault
  }

  /** Returns the class of a status code that is no success. */
  def of(status: Status): FailureClass = status match {
    case Status.DiskFull | Status.DiskFailed => ServiceDisk
    case Status.Overloaded => ServiceBusy
    case Status.Quota => ServiceShare
    case Status.Draining => ServiceDraining
    case Status.StaleIncarnation | Status.UnknownApplication | Status.UnknownShuffle |
        Status.UnknownPartition | Status.NotFinalized => MissingData
    case Status.ChecksumMismatch => Corrupt
    case Status.TooLate | Status.StaleGeneration | Status.StaleAttempt | Status.Aborted => Overtaken
    case Status.TooLarge | Status.LedgerMismatch => Declined
    case Status.Malformed | Status.VersionMismatch | Status.Internal | Status.OtherContent =>
      Fault
    case Status.Ok | Status.Duplicate => throw new AssertionError(s"$status is no failure")
  }
}
