// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.wire.PushBatch

/**
 * One request of a map's push: the blocks of `firstReduceId` and those after it whose lengths are
 * not zero, which lie one after another in the map's data file.
 *
 * @param firstSegment
 *   how many segments of the map are in requests before this one: the name of the request
 */
private[push] final case class PushRequest(
    serviceIndex: Int,
    offset: Long,
    reduceIds: Array[Int],
    lengths: Array[Int],
    firstSegment: Int) {
  val sizeBytes: Int = lengths.sum
}

/** What of one map output is pushed, in which requests; `tooLarge` blocks are not. */
private[push] final case class PushPlan(requests: Seq[PushRequest], tooLarge: Int) {
  def blocks: Int = requests.iterator.map(_.reduceIds.length).sum
}

private[push] object PushPlan {

  /**
   * The order of the requests is random, so that maps that end together do not all begin with the
   * same service, nor with the same partition.
   */
  def apply(
      lengths: Array[Long],
      plan: ShufflePlan,
      batchBytes: Long,
      random: Random): PushPlan = {
    val cutter = new Cutter(plan, math.min(batchBytes, Int.MaxValue.toLong))
    var offset = 0L
    var tooLarge = 0
    lengths.indices.foreach { reduceId =>
      val length = lengths(reduceId)
      if (length > plan.maxBlockBytes) {
        tooLarge += 1
      } else if (length > 0) {
        cutter.add(reduceId, offset, length.toInt)
      }
      offset += length
    }
    PushPlan(random.shuffle(cutter.result()), tooLarge)
  }

  /** Cuts where the service changes, where a block is left out, and where a request is full. */
  private final class Cutter(plan: ShufflePlan, batchBytes: Long) {
    private val done = ArrayBuffer.empty[PushRequest]
    private val reduceIds = ArrayBuffer.empty[Int]
    private val lengths = ArrayBuffer.empty[Int]
    private var segments = 0
    private var service = -1
    private var start = 0L
    private var end = 0L

    def add(reduceId: Int, offset: Long, length: Int): Unit = {
      val next = plan.groupOf(plan.newest, reduceId)
      val fits = next == service && offset == end && end - start + length <= batchBytes &&
        reduceIds.size < PushBatch.MaxSegments
      if (!fits) {
        cut()
        service = next
        start = offset
      }
      reduceIds += reduceId
      lengths += length
      end = offset + length
    }

    def result(): Seq[PushRequest] = {
      cut()
      done.toSeq
    }

    private def cut(): Unit = if (reduceIds.nonEmpty) {
      done += PushRequest(service, start, reduceIds.toArray, lengths.toArray, segments)
      segments += reduceIds.size
      reduceIds.clear()
      lengths.clear()
    }
  }
}
