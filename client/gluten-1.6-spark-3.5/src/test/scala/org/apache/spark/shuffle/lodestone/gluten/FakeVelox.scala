// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.gluten

import java.io.File
import java.lang.Integer.{TYPE => IntType}
import java.lang.invoke.{MethodHandles, MethodType}
import java.nio.file.Files
import java.util.Arrays
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable.ArrayBuffer
import scala.util.control.NonFatal

import org.apache.gluten.libvelox.NativeCode
import org.apache.gluten.memory.NativeMemoryManager
import org.apache.gluten.memory.memtarget.Spiller
import org.apache.gluten.runtime.{Runtime => GlutenRuntime}
import org.apache.gluten.vectorized.GlutenSplitResult

import org.apache.spark.TaskContext
import org.apache.spark.memory.{MemoryConsumer, MemoryMode, TaskMemoryManager}
import org.apache.spark.sql.vectorized.ColumnarBatch

/** An exception as native code makes it: with a text in place of the one that was thrown first. */
private[apache] final class VeloxException(message: String) extends RuntimeException(message)

/**
 * What libvelox does in map tasks, as far as a shuffle sees it. The first column of a batch is the
 * partition of the second one, which is a text.
 */
private[apache] object FakeVelox extends NativeCode {

  /** A text that native code fails at. */
  val Poison = "poison"

  /** A text whose frame native code counts, and does not push. */
  val Withheld = "withheld"

  /** How often memory was taken back from a writer that had some. */
  val reclaimed = new AtomicLong
  private val objects = new ConcurrentHashMap[Long, AnyRef]
  private val ids = new AtomicLong

  private def kept(thing: AnyRef): Long = {
    val id = ids.incrementAndGet()
    objects.put(id, thing)
    id
  }

  private def of[T](id: Long): T = {
    val found = objects.get(id)
    if (found == null) throw new VeloxException(s"no object $id")
    found.asInstanceOf[T]
  }

  /** Native writers that nobody has closed. */
  def open: Int = objects.values.toArray.count(_.isInstanceOf[Writer])

  override def runtime(): GlutenRuntime = {
    val memory = new NativeMemory(TaskContext.get().taskMemoryManager())
    val handle = kept(memory)
    new GlutenRuntime {
      override def memoryManager(): NativeMemoryManager = memory
      override def getHandle(): Long = handle
    }
  }

  override def handleOf(batch: ColumnarBatch): Long = kept(batch)

  override def createLocalPartitionWriter(numPartitions: Int, dataFile: String): Long =
    kept(new LocalPartitions(numPartitions, new File(dataFile)))

  /** What the native method does, by names as JNI finds them. */
  def pushingTo(loader: ClassLoader, numPartitions: Int, pusher: AnyRef): Long = {
    val named = Class.forName("org.apache.spark.shuffle.writer.PartitionPusher", false, loader)
    if (!named.isInstance(pusher)) throw new VeloxException("undefined behaviour")
    kept(new PushedPartitions(named, pusher, numPartitions))
  }

  override def createShuffleWriter(
      runtime: Long,
      isSort: Boolean,
      numPartitions: Int,
      partitionWriter: Long): Long =
    kept(new Writer(of(runtime), isSort, numPartitions, of(partitionWriter)))

  override def write(shuffleWriter: Long, numRows: Int, batch: Long): Long = {
    val rows = of[ColumnarBatch](batch)
    objects.remove(batch)
    of[Writer](shuffleWriter).write(rows, numRows)
  }

  override def reclaim(shuffleWriter: Long, size: Long): Long =
    of[Writer](shuffleWriter).reclaim()

  override def stop(shuffleWriter: Long): GlutenSplitResult = of[Writer](shuffleWriter).stop()

  override def close(shuffleWriter: Long): Unit = {
    of[Writer](shuffleWriter).close()
    objects.remove(shuffleWriter)
    ()
  }

  /** Memory of Spark's, which calls `spill` inside its lock when the task needs more. */
  private final class NativeMemory(tasks: TaskMemoryManager)
      extends MemoryConsumer(tasks, tasks.pageSizeBytes, MemoryMode.OFF_HEAP)
      with NativeMemoryManager {
    private val spillers = ArrayBuffer.empty[Spiller]

    override def addSpiller(spiller: Spiller): Unit = spillers += spiller

    override def spill(size: Long, trigger: MemoryConsumer): Long =
      Spiller.Phase.values.map(phase => spillers.map(_.spill(null, phase, size)).sum).sum

    def take(bytes: Long): Unit = {
      val got = acquireMemory(bytes)
      if (got < bytes) {
        freeMemory(got)
        throw new VeloxException(s"$bytes bytes of memory wanted, $got are there")
      }
    }
  }

  private final class Writer(
      memory: NativeMemory,
      isSort: Boolean,
      numPartitions: Int,
      out: Partitions) {
    private val held = Array.fill(numPartitions)(ArrayBuffer.empty[String])
    private var heldBytes = 0L
    private val rawLengths = new Array[Long](numPartitions)

    def write(batch: ColumnarBatch, numRows: Int): Long = {
      for (i <- 0 until numRows) {
        val text = batch.column(1).getUTF8String(i).toString
        if (text == Poison) throw new VeloxException("on purpose")
        memory.take(text.length + 1L)
        heldBytes += text.length + 1L
        val partition = Math.floorMod(batch.column(0).getInt(i), numPartitions)
        held(partition) += text
        rawLengths(partition) += text.length + 1L
        if (!isSort && held(partition).size >= HashRows) evict(partition)
      }
      if (isSort && heldBytes >= SortBytes) evictAll()
      0
    }

    def reclaim(): Long = {
      val bytes = heldBytes
      evictAll()
      if (bytes > 0) reclaimed.incrementAndGet()
      bytes
    }

    def stop(): GlutenSplitResult = {
      evictAll()
      new GlutenSplitResult(out.end(isSort), rawLengths)
    }

    def close(): Unit = {
      memory.freeMemory(heldBytes)
      heldBytes = 0
    }

    private def evictAll(): Unit = held.indices.foreach(evict)

    private def evict(partition: Int): Unit = if (held(partition).nonEmpty) {
      val texts = held(partition).toList
      held(partition).clear()
      out.evict(partition, texts, isSort)
      val bytes = texts.map(_.length + 1L).sum
      heldBytes -= bytes
      memory.freeMemory(bytes)
    }
  }

  private val HashRows = 20
  private val SortBytes = 1L << 20

  private trait Partitions {
    def evict(partition: Int, texts: Seq[String], isSort: Boolean): Unit

    /** Returns the lengths by partition. */
    def end(isSort: Boolean): Array[Long]
  }

  /** One array for all pushes, of 1 MiB at first. It is written over as soon as a call returns. */
  private final class PushedPartitions(named: Class[_], pusher: AnyRef, numPartitions: Int)
      extends Partitions {
    private val pushPartitionData = MethodHandles.lookup().findVirtual(
      named,
      "pushPartitionData",
      MethodType.methodType(IntType, IntType, classOf[Array[Byte]], IntType))
    private var array = new Array[Byte](1 << 20)
    private val lengths = new Array[Long](numPartitions)

    override def evict(partition: Int, texts: Seq[String], isSort: Boolean): Unit = {
      val frame = if (isSort) VeloxFrames.rows(texts) else VeloxFrames.plain(texts)
      if (texts.contains(Withheld)) lengths(partition) += frame.length
      else push(partition, frame)
    }

    private def push(partition: Int, frame: Array[Byte]): Unit = {
      if (frame.length > array.length) array = new Array[Byte](frame.length)
      System.arraycopy(frame, 0, array, 0, frame.length)
      try {
        val taken = pushPartitionData
          .invokeWithArguments(pusher, Int.box(partition), array, Int.box(frame.length))
        lengths(partition) += taken.asInstanceOf[Int]
      } catch {
        // What the push throws.
        case NonFatal(thrown) =>
          throw new VeloxException(s"Error during calling Java code from native code: $thrown")
      } finally Arrays.fill(array, 0, frame.length, 0xee.toByte)
    }

    override def end(isSort: Boolean): Array[Long] = lengths
  }

  /** Writes one file. A block of a hash writer begins with a dictionary of its texts. */
  private final class LocalPartitions(numPartitions: Int, file: File) extends Partitions {
    private val all = Array.fill(numPartitions)(ArrayBuffer.empty[String])

    override def evict(partition: Int, texts: Seq[String], isSort: Boolean): Unit =
      all(partition) ++= texts

    override def end(isSort: Boolean): Array[Long] = {
      val blocks = all.map { texts =>
        if (texts.isEmpty) Array.emptyByteArray
        else if (isSort) VeloxFrames.rows(texts)
        else VeloxFrames.withDictionary(texts)
      }
      Files.write(file.toPath, blocks.flatten)
      blocks.map(_.length.toLong)
    }
  }
}
