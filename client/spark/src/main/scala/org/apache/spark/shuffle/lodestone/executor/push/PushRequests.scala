// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.io.IOException
import java.nio.channels.FileChannel

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.wire.{BlockSequence, PushBatch, Segment}

/**
 * One request of the push of a map output: blocks of one service, in the order of their partitions.
 *
 * @param serviceIndex
 *   in the plan
 * @param firstSegment
 *   the number of blocks of the map in requests before this one: the name of the request
 * @param isWhole
 *   the service gets no other request of this map
 */
private[push] final case class PushRequest(
    serviceIndex: Int,
    reduceIds: Array[Int],
    sizeBytes: Int,
    firstSegment: Int,
    isWhole: Boolean) {

  @throws[IOException]
  def read(file: FileChannel, map: MapOutput, buffer: SegmentBuffer): Unit = {
    ranges(map.offsets) { (offset, length) => buffer.read(file, offset, length) }
    val checksums = buffer.readChecksums
    reduceIds.foreach { reduceId =>
      val length = map.lengths(reduceId).toInt
      val (records, checksum) = (map.recordsIn(reduceId), checksums.next(length))
      if (!map.isAsWritten(reduceId, checksum)) {
        throw new IOException(s"the block of partition $reduceId is not as its map task wrote it")
      }
      buffer.add(Segment(reduceId, length, records, checksum, BlockSequence.Only))
    }
    buffer.seal(firstSegment, isWhole)
  }

  /**
   * Gives offset and length of the blocks. Blocks that follow each other in the file are one range.
   */
  def ranges(offsets: Array[Long])(range: (Long, Long) => Unit): Unit = {
    var offset = offsets(reduceIds.head)
    var end = offset
    reduceIds.foreach { reduceId =>
      if (offsets(reduceId) != end) {
        range(offset, end - offset)
        offset = offsets(reduceId)
      }
      end = offsets(reduceId + 1)
    }
    range(offset, end - offset)
  }
}

private[push] object PushRequests {

  /**
   * Returns the requests of a map output, without blocks that are too large. Their order is random,
   * so that maps that end together do not all begin with the same service or partition.
   */
  def apply(
      lengths: Array[Long],
      plan: ShufflePlan,
      batchBytes: Long,
      random: Random): Seq[PushRequest] = {
    val stripes = plan.stripes(plan.newest)
    // By rank, the partitions of one service follow each other.
    val wanted = Array.tabulate(lengths.length)(stripes.partitionAt).filter { reduceId =>
      lengths(reduceId) > 0 && lengths(reduceId) <= plan.maxBlockBytes
    }
    val requests = ArrayBuffer.empty[PushRequest]
    var from = 0
    while (from < wanted.length) {
      val service = stripes.groupOf(wanted(from))
      var bytes = lengths(wanted(from))
      var until = from + 1
      while (until < wanted.length && stripes.groupOf(wanted(until)) == service &&
        bytes + lengths(wanted(until)) <= batchBytes && until - from < PushBatch.MaxSegments) {
        bytes += lengths(wanted(until))
        until += 1
      }
      def isOfService(i: Int) = wanted.indices.contains(i) && stripes.groupOf(wanted(i)) == service
      val isWhole = !isOfService(from - 1) && !isOfService(until)
      requests += PushRequest(service, wanted.slice(from, until), bytes.toInt, from, isWhole)
      from = until
    }
    random.shuffle(requests.toSeq)
  }
}
