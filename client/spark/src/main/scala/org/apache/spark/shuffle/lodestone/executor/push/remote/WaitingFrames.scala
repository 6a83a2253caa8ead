// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.io.OutputStream
import java.nio.ByteBuffer
import java.util.Arrays

import scala.collection.mutable.ArrayBuffer

/**
 * The limit of an executor for frames that wait for others, on the heap. Nobody waits for it: a
 * task that gets none sends what it has. A native engine may hold memory of Spark while it pushes,
 * and the task that could make room here may wait for just that memory.
 */
private[remote] final class WaitingMemory(limitBytes: Long) {
  private var used = 0L
  private var attempts = 0

  def opened(): Unit = synchronized(attempts += 1)

  def closed(): Unit = synchronized(attempts -= 1)

  /** What one attempt may have, so that each of them has as much. */
  def shareBytes: Long = synchronized(limitBytes / math.max(1, attempts))

  def tryTake(bytes: Long): Boolean = synchronized {
    val isGranted = used + bytes <= limitBytes
    if (isGranted) used += bytes
    isGranted
  }

  def give(bytes: Long): Unit = synchronized(used -= bytes)

  def usedBytes: Long = synchronized(used)
}

/**
 * The frames of one map attempt that wait until there are enough for large requests. Callers hold a
 * lock.
 *
 * @param mostBytes
 *   so many are enough
 */
private[remote] final class WaitingFrames(memory: WaitingMemory, mostBytes: Long) {
  import WaitingFrames._

  private val limitBytes = math.min(mostBytes, MostBytes)

  /** Each frame, behind its rank and its length, one after another across all pages. */
  private val pages = ArrayBuffer.empty[Array[Byte]]
  private var end = 0L
  private var frames = 0
  private var isOpen = true
  memory.opened()

  /** Adds a copy of a frame. Returns false, and has nothing of it, if there is no room. */
  def add(rank: Int, frame: ByteBuffer): Boolean = {
    val needed = end + HeadBytes + frame.remaining()
    val isTaken = frames < MostFrames && needed <= limitBytes &&
      needed <= memory.shareBytes && makeRoom(needed)
    if (isTaken) {
      writeInt(rank)
      writeInt(frame.remaining())
      while (frame.hasRemaining) {
        val at = (end % PageBytes).toInt
        val some = math.min(frame.remaining(), PageBytes - at)
        frame.get(pageOf(end), at, some)
        end += some
      }
      frames += 1
    }
    isTaken
  }

  /** Returns all frames by rank, and those of one rank in the order in which they came. */
  def inOrder: Array[WaitingFrame] = {
    // The rank before the place: places are below 2^32.
    val keys = new Array[Long](frames)
    var place = 0L
    for (i <- 0 until frames) {
      keys(i) = (readInt(place).toLong << 32) | place
      place += HeadBytes + readInt(place + Integer.BYTES)
    }
    Arrays.sort(keys)
    keys.map { key =>
      val place = key & 0xffffffffL
      WaitingFrame((key >>> 32).toInt, place + HeadBytes, readInt(place + Integer.BYTES))
    }
  }

  def write(frame: WaitingFrame, out: OutputStream): Unit = {
    var place = frame.place
    val last = frame.place + frame.length
    while (place < last) {
      val at = (place % PageBytes).toInt
      val some = math.min(last - place, (PageBytes - at).toLong).toInt
      out.write(pageOf(place), at, some)
      place += some
    }
  }

  /** Drops all frames, and gives their memory back. */
  def clear(): Unit = {
    memory.give(pages.size.toLong * PageBytes)
    pages.clear()
    end = 0
    frames = 0
  }

  /** Nothing comes any more. Callers may call it repeatedly. */
  def close(): Unit = {
    clear()
    if (isOpen) memory.closed()
    isOpen = false
  }

  private def makeRoom(needed: Long): Boolean = {
    var isThere = true
    while (isThere && pages.size.toLong * PageBytes < needed) {
      isThere = memory.tryTake(PageBytes.toLong)
      if (isThere) pages += new Array[Byte](PageBytes)
    }
    isThere
  }

  private def pageOf(place: Long): Array[Byte] = pages((place / PageBytes).toInt)

  private def writeInt(value: Int): Unit =
    for (shift <- 24 to 0 by -8) {
      pageOf(end)((end % PageBytes).toInt) = (value >>> shift).toByte
      end += 1
    }

  private def readInt(place: Long): Int = {
    var value = 0
    for (i <- 0 until Integer.BYTES) {
      val at = place + i
      value = (value << 8) | (pageOf(at)((at % PageBytes).toInt) & 0xff)
    }
    value
  }
}

private[remote] object WaitingFrames {

  /** Where a frame is. */
  final case class WaitingFrame(rank: Int, place: Long, length: Int)

  /** Small beside the least limit, which is that of the smallest `push.memory`. */
  val PageBytes: Int = 64 << 10

  /** Places are numbers of 32 bits. */
  private val MostBytes = 1L << 30

  /** Rank and length. */
  private val HeadBytes = 2 * Integer.BYTES

  /** Their order takes 40 bytes for each of them, outside of the limit. */
  val MostFrames: Int = 16 * 1024
}
