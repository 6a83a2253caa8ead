// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records.faults

import java.util.SplittableRandom

import scala.util.Random
import scala.util.hashing.byteswap64

import org.apache.spark.TaskKilledException

/** One map task: its rows, and the faults while it writes them. The seed determines everything. */
private[push] final class WriterCase(val seed: Long) {

  /** Without the mix neighbouring seeds give evenly spaced numbers, which may miss rare faults. */
  private val random = new Random(byteswap64(seed))

  private def oneIn(n: Int): Boolean = random.nextInt(n) == 0

  val partitions: Int = Seq(0, 1, 2, 7, 60, 200, 1024, 1025, 5000)(random.nextInt(9))

  /** Bytes of each row. */
  private val most =
    if (oneIn(400)) 70 << 20
    else if (oneIn(60)) 3 << 20
    else Seq(0, 8, 40, 200, 2000, 50000)(random.nextInt(6))
  private val count =
    if (partitions == 0) 0
    else if (most > (1 << 20)) 1 + random.nextInt(2)
    else if (most > 5000) random.nextInt(400)
    else random.nextInt(4000)

  /** The partition and length of each row: a few partitions have most rows, or all as many. */
  val rows: Vector[(Int, Int)] = {
    val few = if (oneIn(3)) math.max(1, partitions / 50) else partitions
    Vector.fill(count) {
      val partition = if (oneIn(10)) random.nextInt(partitions) else random.nextInt(few)
      (partition, random.nextInt(most / 8 + 1) * 8)
    }
  }

  val mostRecords: Int = if (oneIn(4)) 20 + random.nextInt(500) else Int.MaxValue
  val memoryBytes: Long = Seq(3L, 6L, 24L, 200L)(random.nextInt(4)) << 20

  /** Whether the pages of the task are outside the JVM's heap (`spark.memory.offHeap.enabled`). */
  val isOffHeap: Boolean = oneIn(4)

  private val faulty = oneIn(2)
  private val spillFault: SpillFault =
    if (!faulty) SpillFault.None
    else
      random.nextInt(14) match {
        case 0 => SpillFault.Create
        case 1 | 2 | 3 => SpillFault.Full(random.nextInt(1 << (4 + random.nextInt(17))))
        case 4 | 8 => SpillFault.Close
        case 5 => SpillFault.Short(1 + random.nextInt(1000))
        case 6 => SpillFault.Open
        case 7 => SpillFault.Unreadable(random.nextInt(1 << (4 + random.nextInt(17))))
        case 9 | 10 => SpillFault.Killed(random.nextInt(1 << (4 + random.nextInt(17))))
        case _ => SpillFault.None
      }
  private val faultySpill = random.nextInt(1 + random.nextInt(6))

  def faultOf(spill: Int): SpillFault = if (spill == faultySpill) spillFault else SpillFault.None

  val outputBytes: Long =
    if (faulty && oneIn(8)) random.nextInt(1 << (4 + random.nextInt(17))).toLong else Long.MaxValue
  val failsToCommit: Boolean = faulty && oneIn(16)

  val manners: Manners =
    if (faulty && oneIn(4)) Manners.Broken
    else if (oneIn(2)) Manners.Stubborn
    else Manners.Generous

  /** The rows at which another consumer takes all memory, or frees it. */
  private val hoardsAt = Seq.fill(random.nextInt(4))(random.nextInt(count + 1)).toSet
  private val givesBackAt = Seq.fill(random.nextInt(3))(random.nextInt(count + 1)).toSet
  private val leaves = Seq(0L, 1L << 10, 1L << 20)(random.nextInt(3))
  private val killedAt = if (faulty && oneIn(6)) random.nextInt(count + 1) else -1

  /** The bytes of a service's answers after which the first connections break. */
  val cuts: Seq[Long] =
    if (oneIn(20)) Seq.fill(1 + random.nextInt(3))(random.nextInt(400).toLong) else Nil

  /** The time-out of a request to a service. */
  val bufferBytes: Int = Seq(16, 64, 512)(random.nextInt(3)) << 10

  /** The event before the task adds the row of this number. */
  def before(row: Int, other: OtherConsumer): Unit = {
    if (row == killedAt) throw new TaskKilledException("on purpose")
    if (hoardsAt(row)) other.hoard(leaves)
    if (givesBackAt(row)) other.giveBack()
  }

  /** The bytes of a row. */
  def bytesOf(row: Int): Array[Byte] = {
    val bytes = new Array[Byte](rows(row)._2)
    val content = new SplittableRandom(seed * 31 + row)
    // Half of each row is zeros, so that codecs can compress it.
    if (bytes.length <= (64 << 10)) {
      val half = new Array[Byte](bytes.length / 2)
      content.nextBytes(half)
      System.arraycopy(half, 0, bytes, 0, half.length)
    } else {
      bytes(content.nextInt(bytes.length)) = 1
    }
    bytes
  }

  override def toString: String =
    s"seed $seed: $count rows of at most $most bytes in $partitions partitions, " +
      s"$memoryBytes bytes of memory ${if (isOffHeap) "off" else "on"} the heap, " +
      s"spill $faultySpill has $spillFault, output of $outputBytes, $manners"
}
