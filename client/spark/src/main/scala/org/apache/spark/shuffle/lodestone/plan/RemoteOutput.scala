// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import scala.util.Try

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.storage.BlockManagerId
import org.apache.spark.util.Utils

/**
 * Where the output of a committed map attempt is. It travels in Spark's `MapStatus`, in the place of the
 * executor that wrote it: so it reaches readers exactly for the attempts that Spark accepted, and no
 * output is forgotten because an executor went away.
 *
 * Each shuffle has such an executor of its own, and on a cluster such a host. Who reads blocks by their
 * locations and not through this plugin fails there; Spark then forgets all that is at the executor, in
 * all shuffles, and what it forgets must be of the one shuffle that was read so.
 */
private[lodestone] final case class RemoteOutput(generation: Int, parts: Seq[RemotePart]) {
  import RemoteOutput._

  def location(shuffleId: Int): BlockManagerId =
    BlockManagerId(s"$ExecutorIds$shuffleId", hostFor(shuffleId), Port, Some(text))

  private def text: String = (generation.toString +: parts.map(_.text)).mkString(";")
}

/**
 * What was pushed by one version of the plan: each service of a group has all of it, but those whose
 * indexes are in `without`, which have none.
 */
private[lodestone] final case class RemotePart(version: Int, without: Seq[Int]) {

  /** Services that have all of what is in it for a group of partitions; none if that is nothing. */
  def servicesOf(plan: ShufflePlan, group: Int): Seq[ServiceLocation] =
    plan.indexesOf(version, group).filterNot(without.contains).map(plan.versions(version)(_))

  private[lodestone] def text: String = (version +: without).mkString("-")
}

private[lodestone] object RemoteOutput {
  private val ExecutorIds = "lodestone-remote-"

  /** No host has such a name (RFC 2606). Nothing of ours ever connects to it. */
  private val NoDomain = ".invalid"
  private val Port = 1

  /**
   * Spark prefers this host for the reduce tasks of small shuffles. A stage may also have tasks of cached
   * rows, which prefer a real host. Then the reduce tasks wait for the host of their outputs. A cluster ends
   * the wait after some seconds. Local mode never does, as its scheduler has no timer: so it names its real
   * host. A cluster does not: when Spark loses a worker, it forgets all outputs at the worker's host.
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
