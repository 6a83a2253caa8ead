// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import java.util.BitSet

import org.apache.spark.shuffle.lodestone.plan.{NoPlan, PlanAnswer, Reason}

/**
 * The pushes of one generation of a shuffle whose map outputs executors keep, and the readers that
 * wait for the end of the pushes.
 */
private[driver] final class PushesAwaited(numMaps: Int) {
  import PushesAwaited._

  private var reported = new BitSet()
  private var reportedCount = 0
  private var state: State = Unread

  /** Records that all pushes of an attempt of the map are over. */
  def report(mapIndex: Int): Unit =
    if (!isSettled && mapIndex >= 0 && mapIndex < numMaps && !reported.get(mapIndex)) {
      reported.set(mapIndex)
      reportedCount += 1
    }

  def unreported: Int = numMaps - reportedCount
  def isSettled: Boolean = state == Settled

  /** True if a reader waits, or map tasks push. */
  def areOpen(isPlanned: Boolean): Boolean = state match {
    case Settled => false
    case Awaited(_, _) => true
    case Unread => isPlanned && unreported > 0
  }

  /** Adds a reader. Returns true for the first one. */
  def await(nowMs: Long, reply: SharedReply.Reply): Boolean = state match {
    case Awaited(_, readers) =>
      readers.add(reply)
      false
    case Unread | Settled =>
      val readers = new SharedReply
      readers.add(reply)
      state = Awaited(nowMs, readers)
      true
  }

  /** Answers the readers. Returns the waiting time of the first one. */
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

/** Gives one answer to all tasks that ask before it exists. */
private[driver] final class SharedReply {
  import SharedReply._

  private var waiting: List[Reply] = Nil
  private var waitingCount = 0

  def add(reply: Reply): Unit =
    if (waitingCount >= MaxWaiting) {
      reply(NoPlan(Reason.DriverUnreachable))
    } else {
      waiting ::= reply
      waitingCount += 1
    }

  /** Answers all tasks in the order of their questions. */
  def give(answer: PlanAnswer): Unit = {
    val all = waiting
    waiting = Nil
    waitingCount = 0
    all.reverse.foreach(reply => reply(answer))
  }
}

private[driver] object SharedReply {
  type Reply = PlanAnswer => Unit

  /** One for each running task of one shuffle. Further tasks continue without a plan. */
  private val MaxWaiting = 100000
}
