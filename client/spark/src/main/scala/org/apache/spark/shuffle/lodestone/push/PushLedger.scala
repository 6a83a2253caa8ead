// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.Reason
import org.apache.spark.shuffle.lodestone.driver.PushCounts
import org.apache.spark.shuffle.lodestone.wire.{Ledger, Segment}

/**
 * What became of each block of one map attempt. Requests are opened before they are sent; when all
 * are closed `whenOver` is called, once.
 */
private[push] final class PushLedger(
    mapIndex: Int,
    mapId: Long,
    whenOver: PushCounts => Unit) {
  private var blocks = 0L
  private var bytes = 0L
  private var requests = 0L
  private val acknowledged = mutable.Map.empty[Int, Ledger].withDefaultValue(Ledger.Empty)
  private val unsure = mutable.Set.empty[Int]
  private val unpushed = mutable.Map.empty[String, Long].withDefaultValue(0L)

  /** The one that hands out the requests counts as one. */
  private var open = 1
  private var stopped: Option[Reason] = None

  def opened(): Unit = synchronized(open += 1)

  def pushed(serviceIndex: Int, segment: Segment): Unit = synchronized {
    blocks += 1
    bytes += segment.length
    acknowledged(serviceIndex) =
      acknowledged(serviceIndex).and(Ledger.of(mapIndex, mapId, segment))
  }

  /** What of this map is at the service is not known. */
  def unknownAt(serviceIndex: Int): Unit = synchronized {
    unsure += serviceIndex
    ()
  }

  def failed(reason: Reason, count: Int): Unit = synchronized {
    if (count > 0) unpushed(reason.code) += count
  }

  /** Nothing more of this map is worth sending. */
  def stop(reason: Reason): Unit = synchronized {
    if (stopped.isEmpty) stopped = Some(reason)
  }

  def stopReason: Option[Reason] = synchronized(stopped)

  def sent(): Unit = synchronized(requests += 1)

  def closed(): Unit = {
    val over = synchronized {
      open -= 1
      if (open == 0) Some(counts) else None
    }
    over.foreach(whenOver)
  }

  private def counts: PushCounts =
    PushCounts(blocks, bytes, requests, acknowledged.toMap, unpushed.toMap, unsure.toSet)
}
