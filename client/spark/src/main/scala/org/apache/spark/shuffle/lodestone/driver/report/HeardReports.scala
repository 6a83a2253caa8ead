// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import scala.collection.mutable

/**
 * How far the event log has the report. Spark drops events without a word: all after it has
 * stopped its listeners, and any if the queue of the log is full. So an event that was posted need
 * not be in the log. The event loop posts, and the thread of the log hears.
 */
private[report] final class HeardReports {
  import HeardReports._

  /** Events that were posted, and that the log has not heard. */
  private val waiting = mutable.Queue.empty[Posted]
  private var upTo = 0L

  /** False once an event is lost: the log lacks what it said, whatever comes later. */
  private var isWhole = true

  /** All events of one post have one time, and no two posts have the same. */
  def posted(time: Long, parts: Int, changes: Long): Unit = synchronized {
    if (isWhole) waiting.enqueue(new Posted(time, parts, changes))
    if (waiting.size > MaxWaiting) lost()
  }

  def heard(time: Long): Unit = synchronized {
    waiting.headOption.foreach { first =>
      if (first.time == time) {
        first.parts -= 1
        if (first.parts == 0) upTo = waiting.dequeue().changes
      } else if (first.time < time) {
        lost()
      }
    }
  }

  /** Returns the number of changes up to which the log has everything. */
  def changes: Long = synchronized(upTo)

  private def lost(): Unit = {
    isWhole = false
    waiting.clear()
  }
}

private[report] object HeardReports {

  /** Posts are seconds apart, so this many are behind only if the log writes no longer. */
  private val MaxWaiting = 1000

  private final class Posted(val time: Long, var parts: Int, val changes: Long)
}
