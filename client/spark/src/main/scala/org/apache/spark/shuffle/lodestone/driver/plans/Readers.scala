// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, Logged}
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.report.{DriverReport, ShuffleRecord}
import org.apache.spark.shuffle.lodestone.driver.services.Removals
import org.apache.spark.shuffle.lodestone.plan._

/**
 * Answers readers that ask for the plan of map outputs. Readers of a remote shuffle get it at once.
 * If executors keep the outputs, readers wait until all pushes are over, or until the first reader
 * has waited for `spark.lodestone.push.timeout`. They read later pushes from originals, block by
 * block. All calls are events of the loop.
 */
private[driver] final class Readers(
    conf: LodestoneConf,
    shuffles: Shuffles,
    removals: Removals,
    report: DriverReport,
    loop: EventLoop) extends Logged {
  def readPlan(message: GetReadPlan, reply: SharedReply.Reply): Unit =
    shuffles.find(message.shuffleId) match {
      case None => reply(NoPlan(Reason.UnknownShuffle))
      case Some(shuffle) if !shuffle.keepsOriginals =>
        reply(shuffle.plan.getOrElse(NoPlan(Reason.UnknownShuffle)))
      case Some(shuffle) if !shuffle.isCurrent(message.generation) =>
        reply(NoPlan(Reason.NothingPushed))
      case Some(shuffle) if shuffle.pushes.isSettled => reply(answerOf(shuffle))
      case Some(shuffle) => await(shuffle, reply)
    }

  def pushed(message: MapPushed): Unit = {
    report.pushed(message)
    shuffles.current(message.generation).filter(_.keepsOriginals).foreach { shuffle =>
      shuffle.pushes.report(message.mapIndex)
      check(shuffle)
    }
  }

  /**
   * Reports the plan of a remote shuffle, or that it has none. Readers of another shuffle get their
   * answer if they have nothing left to wait for.
   */
  def check(shuffle: Shuffle): Unit =
    if (!shuffle.keepsOriginals) {
      shuffle.pushPlan.foreach(report.settled(shuffle.id, _, ShuffleRecord.Remote))
    } else if (shuffle.isLeft || (shuffle.isPlanned && shuffle.pushes.unreported == 0)) {
      settle(shuffle)
    }

  /**
   * Makes later attempts read the originals, and check them. Returns false if the driver does not
   * know the shuffle.
   */
  def distrust(message: DistrustMerged): Boolean = {
    val id = message.generation
    val found = shuffles.current(id)
    val reason = message.found.reason
    for (shuffle <- found
      if shuffle.pushes.isSettled && shuffle.isPlanned && shuffle.distrust(message.found)) {
      log.warn(
        s"Readers take the originals of $id from now on: merged data of partition " +
          s"${message.reduceId} is wrong ($reason)")
      report.decided(id, NoPlan(reason))
    }
    found.isDefined
  }

  private def await(shuffle: Shuffle, reply: SharedReply.Reply): Unit = {
    val pushes = shuffle.pushes
    if (pushes.await(loop.nowMs, reply)) {
      // No map output so far is a reason to merge, and later ones are too late.
      if (!shuffle.isPlanning) shuffle.leftFor.foreach(shuffle.leave)
      loop.later(conf.pushTimeoutMs) {
        // The generation of this wait may be over.
        if (shuffle.pushes eq pushes) settle(shuffle)
      }
    }
    check(shuffle)
  }

  private def settle(shuffle: Shuffle): Unit = if (!shuffle.pushes.isSettled) {
    val id = shuffle.id
    val unreported = shuffle.pushes.unreported
    if (!shuffle.isPlanned && !shuffle.isLeft) shuffle.leave(Reason.PushTooLate)
    if (shuffle.isPlanned) {
      report.counted(id, Reason.PushNotAwaited, unreported)
      if (unreported == 0 && report.nothingPushed(id)) {
        shuffle.registeredAt.foreach(removals(_, id))
        shuffle.leave(Reason.NothingPushed)
      }
    }
    val answer = answerOf(shuffle)
    val waitedMs = shuffle.pushes.settle(loop.nowMs, answer)
    report.waited(id, waitedMs)
    report.settled(id, answer, ShuffleRecord.Merged)
  }

  private def answerOf(shuffle: Shuffle): PlanAnswer =
    shuffle.leftFor.map(NoPlan(_)).orElse(shuffle.plan).getOrElse(NoPlan(Reason.NothingPushed))
}
