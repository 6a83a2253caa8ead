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
   * Services of the largest zone are left out if each of the others gets no more than this many
   * times the mean. Beyond that a few services would have to hold nearly everything.
   */
  private val MaxTimesMean = 1.5

  /** Takes the first services of a list, no more than half of them in one zone if others are. */
  def choose(services: Seq[Service], count: Int): Seq[Service] = {
    // With an odd number two zones could not take turns.
    val even = math.min(count + count % 2, services.size)
    val taken = mutable.Map.empty[String, Int].withDefaultValue(0)
    val (within, beyond) = services.partition { service =>
      taken(service.zone) += 1
      taken(service.zone) <= even / 2
    }
    spread((within ++ beyond).take(even))(_.zone)
  }

  /**
   * Orders a list so that neighbours are in different zones, and leaves out the last services of a
   * zone that has more than half of them. All other zones together hold one replica of everything
   * anyway: with these services in the list they would have no less to hold.
   */
  def spread[T](services: Seq[T])(zoneOf: T => String): Seq[T] = {
    val largest = services.groupBy(zoneOf).values.map(_.size).foldLeft(0)(math.max)
    val others = services.size - largest
    val used = 2 * others
    if (used < services.size && services.size <= used * MaxTimesMean) {
      val taken = mutable.Map.empty[String, Int].withDefaultValue(0)
      val kept = services.filter { service =>
        taken(zoneOf(service)) += 1
        taken(zoneOf(service)) <= others
      }
      apart(kept)(zoneOf)
    } else apart(services)(zoneOf)
  }

  /** The first service of each zone, then the second one of each, and so on. */
  def inTurn(services: Seq[Service]): Seq[Service] = {
    val seen = mutable.Map.empty[String, Int].withDefaultValue(0)
    val turns = services.map { service =>
      seen(service.zone) += 1
      seen(service.zone)
    }
    services.zip(turns).sortBy(_._2).map(_._1)
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
