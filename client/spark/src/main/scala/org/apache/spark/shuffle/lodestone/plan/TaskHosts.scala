// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

/**
 * The partitions that one reduce task reads, from `start` to before `end`, and the bytes that it
 * reads of each.
 */
private[lodestone] final case class ReadSize(start: Int, end: Int, bytes: Seq[Long])

/** The hosts where each task of a read should run, the best one first. */
private[lodestone] final class TaskHosts(names: IndexedSeq[Seq[String]]) {
  def size: Int = names.size
  def apply(task: Int): Seq[String] = names(task)
}
