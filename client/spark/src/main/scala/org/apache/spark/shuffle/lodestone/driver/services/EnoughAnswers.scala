// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import org.apache.spark.shuffle.lodestone.driver.events.EventLoop

/**
 * Waits until all services have answered, or, after a grace period, until some have agreed. Then it
 * calls `go`, once.
 */
private[services] final class EnoughAnswers(
    loop: EventLoop,
    haveAllAnswered: () => Boolean,
    haveSomeAgreed: () => Boolean)(
    go: => Unit) {
  import EnoughAnswers._

  private var state: State = AwaitsAll

  /** Starts the grace period: all services are asked. */
  def begin(): Unit = {
    look()
    loop.later(GraceMs)(if (!isOver) {
      state = AwaitsSome
      look()
    })
  }

  def isOver: Boolean = state == Over

  /** Call it after each answer. */
  def look(): Unit = {
    val isEnough = state match {
      case AwaitsAll => haveAllAnswered()
      case AwaitsSome => haveAllAnswered() || haveSomeAgreed()
      case Over => false
    }
    if (isEnough) {
      state = Over
      go
    }
  }
}

private[services] object EnoughAnswers {

  /** After this time the answers of some are enough. */
  private val GraceMs = 1000L

  private sealed trait State
  private case object AwaitsAll extends State
  private case object AwaitsSome extends State
  private case object Over extends State
}
