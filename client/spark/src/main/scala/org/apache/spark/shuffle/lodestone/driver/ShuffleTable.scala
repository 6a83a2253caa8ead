// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.util.BitSet

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.Reason

/**
 * One answer for all who ask, however early: decided once. Of an answer that is not decided yet,
 * those who wait are remembered.
 */
private[driver] final class SharedAnswer {
  import SharedAnswer._

  private var decided: Option[DriverMessage] = None
  private var waiting: List[Reply] = Nil
  private var waitingCount = 0
  private var asks = 0L

  def isDecided: Boolean = decided.isDefined

  def answer: Option[DriverMessage] = decided

  /** True for the first who ever asked. */
  def ask(reply: Reply): Boolean = {
    asks += 1
    decided match {
      case Some(answer) => reply(answer)
      case None if waitingCount >= MaxWaiting => reply(NotMerged(Reason.DriverUnreachable.code))
      case None =>
        waiting ::= reply
        waitingCount += 1
    }
    asks == 1
  }

  def wasAsked: Boolean = asks > 0

  def decide(answer: DriverMessage): Unit = if (decided.isEmpty) replace(answer)

  /** For those who ask from now on; who was answered keeps what he has. */
  def replace(answer: DriverMessage): Unit = {
    decided = Some(answer)
    val all = waiting
    waiting = Nil
    waitingCount = 0
    all.reverse.foreach(reply => reply(answer))
  }
}

private[driver] object SharedAnswer {
  type Reply = DriverMessage => Unit

  /** One ask per running task of one shuffle; past it, tasks go on without an answer. */
  private val MaxWaiting = 100000
}

/** One generation of one shuffle: O(services + maps) of state, whatever the number of blocks. */
private[driver] final class Generation(
    val id: ShuffleGeneration,
    val numMaps: Int,
    val numPartitions: Int) {

  /** Where to push. */
  val plan = new SharedAnswer

  /** What came of it. */
  val result = new SharedAnswer

  /** Which map indexes have reported; only until the generation is finalized. */
  private var reported = new BitSet()
  private var reportedCount = 0

  /** What map tasks say that each service of the plan has, by its index. */
  val accounts = new MergeAccounts

  /** When the first reader asked what came of it. */
  var askedAtMs: Option[Long] = None

  /** Blocks above this size stay where they are; said when a plan is to be made. */
  var maxBlockBytes: Long = 0

  /** While there is no plan: why not, by what is known so far. */
  var leftForNow: Option[Reason] = None

  var finalizing: Boolean = false
  var removed: Boolean = false

  /** The plan, if there is one to push to. */
  def merging: Option[MergePlan] = plan.answer.collect { case merging: MergePlan => merging }

  /** Of any attempt of the map. What comes after the end is too late to have been merged. */
  def report(mapIndex: Int, mapId: Long, counts: PushCounts): Unit =
    if (!result.isDecided) {
      accounts.add(mapId, counts)
      if (!finalizing && mapIndex >= 0 && mapIndex < numMaps && !reported.get(mapIndex)) {
        reported.set(mapIndex)
        reportedCount += 1
      }
    }

  def allReported: Boolean = unreported == 0

  /** Map tasks that have not said that their pushes are over. */
  def unreported: Int = numMaps - reportedCount

  /** Somebody waits for an answer, or blocks are being pushed. */
  def isUnsettled: Boolean = {
    val planOwed = plan.wasAsked && !plan.isDecided
    val resultOwed = result.wasAsked && !result.isDecided
    planOwed || resultOwed || (merging.isDefined && !finalizing && !allReported)
  }

  def beginFinalize(): Unit = {
    finalizing = true
    reported = new BitSet()
  }
}

/** One shuffle that is registered with Spark and may be merged. */
private[driver] final class ShuffleState(
    val shuffleId: Int,
    val numMaps: Int,
    val numPartitions: Int) {
  var generation: Option[Generation] = None
}

/** The shuffles that Spark has, each with its newest generation. */
private[driver] final class ShuffleTable {
  private val shuffles = mutable.HashMap.empty[Int, ShuffleState]

  def add(shuffle: ShuffleState): Unit = shuffles.put(shuffle.shuffleId, shuffle)

  def find(shuffleId: Int): Option[ShuffleState] = shuffles.get(shuffleId)

  def remove(shuffleId: Int): Option[ShuffleState] = shuffles.remove(shuffleId)

  /** This very generation, if it is the newest one. */
  def current(id: ShuffleGeneration): Option[Generation] =
    find(id.shuffleId).flatMap(_.generation).filter(_.id == id)

  def generations: Iterable[Generation] = shuffles.values.flatMap(_.generation)
}
