// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.annotation.tailrec
import scala.collection.mutable

/**
 * Hands things over in the order of their numbers, in whatever order they arrive. No number may
 * depend on a later one. A number that arrives again is handed over at once.
 */
private[fetch] final class Turns {
  import Turns.Turn

  private val early = mutable.LongMap.empty[() => Unit]
  private var next = 0L

  def turnOf(number: Int): Turn = handOver =>
    synchronized {
      if (number < next) {
        handOver()
      } else {
        early(number.toLong) = handOver
        goOn()
      }
    }

  @tailrec
  private def goOn(): Unit = early.remove(next) match {
    case Some(handOver) =>
      next += 1
      handOver()
      goOn()
    case None =>
  }
}

private[fetch] object Turns {

  /** Runs the function that hands over. It is short, and takes no lock that its callers hold. */
  type Turn = (() => Unit) => Unit

  val AtOnce: Turn = handOver => handOver()
}
