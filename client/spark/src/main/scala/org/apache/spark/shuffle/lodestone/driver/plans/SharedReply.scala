// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import org.apache.spark.shuffle.lodestone.plan.{NoPlan, PlanAnswer, Reason}

/** One answer for all that ask before there is one. */
private[driver] final class SharedReply {
  import SharedReply._

  private var waiting: List[Reply] = Nil
  private var waitingCount = 0

  def ask(reply: Reply): Unit =
    if (waitingCount >= MaxWaiting) {
      reply(NoPlan(Reason.DriverUnreachable))
    } else {
      waiting ::= reply
      waitingCount += 1
    }

  /** Answers all that wait, the first one first. */
  def give(answer: PlanAnswer): Unit = {
    val all = waiting
    waiting = Nil
    waitingCount = 0
    all.reverse.foreach(reply => reply(answer))
  }
}

private[driver] object SharedReply {
  type Reply = PlanAnswer => Unit

  /** One for each running task of one shuffle. Other tasks continue without a plan. */
  private val MaxWaiting = 100000
}
