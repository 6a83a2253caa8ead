// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.ArrayDeque

import scala.annotation.tailrec

/**
 * Limits how much is under way at a time. A caller that finds no room waits, in the order of
 * arrival, and begins on the thread of a caller that leaves. As long as all leave, each one begins.
 */
private[lodestone] final class Turnstile(room: Int) {
  private val waiting = new ArrayDeque[(Int, () => Unit)]()
  private var inside = 0

  /** Calls `begin` when there is room. A size above the room waits until nothing is under way. */
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
        // The caller does not call `left`, because it has not begun.
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
