// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import scala.annotation.tailrec
import scala.collection.mutable

/**
 * Hands things over in the order of their numbers, whatever the order in which they come. Each number
 * must come without a later one being handed over first; one that comes again goes through at once.
 */
private[fetch] final class Turns {
  import Turns.Turn

  private val early = mutable.LongMap.empty[() => Unit]
  private var next = 0L

  def turnOf(number: Int): Turn = take(number, _)

  private def take(number: Int, handOver: () => Unit): Unit = synchronized {
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

  /** Runs what hands over, which is short, and takes no lock that is held by who comes here. */
  type Turn = (() => Unit) => Unit

  val AtOnce: Turn = handOver => handOver()
}
