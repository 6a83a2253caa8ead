// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException

import org.apache.spark.network.client.ChunkFetchFailureException
import org.apache.spark.shuffle.lodestone.wire.{MalformedMessageException, RefusedException, Status}

/** What becomes of the blocks that a map task has still to push. */
private[lodestone] sealed abstract class Pushes(val name: String)

private[lodestone] object Pushes {

  /** They are sent as planned, unless the service is in the penalty box. */
  case object GoOn extends Pushes("go on")

  /** Nothing more of this map is sent, to whichever service. */
  case object EndMap extends Pushes("end for the map")

  /** This executor sends nothing more of this shuffle to the service. */
  case object LeaveService extends Pushes("leave the service")
}

/**
 * What is done about a failure, by whoever meets it.
 *
 * @param repeatAfterMs
 *   whether the same request is sent again, once; every request may be
 * @param penalty
 *   whether this JVM leaves the address alone for a while
 * @param reads
 *   whether the task that met it asks the service for other chunks
 * @param newShuffles
 *   whether the driver plans with the service when it meets it
 */
private[lodestone] final case class FailureAction(
    repeatAfterMs: Option[Long],
    penalty: Boolean,
    pushes: Pushes,
    reads: Boolean,
    newShuffles: Boolean)

/**
 * What kind of failure it was, as far as it matters for what to do: docs/failures.md has the same
 * table in words. Whether a failure is of the network, of the service, or our own is decided here
 * and nowhere else.
 */
private[lodestone] sealed abstract class FailureClass(
    val name: String,
    val action: FailureAction)

private[lodestone] object FailureClass {
  import Pushes._

  /** Long enough for a service at its limit to write some MiB. */
  private val PauseMs = 100L
  private val Never: Option[Long] = None
  private val AtOnce: Option[Long] = Some(0L)
  private val AfterPause: Option[Long] = Some(PauseMs)

  // format: off
  /** No connection, or one that broke: perhaps only this one. */
  case object Network extends FailureClass("Network",
        FailureAction(AtOnce, penalty = true, GoOn, reads = false, newShuffles = false))

  /** No sign of life in time. The wait was long enough: it is not repeated. */
  case object Silence extends FailureClass("Silence",
        FailureAction(Never, penalty = true, GoOn, reads = false, newShuffles = false))

  /** It answers others, or is busy with a bigger request, and has not come to this one in time. */
  case object Straggler extends FailureClass("Straggler",
        FailureAction(Never, penalty = false, GoOn, reads = true, newShuffles = true))

  /** What it wrote to other disks, or before, can still be read. */
  case object ServerDisk extends FailureClass("ServerDisk",
        FailureAction(Never, penalty = false, LeaveService, reads = true, newShuffles = false))

  case object ServerBusy extends FailureClass("ServerBusy",
        FailureAction(AfterPause, penalty = false, GoOn, reads = true, newShuffles = false))

  case object ServerLeaving extends FailureClass("ServerLeaving",
        FailureAction(Never, penalty = false, LeaveService, reads = true, newShuffles = false))

  /** It is well, but has not, or not any more, what the request is about. */
  case object MissingData extends FailureClass("MissingData",
        FailureAction(Never, penalty = false, LeaveService, reads = false, newShuffles = true))

  /** The map output cannot be read back: no service has to do with it. */
  case object OwnDisk extends FailureClass("OwnDisk",
        FailureAction(Never, penalty = false, GoOn, reads = true, newShuffles = true))

  /** Bytes changed on the way, or, if they come the same again, before. */
  case object Corrupt extends FailureClass("Corrupt",
        FailureAction(AtOnce, penalty = false, GoOn, reads = true, newShuffles = true))

  /** The shuffle has gone on without this map. */
  case object Overtaken extends FailureClass("Overtaken",
        FailureAction(Never, penalty = false, EndMap, reads = false, newShuffles = true))

  /** Only this block, or this request, was not wanted. */
  case object Declined extends FailureClass("Declined",
        FailureAction(Never, penalty = false, GoOn, reads = true, newShuffles = true))

  /** A bug, of the service or our own. */
  case object Fault extends FailureClass("Fault",
        FailureAction(Never, penalty = false, LeaveService, reads = false, newShuffles = false))

  /** What answers there is no Lodestone service, or none that we understand. */
  case object Foreign extends FailureClass("Foreign",
        FailureAction(Never, penalty = true, LeaveService, reads = false, newShuffles = false))
  // format: on

  /** In the order of docs/failures.md. */
  val all: Seq[FailureClass] = Seq(
    Network,
    Silence,
    Straggler,
    ServerDisk,
    ServerBusy,
    ServerLeaving,
    MissingData,
    OwnDisk,
    Corrupt,
    Overtaken,
    Declined,
    Fault,
    Foreign)

  def of(failure: Throwable): FailureClass = failure match {
    case refused: RefusedException => of(refused.status)
    case _: RequestTimeoutException => Silence
    case _: SlowAnswerException => Straggler
    case _: OwnOutputException => OwnDisk
    case _: DamagedChunkException => Corrupt
    // The service says so of one chunk: it could not read it.
    case _: ChunkFetchFailureException => ServerDisk
    case _: NotLodestoneException | _: RpcFailedException | _: MalformedMessageException => Foreign
    case _: IOException => Network
    case _ => Fault
  }

  /** Of a status that is no success. */
  def of(status: Status): FailureClass = status match {
    case Status.DiskFull | Status.DiskFailed => ServerDisk
    case Status.Overloaded => ServerBusy
    case Status.Draining => ServerLeaving
    case Status.StaleIncarnation | Status.UnknownApplication | Status.UnknownShuffle |
        Status.UnknownPartition | Status.NotFinalized => MissingData
    case Status.ChecksumMismatch => Corrupt
    case Status.TooLate | Status.StaleMerge | Status.StaleAttempt => Overtaken
    case Status.OtherAttempt | Status.TooLarge | Status.LedgerMismatch | Status.Aborted => Declined
    case Status.Malformed | Status.VersionMismatch | Status.Internal | Status.OtherContent =>
      Fault
    case Status.Ok | Status.Duplicate => throw new AssertionError(s"$status is no failure")
  }
}
