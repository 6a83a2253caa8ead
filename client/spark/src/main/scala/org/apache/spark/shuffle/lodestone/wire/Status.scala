// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** What the caller of a refused request must do. */
private[spark] sealed trait Advice

private[spark] object Advice {

  /** It is done. */
  case object GoOn extends Advice

  /** Send the same request to the same service again, a bounded number of times. */
  case object Retry extends Advice

  /** Do without this service for the shuffle. */
  case object Reroute extends Advice

  /** The request has become pointless. */
  case object GiveUp extends Advice

  /** Do not use this service at all; tell the user. */
  case object Fatal extends Advice
}

/** A status code: docs/protocol.md, section 5. */
private[spark] sealed abstract class Status(val code: Byte, val name: String, val advice: Advice) {
  override def toString: String = name
}

private[spark] object Status {
  import Advice._

  case object Ok extends Status(0, "OK", GoOn)
  case object Duplicate extends Status(1, "DUPLICATE", GoOn)
  case object TooLate extends Status(2, "TOO_LATE", GiveUp)
  case object StaleMerge extends Status(3, "STALE_MERGE", GiveUp)
  case object StaleAttempt extends Status(4, "STALE_ATTEMPT", GiveUp)
  case object StaleIncarnation extends Status(5, "STALE_INCARNATION", Reroute)
  case object UnknownApplication extends Status(6, "UNKNOWN_APPLICATION", Reroute)
  case object UnknownShuffle extends Status(7, "UNKNOWN_SHUFFLE", Reroute)
  case object UnknownPartition extends Status(8, "UNKNOWN_PARTITION", Reroute)
  case object NotFinalized extends Status(9, "NOT_FINALIZED", Retry)
  case object ChecksumMismatch extends Status(10, "CHECKSUM_MISMATCH", Retry)
  case object DiskFull extends Status(11, "DISK_FULL", Reroute)
  case object DiskFailed extends Status(12, "DISK_FAILED", Reroute)
  case object Overloaded extends Status(13, "OVERLOADED", Retry)
  case object Malformed extends Status(14, "MALFORMED", Fatal)
  case object VersionMismatch extends Status(15, "VERSION_MISMATCH", Fatal)
  case object Draining extends Status(16, "DRAINING", Reroute)
  case object TooLarge extends Status(17, "TOO_LARGE", GiveUp)
  case object OtherAttempt extends Status(18, "OTHER_ATTEMPT", GiveUp)
  case object Internal extends Status(19, "INTERNAL", Reroute)

  /** Indexed by code. */
  val all: Vector[Status] = Vector(
    Ok,
    Duplicate,
    TooLate,
    StaleMerge,
    StaleAttempt,
    StaleIncarnation,
    UnknownApplication,
    UnknownShuffle,
    UnknownPartition,
    NotFinalized,
    ChecksumMismatch,
    DiskFull,
    DiskFailed,
    Overloaded,
    Malformed,
    VersionMismatch,
    Draining,
    TooLarge,
    OtherAttempt,
    Internal)

  def of(code: Byte): Status =
    all.lift(
      code.toInt).getOrElse(throw new MalformedMessageException(s"unknown status code $code"))
}

private[spark] final case class Done(incarnation: Long) extends Message {
  override def typeId: Int = Done.typeId
  override private[wire] def write(out: WireWriter): Unit = out.long(incarnation)
}

private[spark] object Done extends Codec[Done](79) {
  override private[wire] def read(in: WireReader): Done = Done(in.long())
}

/** `detail` is for the log. */
private[spark] final case class Refused(status: Status, incarnation: Long, detail: String)
    extends Message {
  override def typeId: Int = Refused.typeId
  override private[wire] def write(out: WireWriter): Unit = {
    out.byte(status.code.toInt)
    out.long(incarnation)
    out.string(detail)
  }
}

private[spark] object Refused extends Codec[Refused](80) {
  override private[wire] def read(in: WireReader): Refused =
    Refused(Status.of(in.byte()), in.long(), in.string())
}

/** The service understood the request and did not do it. */
private[spark] final class RefusedException(val refusal: Refused)
    extends Exception(s"${refusal.status}: ${refusal.detail}") {
  def status: Status = refusal.status
}
