// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/**
 * One attempt of one application, as services know it. `appId` is Spark's, or
 * [[Application.unique]]. `attempt` is -1 if the cluster manager does not count attempts.
 */
private[spark] final case class Application(appId: String, attempt: Int)

private[spark] object Application {
  val NoAttempt = -1

  /**
   * Returns a name that no other driver has. Spark's id is not enough: two masters, or two local
   * modes that begin in the same millisecond, may give the same id. docs/protocol.md has the form,
   * and `lodestone explain` knows it.
   */
  def unique(appId: String, random: Long): Application =
    Application(f"$appId~$random%016x", NoAttempt)
}

/** Renews a lease. `incarnation` 0 stands for any. */
private[spark] final case class RenewLease(app: Application, incarnation: Long, ttlMs: Long)
    extends Message(66)

private[spark] final case class LeaseReply(incarnation: Long, grantedTtlMs: Long, load: Load)
    extends Message(LeaseReply.typeId)

private[spark] object LeaseReply extends Codec[LeaseReply](67) {
  override private[wire] def read(in: WireReader): LeaseReply =
    LeaseReply(in.long(), in.long(), Load.read(in))
}

/** Ends the lease of the application, and removes its shuffles. The answer is [[Done]]. */
private[spark] final case class EndApplication(app: Application) extends Message(78)
