// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.roaringbitmap.longlong.Roaring64NavigableMap

import org.apache.spark.shuffle.lodestone.wire.Ledger

/**
 * The ledger of each service of a merged shuffle, as map attempts report it. An attempt that got no
 * answer to a push does not count for that service: nobody knows which of its segments are there.
 * If a service has other segments than its ledger says, it must show only the attempts that count,
 * so that readers get no segment that was not compared.
 */
private[driver] final class MergeAccounts {
  private var ledgers = Map.empty[Int, Ledger].withDefaultValue(Ledger.Empty)

  /** Nearly all attempts of a stage have consecutive ids, which are small as runs. */
  private val attempts = new Roaring64NavigableMap
  private var unpacked = 0

  /** By service, the attempts that do not know which of their segments it has. */
  private var unsure = Map.empty[Int, Set[Long]].withDefaultValue(Set.empty)

  def add(mapId: Long, counts: PushCounts): Unit = {
    if (counts.acknowledged.nonEmpty) add(mapId)
    for (service <- counts.unsure) unsure = unsure.updated(service, unsure(service) + mapId)
    for ((service, more) <- counts.acknowledged if !counts.unsure(service)) {
      ledgers = ledgers.updated(service, ledgers(service).and(more))
    }
  }

  /** Returns the ledger of the service, from the attempts that count there. */
  def ledgerAt(service: Int): Ledger = ledgers(service)

  /** Returns those attempts, and attempts that pushed nothing to this service. */
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

  /** Attempts between two packings: to pack after each one would cost more than it saves. */
  private val PackedTogether = 4096
}
