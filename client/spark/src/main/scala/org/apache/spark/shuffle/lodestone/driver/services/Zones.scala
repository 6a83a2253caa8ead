// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable

/**
 * Keeps the two replicas of a partition out of one zone. They are at neighbours in the list of
 * services, whose last one is a neighbour of the first. So this is possible where no zone has more
 * than half of the services.
 */
private[driver] object Zones {

  /**
   * Services of the largest zone are left out if each of those that stay gets no more than this
   * many times the mean of all. Beyond that a few services would have to hold nearly everything.
   */
  private val MaxTimesMean = 1.5

  /**
   * Takes the first services of a list, no more than half of them in one zone if others are.
   *
   * @param leavesOut
   *   true if [[spread]] may leave out services
   */
  def choose(services: Seq[Service], count: Int, leavesOut: Boolean = true): Seq[Service] = {
    // With an odd number two zones could not take turns.
    val even = math.min(count + count % 2, services.size)
    val taken = mutable.Map.empty[String, Int].withDefaultValue(0)
    val (within, beyond) = services.partition { service =>
      taken(service.zone) += 1
      taken(service.zone) <= even / 2
    }
    spread((within ++ beyond).take(even), leavesOut)
  }

  /**
   * Orders a list so that neighbours are in different zones. It leaves out the last services of a
   * zone that has more than half of them, so that no partition has both replicas there. The others
   * pay for it: with services a, a and b all of one replica is at b, instead of two thirds of the
   * shuffle. Only zones that an operator has named are worth this. A host with several daemons is
   * not one.
   */
  def spread(services: Seq[Service], leavesOut: Boolean = true): Seq[Service] = {
    val largest = services.groupBy(_.zone).values.map(_.size).foldLeft(0)(math.max)
    val others = services.size - largest
    val used = 2 * others
    val isWorthIt = used < services.size && services.size <= used * MaxTimesMean
    if (leavesOut && isWorthIt && services.forall(_.hasNamedZone)) {
      val taken = mutable.Map.empty[String, Int].withDefaultValue(0)
      val kept = services.filter { service =>
        taken(service.zone) += 1
        taken(service.zone) <= others
      }
      apart(kept)(_.zone)
    } else apart(services)(_.zone)
  }

  /** The services that are not in the largest zone of some others. */
  def elsewhere(services: Seq[Service], than: Seq[Service]): Seq[Service] = {
    val byZone = than.groupBy(_.zone)
    val largest = byZone.values.map(_.size).foldLeft(0)(math.max)
    services.filter(service => byZone.get(service.zone).forall(_.size < largest))
  }

  /**
   * The first service of each zone, then the second one of each, and so on. With each turn another
   * zone is first. After a turn of each zone another service is the first of its zone.
   */
  def inTurn(services: Seq[Service], turn: Int): Seq[Service] = {
    val zones = services.map(_.zone).distinct
    val byZone = services.groupBy(_.zone)
    val queues = rotated(zones, turn).map { zone =>
      rotated(byZone(zone), turn / zones.size)
    }
    val longest = queues.map(_.size).foldLeft(0)(math.max)
    (0 until longest).flatMap(place => queues.flatMap(_.lift(place)))
  }

  /** The same list from a later place on, and then its begin. */
  def rotated[T](list: Seq[T], places: Int): Seq[T] = {
    val first = if (list.isEmpty) 0 else Math.floorMod(places, list.size)
    list.drop(first) ++ list.take(first)
  }

  /** Orders a list so that neighbours are in different zones. */
  def apart[T](services: Seq[T])(zoneOf: T => String): Seq[T] = {
    val zones = services.map(zoneOf).distinct
    val byZone = zones.map(zone => services.filter(zoneOf(_) == zone)).sortBy(-_.size).flatten
    // Every second place first, and the largest zone first: it ends before the places run out.
    val (first, second) = byZone.splitAt((byZone.size + 1) / 2)
    byZone.indices.map(place => if (place % 2 == 0) first(place / 2) else second(place / 2))
  }

  def areApart[T](services: Seq[T])(zoneOf: T => String): Boolean =
    services.zip(services.drop(1) ++ services.take(1)).forall { case (one, other) =>
      zoneOf(one) != zoneOf(other)
    }
}
