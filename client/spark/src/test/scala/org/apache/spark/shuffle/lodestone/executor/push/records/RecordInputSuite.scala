// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.ByteArrayInputStream
import java.util.Arrays

import scala.collection.mutable
import scala.util.Random

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.serializer.{KryoSerializer, Serializer}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.UnsafeRowSerializer
import org.apache.spark.unsafe.Platform

/** Records reach their partitions in order, with the bytes that Spark would write. */
final class RecordInputSuite {
  private val conf = new SparkConf(false)
  private val partitions = 7

  /** Takes the bytes of the records of each partition. */
  private final class Taken {
    val bytes = mutable.Map.empty[Int, mutable.ArrayBuffer[Byte]]
    var times = 0

    def take(sorted: PartitionedRecords): Unit = {
      times += 1
      while (sorted.hasNext) {
        val all = bytes.getOrElseUpdate(sorted.partition, mutable.ArrayBuffer.empty)
        sorted.next((base, offset, length) => {
          val record = new Array[Byte](length)
          Platform.copyMemory(base, offset, record, Platform.BYTE_ARRAY_OFFSET, length)
          all ++= record
        })
      }
    }
  }

  /** Adds all records, and reads what the pages have of each partition with Spark's own reader. */
  private def through(serializer: Serializer, mostRecords: Int)(
      records: Iterator[(Int, Any, Any)])(copy: Any => Any): (Map[Int, Seq[Any]], Int) = {
    val memory = new TaskMemoryManager(UnifiedMemoryManager(conf, 1), 0)
    val taken = new Taken
    val pages = new RecordPages(memory, partitions, mostRecords, taken.take)
    val input = RecordInput(serializer, pages)
    for ((partition, key, value) <- records) input.add(partition, key, value)
    input.finish()
    pages.giveAll()
    pages.free()
    val read = taken.bytes.map { case (partition, bytes) =>
      val in = new ByteArrayInputStream(bytes.toArray)
      val values = serializer.newInstance().deserializeStream(in).asKeyValueIterator.map(_._2)
      partition -> values.map(copy).toList
    }
    (read.toMap, taken.times)
  }

  @Test def `rows of all sizes find their partitions in order also when memory is short`(): Unit = {
    val seed = System.nanoTime()
    val random = new Random(seed)
    val rows = Seq.fill(5000) {
      val bytes = new Array[Byte](8 * random.nextInt(if (random.nextInt(100) == 0) 20000 else 30))
      random.nextBytes(bytes)
      (random.nextInt(partitions), bytes)
    }
    val expected = rows.groupBy(_._1).map { case (partition, of) =>
      partition -> of.map(row => content(row._2)).toList
    }
    for ((mostRecords, isShort) <- Seq(300 -> true, Int.MaxValue -> false)) {
      val (read, times) = through(new UnsafeRowSerializer(2), mostRecords)(asOneObject(rows)) {
        value => content(value.asInstanceOf[UnsafeRow].getBytes)
      }
      assertEquals(expected, read, s"seed $seed")
      assertEquals(isShort, times > 1)
    }
  }

  /** Length and hash. */
  private def content(bytes: Array[Byte]): (Int, Int) = (bytes.length, Arrays.hashCode(bytes))

  /** As in an exchange: all rows are the same object. */
  private def asOneObject(rows: Seq[(Int, Array[Byte])]): Iterator[(Int, Any, Any)] = {
    val row = new UnsafeRow(2)
    rows.iterator.map { case (partition, bytes) =>
      row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length)
      (partition, partition, row)
    }
  }

  @Test def `records of other serializers find their partitions in order`(): Unit = {
    val all = (0 until 5000).map(n => (n % partitions, n, s"value $n"))
    val (read, _) = through(new KryoSerializer(conf), 300)(all.iterator)(identity)
    val expected = all.groupBy(_._1).map { case (partition, of) =>
      partition -> of.map(_._3).toList
    }
    assertEquals(expected, read)
  }
}
