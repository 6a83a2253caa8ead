// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.roaringbitmap.longlong.Roaring64NavigableMap

import org.apache.spark.shuffle.lodestone.wire.Ledger

/**
 * What map attempts say that each service of a merged shuffle has. Only attempts that know it all count: of
 * one that got no answer to a push, nobody knows what is there. Services that have more than what is
 * accounted for are made to show these attempts alone, so that every segment that is read was compared.
 */
private[driver] final class MergeAccounts {
  private var ledgers = Map.empty[Int, Ledger].withDefaultValue(Ledger.Empty)

  /** Attempts of one stage have ids that follow one another, but for a few: that is small as runs. */
  private val attempts = new Roaring64NavigableMap
  private var unpacked = 0

  /** By service, attempts that do not know what it has of them. */
  private var unsure = Map.empty[Int, Set[Long]].withDefaultValue(Set.empty)

  def add(mapId: Long, counts: PushCounts): Unit = {
    if (counts.acknowledged.nonEmpty) add(mapId)
    for (service <- counts.unsure) unsure = unsure.updated(service, unsure(service) + mapId)
    for ((service, more) <- counts.acknowledged if !counts.unsure(service)) {
      ledgers = ledgers.updated(service, ledgers(service).and(more))
    }
  }

  /** What all attempts that know it say that the service has. */
  def ledgerAt(service: Int): Ledger = ledgers(service)

  /** Those attempts, and such as have nothing there. */
  def attemptsAt(service: Int): Array[Long] = attempts.toArray.filterNot(unsure(service))

  private def add(mapId: Long): Unit = {
    attempts.addLong(mapId)
    unpacked += 1
    if (unpacked == MergeAccounts.PackedTogether) {
      attempts.runOptimize()
      unpacked = 0
    }
  }
}

private object MergeAccounts {

  /** At most so many are looked at again and again. */
  private val PackedTogether = 4096
}
