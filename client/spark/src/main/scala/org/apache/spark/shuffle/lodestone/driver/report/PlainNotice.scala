// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Mode}
import org.apache.spark.shuffle.lodestone.plan.{Reason, ShuffleEligibility}

/**
 * The warning that the configuration leaves shuffles to plain Spark, once for each reason. The
 * answers are right, so a user would not notice. All calls are events of the loop.
 */
private[driver] final class PlainNotice(conf: SparkConf) {

  /** In mode remote the log has the first one since the start (`RemoteDefaults`). */
  private var said: Set[Reason] =
    if (LodestoneConf(conf).mode == Mode.Remote) ShuffleEligibility.remoteObstacle(conf).toSet
    else Set.empty

  /** Returns the line of the log, if there is something new that a user can change. */
  def apply(shuffleId: Int, reason: Reason): Option[String] =
    if (!PlainNotice.OfConfiguration(reason) || said(reason)) {
      None
    } else {
      said += reason
      Some(
        s"Shuffle $shuffleId is left to plain Spark, and so are others like it: " +
          s"${reason.sentence} ($reason). ${reason.remedy}")
    }
}

private[driver] object PlainNotice {

  /** Those of the data, as of a single map, are no fault. */
  private val OfConfiguration = Set(
    Reason.SerializerNotRelocatable,
    Reason.CodecNotConcatenable,
    Reason.CipherUnknown,
    Reason.SecretNotShared,
    Reason.RpcEncryption,
    Reason.SparkPush,
    Reason.CustomShuffleIo,
    Reason.OldFetchProtocol,
    Reason.EngineShuffle,
    Reason.EngineNotEncrypted)
}
