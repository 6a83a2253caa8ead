// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, InputStream, IOException}
import java.nio.ByteBuffer

import scala.reflect.ClassTag

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test

import org.apache.spark.{FetchFailed, SparkConf, TaskContext, TaskKilledException}
import org.apache.spark.io.LZ4CompressionCodec
import org.apache.spark.shuffle.{FetchFailedException, MetadataFetchFailedException}
import org.apache.spark.shuffle.lodestone.executor.rows.{BrokenRowsException, Lz4Reader, RowReader}
import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.shuffle.lodestone.wire.{LaidRun, LaidSegment, PartitionLayout, Status}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.UnsafeRowSerializer
import org.apache.spark.storage.{BlockId, BlockManagerId, ShuffleBlockChunkId, ShuffleBlockId}
import org.apache.spark.unsafe.Platform

/** Originals whose number of records a service has, read because merged data is not. */
final class RecordsCheckSuite {
  private val executor = BlockManagerId("7", "host", 7000)
  private val originals: ReadSources.BlocksByAddress = Seq(executor -> (0 to 2).map { map =>
    (ShuffleBlockId(1, 100L + map, 3), 10L, map)
  })

  /**
   * A second attempt of map 0 was pushed too, of map 1 only another attempt, and of map 2 nobody
   * counted the records.
   */
  private val counted = {
    val segments = Array(
      LaidSegment(0, 100, 0, 10, 4, 0),
      LaidSegment(0, 998, 0, 10, 6, 0),
      LaidSegment(1, 999, 0, 10, 4, 0),
      LaidSegment(2, 102, 0, 10, -1, 0))
    LaidRecords(originals, Seq(PartitionLayout(3, Status.Ok, Array(LaidRun(0, segments)))))
  }
  private val tally = new ReadTally
  private val check = new OriginalsCheck(counted, originals, Some(tally))

  private val context: TaskContext = TaskContext.empty()
  private val metrics = context.taskMetrics().createTempShuffleReadMetrics()
  private val task = ReduceTask(ReadRange(0, 3, 3, 4), context, metrics)

  private def reading(blocks: (BlockId, Int)*): Iterator[(Any, Any)] = reading(check)(blocks: _*)

  private def reading(check: RecordsCheck)(blocks: (BlockId, Int)*): Iterator[(Any, Any)] = {
    val streams = blocks.map { case (id, records) =>
      (id, new ByteArrayInputStream(new Array[Byte](records)): InputStream)
    }
    val records = (in: InputStream) => Iterator.fill(in.available())(("key", "value"): (Any, Any))
    new CheckedRecords(streams.iterator, records, check, task)
  }

  private def read(map: Int, records: Int): Int =
    reading(ShuffleBlockId(1, 100L + map, 3) -> records).size

  @Test def `a block with as many records as were written is read`(): Unit =
    assertEquals(4, read(map = 0, records = 4))

  @Test def `a block with more or fewer has its map run again where it is`(): Unit =
    Seq(0, 3, 5).foreach { records =>
      val failure = assertThrows(classOf[FetchFailedException], () => { read(0, records); () })
      failure.toTaskFailedReason match {
        case FetchFailed(address, shuffleId, mapId, mapIndex, reduceId, _) =>
          assertEquals(executor, address)
          assertEquals((1, 100L, 0, 3), (shuffleId, mapId, mapIndex, reduceId))
        case other => throw new AssertionError(s"$other")
      }
    }

  @Test def `numbers of another attempt say nothing about this one`(): Unit =
    assertEquals(9, read(map = 1, records = 9))

  @Test def `a block that nobody counted is read as it is`(): Unit = {
    assertEquals(9, read(map = 2, records = 9))
    assertEquals(1, counted.size)
    assertEquals(Map("RECORDS_UNCHECKED" -> 1L), tally.counts.fallbacks)
  }

  /** Without a number the next attempt of the stage would read the same wrong rows. */
  @Test def `after merged data proved wrong an original without a number has its map run again`()
      : Unit = {
    def readWith(suspects: Suspects): Int =
      reading(new OriginalsCheck(counted, originals, Some(tally), Some(suspects)))(free -> 9).size
    var forgotten = 0
    def suspects(taskId: Long): Suspects = Suspects(taskId, () => forgotten += 1)
    val some = new OriginalsCheck(counted, originals, Some(tally), Some(suspects(103)))
    assertThrows(classOf[FetchFailedException], () => { reading(some)(free -> 9).next(); () })
    assertEquals(Map("ORIGINAL_MISMATCH" -> 1L), tally.counts.fallbacks, "a row of it was read")
    forgotten = 0
    assertThrows(classOf[FetchFailedException], () => { readWith(suspects(103)); () })
    assertEquals(1, forgotten, "the driver was not asked to forget the others")
    assertEquals(9, readWith(suspects(102)), "its map has run since")
    assertEquals(1, forgotten)
  }

  private val good = ShuffleBlockId(1, 100, 3)
  private val free = ShuffleBlockId(1, 102, 3)

  @Test def `each of many blocks is compared at its own end`(): Unit = {
    assertEquals(4, reading(free -> 0, good -> 4, free -> 0).size)
    Seq(Seq(good -> 3, free -> 1), Seq(good -> 4, good -> 0), Seq(free -> 1, good -> 5)).foreach {
      blocks =>
        assertThrows(classOf[FetchFailedException], () => { reading(blocks: _*).size; () })
    }
  }

  /** Its serializer finds something else than records after the first two. */
  private def readingBroken(id: BlockId, failure: Exception, check: RecordsCheck): Int = {
    val stream: InputStream = new ByteArrayInputStream(Array.emptyByteArray)
    val records = Iterator("one", "two").map(key => (key, key): (Any, Any)) ++
      Iterator.continually[(Any, Any)](throw failure)
    val streams = Iterator(id -> stream)
    new CheckedRecords(streams, _ => records, check, task).size
  }

  /** Records why it ends its task. */
  private final class Recorded(override val hasOther: Boolean) extends Fallback {
    var reasons = Seq.empty[Reason]
    override def apply(reduceId: Int, maps: Int => Boolean): ReadSources.BlocksByAddress = Nil
    override def chunkFailed(id: Int, of: FetchChunk, why: Reason, cause: Throwable): Unit = ()
    override def end(reduceId: Int, reason: Reason, what: String): Nothing = {
      reasons :+= reason
      throw new MetadataFetchFailedException(1, reduceId, what)
    }
  }

  private def thrownBy(id: BlockId, recorded: Recorded): Throwable = {
    val ofMerged = new ChunkCheck(Nil, check, recorded)
    // Kryo and Java throw no IOException for such bytes.
    val failure = new IndexOutOfBoundsException("no class has this number")
    assertThrows(classOf[Exception], () => { readingBroken(id, failure, ofMerged); () })
  }

  @Test def `merged bytes that are no records have the originals read`(): Unit = {
    val recorded = new Recorded(hasOther = true)
    val thrown = thrownBy(ShuffleBlockChunkId(1, 0, 3, 0), recorded)
    assertEquals(classOf[MetadataFetchFailedException], thrown.getClass)
    assertEquals(Seq(Reason.ChunkBroken), recorded.reasons)
  }

  @Test def `an object that nobody can read fails its task as on plain Spark`(): Unit =
    Seq[(BlockId, Boolean)](good -> true, ShuffleBlockChunkId(1, 0, 3, 0) -> false).foreach {
      case (id, hasOther) =>
        val recorded = new Recorded(hasOther)
        assertEquals(classOf[IndexOutOfBoundsException], thrownBy(id, recorded).getClass)
        assertEquals(Nil, recorded.reasons)
    }

  @Test def `damaged rows of a chunk are reported also where there are no originals`(): Unit = {
    val recorded = new Recorded(hasOther = false)
    val failure = new BrokenRowsException("a row of 7 bytes")
    val ofMerged = new ChunkCheck(Nil, check, recorded)
    val chunk = ShuffleBlockChunkId(1, 0, 3, 0)
    assertThrows(classOf[Exception], () => { readingBroken(chunk, failure, ofMerged); () })
    assertEquals(Seq(Reason.ChunkBroken), recorded.reasons)
  }

  @Test def `records come to those who do not ask whether there are any`(): Unit = {
    val records = reading(free -> 1, free -> 0, good -> 4)
    (1 to 5).foreach(_ => assertEquals(("key", "value"), records.next()))
    assertFalse(records.hasNext)
    assertThrows(classOf[NoSuchElementException], () => { records.next(); () })
  }

  @Test def `a task that is killed between two records reads no further one`(): Unit = {
    val records = reading(free -> 9)
    (1 to 4).foreach(_ => records.next())
    context.markInterrupted("by the user")
    assertThrows(classOf[TaskKilledException], () => { records.hasNext; () })
    assertEquals(4, metrics.recordsRead)
  }

  @Test def `a task reports the records of each stream that it read`(): Unit = {
    assertEquals(9, reading(free -> 5, good -> 4).size)
    assertEquals(9, context.taskMetrics().shuffleReadMetrics.recordsRead)
  }

  private val rows = 240
  private val serializer = new UnsafeRowSerializer(1).newInstance()

  @Test def `a row stays as it is while the next stream is opened`(): Unit = {
    val lz4 = new Lz4Reader
    val streams = Seq(free, free).map(id => (id, lz4(new ByteArrayInputStream(rowsInLz4()))))
    val records = new CheckedRecords(streams.iterator, new RowReader(serializer), check, task)
    (1 until rows).foreach(_ => records.next())
    val last = records.next()._2.asInstanceOf[UnsafeRow]
    val bytes = last.getBytes.toSeq
    assertTrue(records.hasNext)
    assertEquals(bytes, last.getBytes.toSeq)
    assertNotEquals(bytes, records.next()._2.asInstanceOf[UnsafeRow].getBytes.toSeq)
  }

  @Test def `rows that are damaged have their map run again`(): Unit =
    assertThrows(
      classOf[FetchFailedException],
      () => { readingBroken(good, new BrokenRowsException("a row of -1 bytes"), check); () })

  /** Rows begin and end anywhere in the blocks of Spark's codec, and an empty block is the last. */
  private def rowsInLz4(): Array[Byte] = {
    implicit val any: ClassTag[Any] = ClassTag.Any
    val conf = new SparkConf(false).set("spark.io.compression.lz4.blockSize", "1k")
    val bytes = new ByteArrayOutputStream
    val stream =
      serializer.serializeStream(new LZ4CompressionCodec(conf).compressedOutputStream(bytes))
    val row = new UnsafeRow(1)
    for (number <- 1 to rows) {
      val fields = ByteBuffer.allocate(16).putLong(0).putLong(number * 0x9e3779b97f4a7c15L).array
      row.pointTo(fields, Platform.BYTE_ARRAY_OFFSET.toLong, fields.length)
      stream.writeKey[Any](0).writeValue[Any](row)
    }
    stream.close()
    bytes.toByteArray
  }

  @Test def `a block of rows that was cut is broken or wrong wherever it ends`(): Unit = {
    val ends = new RecordsCheck {
      override def begin(id: BlockId): Unit = ()
      override def written(id: BlockId): Long = rows.toLong
      override def wrong(id: BlockId, read: Long, written: Long): Nothing =
        throw new IOException(s"$read rows in place of $written")
      override def broken(id: BlockId, cause: Throwable): Nothing = throw cause
    }
    val whole = rowsInLz4()
    def rowsUntil(end: Int): Int = {
      val cut = new Lz4Reader().apply(new ByteArrayInputStream(whole, 0, end))
      new CheckedRecords(Iterator((free, cut)), new RowReader(serializer)(_), ends, task).size
    }
    // The block at the end has a head only.
    Seq(whole.length, whole.length - 21).foreach(end => assertEquals(rows, rowsUntil(end)))
    for (end <- whole.indices if end != whole.length - 21)
      assertThrows(classOf[IOException], () => { rowsUntil(end); () }, s"cut at $end")
  }
}
