// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import scala.collection.mutable
import scala.util.hashing.MurmurHash3

import org.apache.spark.shuffle.lodestone.plan.{ReadSize, ShufflePlan, TaskHosts}

/**
 * Chooses hosts for the tasks that read a shuffle. A task should run on the host of the service
 * that has most of its bytes.
 *
 * Spark's scheduler lets cores idle for some seconds (`spark.locality.wait`) while all tasks that
 * remain name other hosts. So the tasks that name a host read no more bytes than its part of all
 * cores. The tasks beyond that name hosts with less to do as well.
 *
 * @param cores
 *   the cores of the executors on each host
 * @param seed
 *   shuffles with different ones prefer different hosts, where all have as much to do
 * @param sizePerByte
 *   how many times the length of the blocks their size is. Reads have the sizes that Spark sees,
 *   which are larger if rows are encoded
 */
private[driver] final class NearHosts(
    plan: ShufflePlan,
    numMaps: Int,
    cores: Map[String, Int],
    seed: Int = 0,
    sizePerByte: Double = 1.0) {
  import NearHosts._

  /** None if no task gains. */
  def of(reads: Seq[ReadSize]): Option[TaskHosts] = {
    val mayGain = cores.size > 1 && plan.distrusted.isEmpty &&
      plan.services.exists(service => cores.contains(service.host))
    val near = if (mayGain) reads.map(nearest).toIndexedSeq else Vector.empty
    if (near.forall(_.isEmpty)) {
      None
    } else {
      val loads = new Loads(reads.map(weightOf).sum)
      val names = new Array[Seq[String]](reads.size)
      // Those that gain nothing take what the others leave.
      for (gains <- Seq(true, false); task <- names.indices if near(task).nonEmpty == gains)
        names(task) = loads.placed(weightOf(reads(task)), near(task))
      Some(new TaskHosts(names.toIndexedSeq))
    }
  }

  /**
   * The size up to which a partition counts as pushed. The limit of the plan is one of lengths. How
   * many times its length the size of a partition is differs. It is known for the sum.
   */
  private val largestPushed = plan.maxBlockBytes.toDouble * numMaps * sizePerByte

  /** A task without bytes counts too. */
  private def weightOf(read: ReadSize): Long = math.max(1L, read.bytes.sum)

  /** Returns the hosts that have the most of a task's bytes, if that is enough to gain. */
  private def nearest(read: ReadSize): Seq[String] = {
    val bytesAt = mutable.LinkedHashMap.empty[String, Long].withDefaultValue(0L)
    for {
      (bytes, index) <- read.bytes.zipWithIndex
      if bytes <= largestPushed
      version <- plan.versions.indices
      host <- hostsOf(version, read.start + index)
    } bytesAt(host) += bytes / plan.versions.length
    val most = if (bytesAt.isEmpty) 0L else bytesAt.values.max
    if (most == 0 || most < LeastPart * read.bytes.sum) Nil
    else bytesAt.collect { case (host, bytes) if bytes >= AboutAll * most => host }.toSeq
  }

  private def hostsOf(version: Int, partition: Int): Seq[String] =
    plan
      .servicesOf(version, plan.groupOf(version, partition))
      .map(_.host)
      .filter(cores.contains)
      .distinct

  /** The bytes of the tasks that name each host. Spark starts tasks in their order, as here. */
  private final class Loads(total: Long) {
    private val loads = mutable.HashMap.empty[String, Long].withDefaultValue(0L)
    private val allCores = cores.values.map(_.toLong).sum

    /** The host with the least to do comes first. */
    private val byLoad =
      mutable.TreeSet(cores.keys.toSeq.map(host => (0L, turnOf(host), host)): _*)

    private def turnOf(host: String): Int =
      MurmurHash3.finalizeHash(MurmurHash3.mix(seed, host.hashCode), 1)

    private def perCore(host: String): Long = loads(host) / cores(host)

    private def add(host: String, weight: Long): Unit = {
      byLoad -= ((perCore(host), turnOf(host), host))
      loads(host) += weight
      byLoad += ((perCore(host), turnOf(host), host))
    }

    private def hasRoom(host: String, weight: Long): Boolean =
      loads(host) == 0 || loads(host) + weight <= Tolerance * total * cores(host) / allCores

    def placed(weight: Long, nearest: Seq[String]): Seq[String] = {
      val near = nearest.sortBy(perCore)
      near.find(hasRoom(_, weight)) match {
        case Some(host) =>
          add(host, weight)
          near
        case None =>
          val others = byLoad.iterator.map(_._3).take(Others).toList
          others.headOption.foreach(add(_, weight))
          (near ++ others).distinct
      }
    }
  }
}

private[driver] object NearHosts {

  /** Spark's own limit for hosts of reduce tasks. A smaller part saves too little. */
  private val LeastPart = 0.2

  /** Two replicas of a task's bytes are about equal. A host with half as much is not named. */
  private val AboutAll = 0.9

  /** How much more than its part of the cores a host may get. */
  private val Tolerance = 1.1

  /** The number of hosts that a task names in addition. */
  private val Others = 4
}
