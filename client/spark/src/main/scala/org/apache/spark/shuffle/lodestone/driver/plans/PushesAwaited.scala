// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import java.util.BitSet

import org.apache.spark.shuffle.lodestone.plan.PlanAnswer

/**
 * The pushes of one generation of a shuffle whose map outputs executors keep, and the readers that wait for
 * their end.
 */
private[driver] final class PushesAwaited(numMaps: Int) {
  import PushesAwaited._

  private var reported = new BitSet()
  private var reportedCount = 0
  private var state: State = Unread

  /** Notes that all pushes of an attempt of the map are over. */
  def report(mapIndex: Int): Unit =
    if (!isSettled && mapIndex >= 0 && mapIndex < numMaps && !reported.get(mapIndex)) {
      reported.set(mapIndex)
      reportedCount += 1
    }

  /** Map tasks whose pushes are not over. */
  def unreported: Int = numMaps - reportedCount

  /** Readers do not wait any more. */
  def isSettled: Boolean = state == Settled

  /** A reader waits, or map tasks push. */
  def areOpen(isPlanned: Boolean): Boolean = state match {
    case Settled => false
    case Awaited(_, _) => true
    case Unread => isPlanned && unreported > 0
  }

  /** True for the first reader. */
  def await(nowMs: Long, reply: SharedReply.Reply): Boolean = state match {
    case Awaited(_, readers) =>
      readers.ask(reply)
      false
    case Unread | Settled =>
      val readers = new SharedReply
      readers.ask(reply)
      state = Awaited(nowMs, readers)
      true
  }

  /** Answers the readers. Returns how long the first one has waited. */
  def settle(nowMs: Long, answer: PlanAnswer): Long = {
    val before = state
    state = Settled
    reported = new BitSet()
    before match {
      case Awaited(sinceMs, readers) =>
        readers.give(answer)
        nowMs - sinceMs
      case Unread | Settled => 0
    }
  }
}

private[driver] object PushesAwaited {
  private sealed trait State
  private case object Unread extends State
  private final case class Awaited(sinceMs: Long, readers: SharedReply) extends State
  private case object Settled extends State
}
