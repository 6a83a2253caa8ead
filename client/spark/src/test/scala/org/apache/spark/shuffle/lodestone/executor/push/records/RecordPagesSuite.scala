// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.IOException

import scala.collection.mutable
import scala.util.Random

import org.apache.logging.log4j.Level
import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.SparkConf
import org.apache.spark.memory.{MemoryConsumer, MemoryMode, SparkOutOfMemoryError}
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.shuffle.lodestone.LogCapture
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.memory.{MemoryAllocator, MemoryBlock}

/** All records come out of the pages by partition, in their order, and are counted. */
@Tag("seldom")
final class RecordPagesSuite {
  private val conf = new SparkConf(false)
  private val manager = UnifiedMemoryManager(conf, 1)

  private final class Output {
    val bytes = mutable.Map.empty[Int, mutable.ArrayBuilder[Byte]]
    val records = mutable.Map.empty[Int, Int]
    var times = 0

    def take(held: PartitionedRecords): Unit = {
      times += 1
      var last = -1
      while (held.hasNext) {
        val partition = held.partition
        assertTrue(partition >= last, "partitions come in order")
        last = partition
        val all = bytes.getOrElseUpdate(partition, mutable.ArrayBuilder.make[Byte])
        val count = held.next { (base, offset, length) =>
          val some = new Array[Byte](length)
          Platform.copyMemory(base, offset, some, Platform.BYTE_ARRAY_OFFSET.toLong, length.toLong)
          all ++= some
        }
        assertTrue(count > 0)
        records(partition) = records.getOrElse(partition, 0) + count
      }
    }
  }

  /** Puts records of these sizes into partitions at random. */
  private def check(partitions: Int, sizes: Iterator[Int], mostRecords: Int, seed: Long): Output = {
    val random = new Random(seed)
    val memory = new TaskMemoryManager(manager, 0)
    val output = new Output
    val pages = new RecordPages(memory, partitions, mostRecords, output.take)
    val expected = mutable.Map.empty[Int, mutable.ArrayBuilder[Byte]]
    val counts = mutable.Map.empty[Int, Int]
    for (size <- sizes) {
      val start = random.nextInt(10)
      val record = new Array[Byte](start + size)
      random.nextBytes(record)
      val partition = random.nextInt(partitions)
      pages.insert(record, start, size, partition)
      expected.getOrElseUpdate(partition, mutable.ArrayBuilder.make[Byte]) ++= record.drop(start)
      counts(partition) = counts.getOrElse(partition, 0) + 1
    }
    pages.giveAll()
    assertEquals(0L, pages.recordBytes)
    pages.free()
    val story = s"$partitions partitions, seed $seed"
    assertEquals(counts, output.records, story)
    for ((partition, bytes) <- expected) {
      assertArrayEquals(bytes.result(), output.bytes(partition).result(), story)
    }
    assertEquals(0L, memory.cleanUpAllAllocatedMemory(), story)
    output
  }

  private def sizes(count: Int, most: Int, seed: Long): Iterator[Int] = {
    val random = new Random(seed)
    Iterator.fill(count)(1 + random.nextInt(most))
  }

  @Test def `short records of few and of many partitions`(): Unit = {
    val seed = System.nanoTime()
    for (partitions <- Seq(1, 3, 200, 10000); most <- Seq(1, 20, 200)) {
      val output = check(partitions, sizes(20000, most, seed), Int.MaxValue, seed)
      assertEquals(1, output.times)
    }
  }

  @Test def `records that are larger than a node and larger than a page`(): Unit = {
    val seed = System.nanoTime()
    check(5, sizes(500, 100 << 10, seed), Int.MaxValue, seed)
    val some = sizes(200, 300, seed).zipWithIndex.map {
      case (_, 20) => 3 << 20
      case (_, 21 | 150) => 1 << 20
      case (size, _) => size
    }
    check(5, some, Int.MaxValue, seed)
  }

  @Test def `pages that were given away are filled again from the start`(): Unit = {
    val seed = System.nanoTime()
    val output = check(50, sizes(10000, 500, seed), 333, seed)
    assertEquals(31, output.times)
  }

  @Test def `a record without bytes is refused`(): Unit = {
    val memory = new TaskMemoryManager(manager, 0)
    val pages = new RecordPages(memory, 3, Int.MaxValue, _ => ())
    assertThrows(
      classOf[IllegalStateException],
      () => pages.insert(new Array[Byte](3), 1, 0, 2))
    pages.free()
  }

  /** Memory for a few pages. */
  private def littleMemory(): TaskMemoryManager = {
    val little = new SparkConf(false)
      .set("spark.testing.memory", (24L << 20).toString)
      .set("spark.testing.reservedMemory", "0")
    new TaskMemoryManager(UnifiedMemoryManager(little, 1), 0)
  }

  /**
   * Returns the error. Spark's error is an `OutOfMemoryError`, which ends a task and not its JVM.
   */
  private def fill(pages: RecordPages): Throwable =
    assertThrows(
      classOf[SparkOutOfMemoryError],
      () =>
        (0 until 1000).foreach(i => pages.insert(new Array[Byte](64 << 10), 0, 64 << 10, i % 3)))

  @Test def `a spill that fails ends the task and is not repeated beside its broken half`()
      : Unit = {
    var spills = 0
    val pages = new RecordPages(
      littleMemory(),
      3,
      Int.MaxValue,
      held => {
        spills += 1
        held.next((_, _, _) => ())
        throw new IOException("No space left on device")
      })
    val ended = fill(pages)
    assertTrue(ended.toString.contains("No space left on device"), ended.toString)
    assertEquals(1, spills)
    pages.free()
  }

  @Test def `a spill of another part of the task that fails ends the task`(): Unit = {
    val memory = littleMemory()
    val other = new MemoryConsumer(memory, MemoryMode.ON_HEAP) {
      override def spill(size: Long, trigger: MemoryConsumer): Long =
        throw new IOException("rows of a sort are lost")
    }
    assertTrue(other.acquireMemory(4L << 20) > 0)
    val pages = new RecordPages(memory, 3, Int.MaxValue, _ => ())
    val ended = fill(pages)
    assertTrue(ended.toString.contains("rows of a sort are lost"), ended.toString)
    pages.free()
  }

  @Test def `partitions without records take no memory, and those with records Spark's`(): Unit = {
    val memory = littleMemory()
    val pages = new RecordPages(memory, 1 << 24, Int.MaxValue, _ => fail("memory was short"))
    Seq(0, 1 << 10, (1 << 24) - 1).foreach { partition =>
      pages.insert(new Array[Byte](10), 0, 10, partition)
    }
    // A page of a megabyte, and tables of three times 1,024 neighbours.
    assertEquals((1L << 20) + 3 * 1024 * 48, pages.getUsed)
    pages.free()
    assertEquals(0L, memory.cleanUpAllAllocatedMemory())
  }

  /** A consumer takes all remaining memory, and frees none. */
  private def hoard(memory: TaskMemoryManager): MemoryConsumer = {
    val hoarder = new MemoryConsumer(memory, MemoryMode.ON_HEAP) {
      override def spill(size: Long, trigger: MemoryConsumer): Long = 0L
    }
    while (hoarder.acquireMemory(1L << 20) > 0) {}
    hoarder
  }

  @Test def `want of memory does not fill the log`(): Unit = {
    val memory = littleMemory()
    val hoarder = hoard(memory)
    def said(body: => Unit): Seq[String] =
      LogCapture.lines(Level.INFO, classOf[TaskMemoryManager].getName)(body)
    val pages = new RecordPages(memory, 200, Int.MaxValue, (new Output).take)
    val ours = said {
      (0 until 20000).foreach(i => pages.insert(new Array[Byte](100), 0, 100, i % 200))
      pages.giveAll()
    }
    pages.free()
    assertEquals(Nil, ours)
    val others = said {
      assertThrows(classOf[SparkOutOfMemoryError], () => hoarder.allocateArray(1L << 20))
      ()
    }
    assertTrue(others.nonEmpty, "the capture must also get our lines")
  }

  /** The heap's, of which some requests find no memory. */
  private final class Failing(fails: Int => Boolean) extends MemoryAllocator {
    var requests = 0
    val held = mutable.Set.empty[MemoryBlock]

    override def allocate(bytes: Long): MemoryBlock = {
      requests += 1
      if (fails(requests)) throw new OutOfMemoryError("the heap is full")
      val block = MemoryAllocator.HEAP.allocate(bytes)
      held += block
      block
    }

    override def free(memory: MemoryBlock): Unit = {
      assertTrue(held.remove(memory), "a page is given back that is not held")
      MemoryAllocator.HEAP.free(memory)
    }
  }

  @Test def `no record is lost if the JVM has no memory for any page, or for all from one on`()
      : Unit = {
    def write(fails: Int => Boolean): Failing = {
      val memory = new TaskMemoryManager(manager, 0)
      val output = new Output
      val allocator = new Failing(fails)
      val pages = new RecordPages(memory, 7, Int.MaxValue, output.take, _ => allocator)
      val records = (0 until 3000).map(i => Array.fill(2000)(i.toByte))
      for ((record, i) <- records.zipWithIndex) pages.insert(record, 0, record.length, i % 7)
      pages.giveAll()
      pages.free()
      for (partition <- 0 until 7) {
        val expected = (partition until 3000 by 7).flatMap(i => records(i)).toArray
        assertArrayEquals(expected, output.bytes(partition).result(), s"partition $partition")
      }
      assertEquals(0L, memory.cleanUpAllAllocatedMemory(), "memory that Spark granted stays")
      assertEquals(0, allocator.held.size, "pages stay")
      allocator
    }
    val requests = write(_ => false).requests
    assertTrue(requests > 2, s"$requests pages")
    for (at <- 1 to requests) {
      write(_ == at)
      write(_ >= at)
    }
  }

  @Test def `with no memory at all records of many partitions are not given away one by one`()
      : Unit = {
    val memory = littleMemory()
    hoard(memory)
    val output = new Output
    val pages = new RecordPages(memory, 20000, Int.MaxValue, output.take)
    (0 until 20000).foreach(i => pages.insert(new Array[Byte](10), 0, 10, i * 7919 % 20000))
    pages.giveAll()
    pages.free()
    assertEquals(20000, output.records.values.sum)
    assertTrue(output.times < 10, s"given away ${output.times} times")
  }
}
