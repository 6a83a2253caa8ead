// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.concurrent.{ConcurrentLinkedQueue, TimeoutException}
import java.util.concurrent.TimeUnit.SECONDS

import scala.concurrent.{Future, Promise}

import org.junit.jupiter.api.{AfterAll, BeforeAll, Test, TestInstance}
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.TestInstance.Lifecycle

import org.apache.spark.{HashPartitioner, ShuffleDependency, SparkContext}
import org.apache.spark.{SparkException, TaskContext}
import org.apache.spark.executor.TempShuffleReadMetrics
import org.apache.spark.shuffle.BaseShuffleHandle
import org.apache.spark.shuffle.lodestone.LocalSpark
import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.plan.{CountedMaps, GetCounts, LocalHandle}
import org.apache.spark.shuffle.lodestone.plan.counts.PackedLongs
import org.apache.spark.shuffle.lodestone.transport.RequestTimer
import org.apache.spark.storage.{ShuffleBlockBatchId, ShuffleBlockId}

/** Questions of an executor to the driver, about records that maps wrote. */
@TestInstance(Lifecycle.PER_CLASS)
final class WrittenRecordsSuite {
  import BlockRecords.NotCounted

  private var spark: SparkContext = _
  private var nowNs = 0L

  @BeforeAll def start(): Unit = spark = new SparkContext(
    LocalSpark.conf("written-records", master = "local[1]"))

  @AfterAll def stop(): Unit = spark.stop()

  private final class Driver(answer: GetCounts => Future[CountedMaps]) extends SilentDriver {
    val asked = new ConcurrentLinkedQueue[GetCounts]()
    override def counts(what: GetCounts): Future[CountedMaps] = {
      asked.add(what)
      answer(what)
    }
  }

  /** The numbers of maps from 100 on: 7 records in partition 0, 8 in the next one, and so on. */
  private def answer(maps: Range, partitions: Range, next: Int = CountedMaps.NoMore): CountedMaps =
    CountedMaps(
      next,
      partitions.start,
      partitions.end,
      PackedLongs(maps.map(100L + _).toArray),
      PackedLongs(maps.flatMap(_ => partitions.map(7L + _)).toArray))

  private def shuffle(maps: Int, partitions: Int): LocalHandle[Int, Int, Int] = {
    val rows = spark.parallelize(0 until 2, 2).map(x => (x, x))
    val dependency = new ShuffleDependency[Int, Int, Int](rows, new HashPartitioner(partitions))
    new LocalHandle(new BaseShuffleHandle(dependency.shuffleId, dependency), maps)
  }

  private def written(driver: Driver, waitMs: Long = 20000): WrittenRecords =
    new WrittenRecords(driver, waitMs, () => nowNs)

  private val everything = ReadRange(0, Int.MaxValue, 0, 4)

  private def asking(
      records: WrittenRecords,
      handle: LocalHandle[Int, Int, Int],
      range: ReadRange = everything): BlockRecords = {
    val task = ReduceTask(range, TaskContext.empty(), new TempShuffleReadMetrics)
    records.of(handle, task).begin()
  }

  private def block(mapId: Long, reduceId: Int) = ShuffleBlockId(0, mapId, reduceId)

  @Test def `an executor asks once for a small shuffle and again when it was removed`(): Unit = {
    val driver = new Driver(_ => Future.successful(answer(0 until 2, 0 until 4)))
    val records = written(driver)
    val small = shuffle(2, 4)
    (0 until 4).foreach { partition =>
      val range = ReadRange(0, Int.MaxValue, partition, partition + 1)
      assertEquals(7L + partition, asking(records, small, range).in(block(101, partition)))
    }
    val whole = GetCounts(small.shuffleId, 0, Int.MaxValue, 0, Int.MaxValue)
    assertEquals(Seq(whole), driver.asked.toArray.toSeq)
    records.removed(small.shuffleId)
    asking(records, small)
    assertEquals(2, driver.asked.size)
  }

  @Test def `tasks that read many small shuffles ask once for each`(): Unit = {
    val driver = new Driver(_ => Future.successful(answer(0 until 2, 0 until 4)))
    val records = written(driver)
    val many = Seq.fill(40)(shuffle(2, 4))
    (1 to 3).foreach { _ =>
      many.foreach(small => assertEquals(7L, asking(records, small).in(block(101, 0))))
    }
    assertEquals(40, driver.asked.size)
  }

  @Test def `the memory of an executor for shuffles has a limit`(): Unit = {
    val numbers = PackedLongs(Array.tabulate(32768)(i => (i.toLong << 48) + 1))
    val driver = new Driver(_ =>
      Future.successful(
        CountedMaps(CountedMaps.NoMore, 0, 32768, PackedLongs(Array(100L)), numbers)))
    val records = written(driver)
    val many = Seq.fill(100)(shuffle(1, 32768))
    many.foreach(asking(records, _))
    // Each answer takes 256 KiB, and 16 MiB are kept: some sixty answers.
    many.reverse.take(50).foreach(asking(records, _))
    assertEquals(100, driver.asked.size)
    asking(records, many.head)
    assertEquals(101, driver.asked.size)
  }

  @Test def `a task asks for its part of a large shuffle until it has all of it`(): Unit = {
    val driver = new Driver(asked =>
      Future.successful(
        if (asked.startMapIndex == 0) answer(0 until 3, 5 until 7, next = 3)
        else answer(3 until 5, 5 until 7)))
    val large = shuffle(5, 100000)
    val counted = asking(written(driver), large, ReadRange(0, Int.MaxValue, 5, 7))
    assertEquals(Seq(12L, 13L), Seq(5, 6).map(p => counted.in(block(104, p))))
    assertEquals(25L, counted.in(ShuffleBlockBatchId(0, 100, 5, 7)))
    assertEquals(Seq(NotCounted, NotCounted), Seq(4, 7).map(p => counted.in(block(104, p))))
    assertEquals(NotCounted, counted.in(ShuffleBlockBatchId(0, 100, 5, 8)))
    val parts = driver.asked.toArray(Array.empty[GetCounts]).toSeq
    val first = GetCounts(large.shuffleId, 0, Int.MaxValue, 5, 7)
    assertEquals(Seq(first, first.copy(startMapIndex = 3)), parts)
  }

  @Test def `what another attempt of the map wrote says nothing of this one`(): Unit = {
    val driver = new Driver(_ => Future.successful(answer(0 until 2, 0 until 4)))
    val counted = asking(written(driver), shuffle(2, 4))
    assertEquals(Seq(7L, NotCounted), Seq(101L, 102L).map(mapId => counted.in(block(mapId, 0))))
  }

  @Test def `a map that was run again after others had asked is asked for once more`(): Unit = {
    var maps = 0 until 2
    val driver = new Driver(asked =>
      Future.successful(
        answer(maps, asked.startPartition until math.min(4, asked.endPartition))))
    val records = written(driver)
    val small = shuffle(2, 4)
    assertEquals(7L, asking(records, small).in(block(101, 0)))
    maps = 0 until 3
    val counted = asking(records, small, ReadRange(0, Int.MaxValue, 1, 2))
    assertEquals(Seq(8L, 8L), Seq(101L, 102L).map(mapId => counted.in(block(mapId, 1))))
    (1 to 2).foreach(_ => assertEquals(NotCounted, counted.in(block(103, 1))))
    val again = GetCounts(small.shuffleId, 0, Int.MaxValue, 1, 2)
    val whole = GetCounts(small.shuffleId, 0, Int.MaxValue, 0, Int.MaxValue)
    assertEquals(Seq(whole, again), driver.asked.toArray.toSeq)
  }

  @Test def `nobody asks for what nobody counts or keeps`(): Unit = {
    val driver = new Driver(_ => Future.successful(answer(0 until 2, 0 until 4)))
    val records = written(driver)
    assertEquals(NotCounted, asking(records, shuffle(1 << 20, 1000)).in(block(100, 0)))
    val rows = spark.parallelize(0 until 2, 2).map(x => (x, x))
    val combined = rows.reduceByKey(_ + _, 4).dependencies.head
      .asInstanceOf[ShuffleDependency[Int, Int, Int]]
    val handle = new LocalHandle(new BaseShuffleHandle(combined.shuffleId, combined), 2)
    assertEquals(NotCounted, asking(records, handle).in(block(100, 0)))
    assertEquals(0, driver.asked.size)
  }

  @Test def `a task that must know waits for a driver that was silent to others`(): Unit = {
    val late = Promise[CountedMaps]()
    val driver = new Driver(_ => late.future)
    val records = written(driver, waitMs = 1)
    val handle = shuffle(2, 4)
    assertEquals(NotCounted, asking(records, handle).in(block(100, 0)))
    val task = ReduceTask(everything, TaskContext.empty(), new TempShuffleReadMetrics)
    val required = records.required(handle, task).begin()
    RequestTimer.after(100)(late.success(answer(0 until 2, 0 until 4)))
    assertEquals(7L, required.in(block(100, 0)))
  }

  @Test def `of all tasks one waits for a driver that does not answer`(): Unit =
    Seq(shuffle(2, 4), shuffle(5, 100000)).foreach { handle =>
      val late = Promise[CountedMaps]()
      val driver = new Driver(_ => late.future)
      val records = written(driver, waitMs = 100)
      assertEquals(NotCounted, asking(records, handle).in(block(100, 0)))
      assertEquals(1, driver.asked.size)
      (1 to 3).foreach(_ => assertEquals(NotCounted, asking(records, handle).in(block(100, 0))))
      assertEquals(1, driver.asked.size)
      nowNs += SECONDS.toNanos(31)
      late.success(answer(0 until 2, 0 until 4))
      assertEquals(7L, asking(records, handle).in(block(100, 0)))
    }

  @Test def `a question that failed is asked again after a while`(): Unit = {
    var failures = List[Future[CountedMaps]](
      Future.failed(new SparkException("the driver is busy")),
      Future.failed(new TimeoutException("the driver is gone")))
    val driver = new Driver(_ =>
      failures match {
        case next :: others =>
          failures = others
          next
        case Nil => Future.successful(answer(0 until 2, 0 until 4))
      })
    val records = written(driver)
    val small = shuffle(2, 4)
    (1 to 2).foreach { _ =>
      assertEquals(NotCounted, asking(records, small).in(block(100, 0)))
      nowNs += SECONDS.toNanos(31)
    }
    assertEquals(7L, asking(records, small).in(block(100, 0)))
    assertEquals(3, driver.asked.size)
  }
}
