// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import scala.util.Try

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.storage.BlockManagerId
import org.apache.spark.util.Utils

/**
 * The services of the output of a committed map attempt. Spark's `MapStatus` carries it in place of
 * the executor. So readers get it exactly for the attempts that Spark accepted, and Spark forgets
 * no output because of a lost executor.
 *
 * Each shuffle has an executor name of its own, and on a cluster a host name of its own. A reader
 * that fetches blocks by their locations, and not through this plugin, fails. Spark then forgets
 * all outputs at the executor. These must belong to this shuffle only.
 */
private[lodestone] final case class RemoteOutput(generation: Int, parts: Seq[RemotePart]) {
  import RemoteOutput._

  def location(shuffleId: Int): BlockManagerId =
    BlockManagerId(s"$ExecutorIds$shuffleId", hostFor(shuffleId), Port, Some(text))

  private def text: String = (generation.toString +: parts.map(_.text)).mkString(";")
}

/**
 * The pushes by one version of the plan. Each service of a group has all of them, except those
 * whose indexes are in `without`, which have none.
 */
private[lodestone] final case class RemotePart(version: Int, without: Seq[Int]) {

  /** The services that have all pushes of a group of partitions; none if there were no pushes. */
  def servicesOf(plan: ShufflePlan, group: Int): Seq[ServiceLocation] =
    plan.indexesOf(version, group).filterNot(without.contains).map(plan.versions(version)(_))

  private[lodestone] def text: String = (version +: without).mkString("-")
}

private[lodestone] object RemoteOutput {
  private val ExecutorIds = "lodestone-remote-"

  /** No host has such a name (RFC 2606), and the plugin never connects to it. */
  private val NoDomain = ".invalid"
  private val Port = 1

  /**
   * Spark prefers this host for the reduce tasks of small shuffles. A stage may also have tasks of
   * cached rows, which prefer a real host. Then the reduce tasks wait for the host of their
   * outputs. A cluster ends the wait after some seconds. In local mode the scheduler has no timer,
   * and never does: so this is the real host there. On a cluster it is not: when Spark loses a
   * worker, it forgets all outputs at the worker's host.
   */
  private def hostFor(shuffleId: Int): String =
    if (SparkEnv.get.executorId == SparkContext.DRIVER_IDENTIFIER) Utils.localCanonicalHostName()
    else s"$ExecutorIds$shuffleId$NoDomain"

  def isRemote(address: BlockManagerId): Boolean = address.executorId.startsWith(ExecutorIds)

  def of(address: BlockManagerId): RemoteOutput = {
    val text = address.topologyInfo.getOrElse("")
    parse(text).getOrElse {
      throw new IllegalStateException(
        s"a map output is at '$text', which this version of Lodestone does not understand: " +
          "executors and driver must have the same jar")
    }
  }

  private def parse(text: String): Option[RemoteOutput] = Try {
    val fields = text.split(';')
    val parts = fields.toSeq.drop(1).map { part =>
      val numbers = part.split('-').toSeq.map(_.toInt)
      RemotePart(numbers.head, numbers.tail)
    }
    RemoteOutput(fields.head.toInt, parts)
  }.toOption
}
