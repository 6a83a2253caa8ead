// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** A status code (docs/protocol.md, section 5). */
private[spark] sealed abstract class Status(val code: Byte, val name: String) extends WireCode {

  /** True if the service has done what the request asks for. */
  def isSuccess: Boolean = this == Status.Ok || this == Status.Duplicate

  override def toString: String = name
}

private[spark] object Status {

  case object Ok extends Status(0, "OK")
  case object Duplicate extends Status(1, "DUPLICATE")
  case object TooLate extends Status(2, "TOO_LATE")
  case object StaleGeneration extends Status(3, "STALE_GENERATION")
  case object StaleAttempt extends Status(4, "STALE_ATTEMPT")
  case object StaleIncarnation extends Status(5, "STALE_INCARNATION")
  case object UnknownApplication extends Status(6, "UNKNOWN_APPLICATION")
  case object UnknownShuffle extends Status(7, "UNKNOWN_SHUFFLE")
  case object UnknownPartition extends Status(8, "UNKNOWN_PARTITION")
  case object NotFinalized extends Status(9, "NOT_FINALIZED")
  case object ChecksumMismatch extends Status(10, "CHECKSUM_MISMATCH")
  case object DiskFull extends Status(11, "DISK_FULL")
  case object DiskFailed extends Status(12, "DISK_FAILED")
  case object Overloaded extends Status(13, "OVERLOADED")
  case object Malformed extends Status(14, "MALFORMED")
  case object VersionMismatch extends Status(15, "VERSION_MISMATCH")
  case object Draining extends Status(16, "DRAINING")
  case object TooLarge extends Status(17, "TOO_LARGE")
  case object Internal extends Status(19, "INTERNAL")
  case object LedgerMismatch extends Status(20, "LEDGER_MISMATCH")
  case object Aborted extends Status(21, "ABORTED")
  case object OtherContent extends Status(22, "OTHER_CONTENT")
  case object Quota extends Status(23, "QUOTA")

  // format: off
  val all: Vector[Status] = Vector(Ok, Duplicate, TooLate, StaleGeneration, StaleAttempt,
    StaleIncarnation, UnknownApplication, UnknownShuffle, UnknownPartition, NotFinalized,
    ChecksumMismatch, DiskFull, DiskFailed, Overloaded, Malformed, VersionMismatch, Draining,
    TooLarge, Internal, LedgerMismatch, Aborted, OtherContent, Quota)
  // format: on

  /** By code: some numbers are retired. */
  private val byCode: Array[Option[Status]] =
    Array.tabulate(all.map(_.code).max + 1)(code => all.find(_.code == code))

  def named(name: String): Option[Status] = all.find(_.name == name)

  def of(code: Byte): Status =
    byCode
      .lift(code.toInt)
      .flatten
      .getOrElse(throw new MalformedMessageException(s"unknown status code $code"))
}

private[spark] final case class Done(incarnation: Long) extends Message(Done.typeId)

private[spark] object Done extends Codec[Done](79) {
  override private[wire] def read(in: WireReader): Done = Done(in.long())
}

/** A refusal. `detail` is for the log. */
private[spark] final case class Refused(status: Status, incarnation: Long, detail: String)
    extends Message(Refused.typeId)

private[spark] object Refused extends Codec[Refused](80) {
  override private[wire] def read(in: WireReader): Refused =
    Refused(Status.of(in.byte()), in.long(), in.string())
}

/** The service understood the request and did not do it. */
private[spark] final class RefusedException(val refusal: Refused)
    extends Exception(s"${refusal.status}: ${refusal.detail}") {
  def status: Status = refusal.status
}
