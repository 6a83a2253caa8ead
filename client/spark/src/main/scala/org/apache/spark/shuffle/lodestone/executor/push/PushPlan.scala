// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.wire.PushBatch

/** Consecutive bytes of a map's data file. */
private[push] final case class FileRange(offset: Long, length: Long)

/**
 * One request of a map's push: blocks of one service, in the order of their partitions.
 *
 * @param ranges
 *   where the blocks are, one after another
 * @param firstSegment
 *   how many segments of the map are in requests before this one: the name of the request
 */
private[push] final case class PushRequest(
    serviceIndex: Int,
    ranges: Array[FileRange],
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

  /** Collects a request for each service, and cuts it when it is full. */
  private final class Cutter(plan: ShufflePlan, batchBytes: Long) {
    private val done = ArrayBuffer.empty[PushRequest]
    private val open = new Array[Open](plan.services.length)
    private var segments = 0

    def add(reduceId: Int, offset: Long, length: Int): Unit = {
      val service = plan.groupOf(plan.newest, reduceId)
      if (open(service) != null && !open(service).hasRoom(length, batchBytes)) cut(service)
      if (open(service) == null) open(service) = new Open
      open(service).add(reduceId, offset, length)
    }

    def result(): Seq[PushRequest] = {
      for (service <- open.indices if open(service) != null) cut(service)
      done.toSeq
    }

    private def cut(service: Int): Unit = {
      val request = open(service).result(service, segments)
      segments += request.reduceIds.length
      done += request
      open(service) = null
    }
  }

  /** A request that is not full. */
  private final class Open {
    private val ranges = ArrayBuffer.empty[FileRange]
    private val reduceIds = ArrayBuffer.empty[Int]
    private val lengths = ArrayBuffer.empty[Int]
    private var bytes = 0L

    def hasRoom(length: Int, batchBytes: Long): Boolean =
      bytes + length <= batchBytes && reduceIds.size < PushBatch.MaxSegments

    def add(reduceId: Int, offset: Long, length: Int): Unit = {
      ranges.lastOption match {
        case Some(last) if last.offset + last.length == offset =>
          ranges(ranges.size - 1) = last.copy(length = last.length + length)
        case _ => ranges += FileRange(offset, length.toLong)
      }
      reduceIds += reduceId
      lengths += length
      bytes += length
    }

    def result(service: Int, firstSegment: Int): PushRequest =
      PushRequest(service, ranges.toArray, reduceIds.toArray, lengths.toArray, firstSegment)
  }
}
