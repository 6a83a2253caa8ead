// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import scala.collection.mutable

import org.apache.spark.shuffle.lodestone.plan.{PushCounts, Reason}
import org.apache.spark.shuffle.lodestone.wire.{Ledger, Segment}

/**
 * What became of each block of one map attempt. A request is opened before it is sent. When all are
 * closed, `whenOver` is called, once.
 */
private[push] final class PushLedger(mapIndex: Int, mapId: Long, whenOver: PushLedger => Unit) {
  import PushLedger.Share

  private var requests = 0L

  /** By the index of the service in the plan. */
  private val shares = mutable.HashMap.empty[Int, Share]
  private val unpushed = mutable.HashMap.empty[String, Long].withDefaultValue(0L)

  /** The thread that makes the requests counts as one. */
  private var open = 1
  private var stopped: Option[Reason] = None

  def opened(): Unit = synchronized(open += 1)

  def pushed(serviceIndex: Int, segment: Segment): Unit = synchronized {
    val share = of(serviceIndex)
    share.bytes += segment.length
    share.ledger = share.ledger.and(Ledger.of(mapIndex, mapId, segment))
  }

  /** Nobody knows which segments of this attempt the service has: it does not commit there. */
  def unknownAt(serviceIndex: Int): Unit = synchronized(of(serviceIndex).isUnknown = true)

  def failed(reason: Reason, count: Long): Unit = synchronized {
    if (count > 0) unpushed(reason.code) += count
  }

  /** Nothing more of this map is sent. */
  def stop(reason: Reason): Unit = synchronized {
    if (stopped.isEmpty) stopped = Some(reason)
  }

  def stopReason: Option[Reason] = synchronized(stopped)

  def sent(): Unit = synchronized(requests += 1)

  def closed(): Unit = {
    val isOver = synchronized {
      open -= 1
      open == 0
    }
    if (isOver) whenOver(this)
  }

  /** Services at which the attempt commits, and the ledger of each. */
  def known: Seq[(Int, Ledger)] = synchronized {
    shares.toSeq.collect { case (index, share) if share.isKnown => index -> share.ledger }
  }

  /** Whether the attempt cannot commit at the service. */
  def isUnknownAt(serviceIndex: Int): Boolean = synchronized {
    shares.get(serviceIndex).exists(_.isUnknown)
  }

  /** Services that have segments of this attempt which nobody will read. */
  def unknown: Seq[Int] = synchronized {
    shares.toSeq.collect { case (index, share) if share.isUnknown => index }
  }

  /** Readers take the originals of what the service has. */
  def notCommitted(serviceIndex: Int, reason: Reason): Unit = synchronized {
    shares.remove(serviceIndex).foreach(share => failed(reason, share.ledger.segments))
  }

  /** A block is one segment. */
  def counts: PushCounts = synchronized {
    val pushed = shares.values.filter(_.isKnown)
    PushCounts(
      pushed.map(_.ledger.segments).sum,
      pushed.map(_.bytes).sum,
      requests,
      unpushed.toMap)
  }

  private def of(serviceIndex: Int): Share = shares.getOrElseUpdate(serviceIndex, new Share)
}

private object PushLedger {
  private final class Share {
    var bytes = 0L
    var ledger: Ledger = Ledger.Empty
    var isUnknown = false

    def isKnown: Boolean = !isUnknown && ledger.segments > 0
  }
}
