// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.ArrayDeque

import scala.annotation.tailrec

/**
 * Lets in as much as there is room for. Who comes when there is none waits, in the order of arrival,
 * and is let in by those who leave, on their thread. Nobody waits for ever where all leave.
 */
private[lodestone] final class Turnstile(room: Int) {
  private val waiting = new ArrayDeque[(Int, () => Unit)]()
  private var inside = 0

  /** What is larger than the room is let in when nobody else is there. */
  def enter(size: Int)(begin: () => Unit): Unit = {
    synchronized(waiting.add(size -> begin))
    admit()
  }

  def left(size: Int): Unit = {
    synchronized(inside -= size)
    admit()
  }

  @tailrec
  private def admit(): Unit = next() match {
    case Some((size, begin)) =>
      var hasBegun = false
      try {
        begin()
        hasBegun = true
      } finally {
        // Nobody calls `left` for what has not begun.
        if (!hasBegun) synchronized(inside -= size)
      }
      admit()
    case None =>
  }

  private def next(): Option[(Int, () => Unit)] = synchronized {
    Option(waiting.peek()).collect {
      case next @ (size, _) if inside == 0 || inside + size <= room =>
        waiting.poll()
        inside += size
        next
    }
  }
}
