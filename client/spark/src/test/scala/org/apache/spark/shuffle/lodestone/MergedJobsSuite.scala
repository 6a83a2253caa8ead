// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.Path
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.LongAdder

import com.fasterxml.jackson.databind.ObjectMapper
import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertThrows, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{FetchFailed, HashPartitioner, ShuffleDependency}
import org.apache.spark.SparkContext
import org.apache.spark.rdd.{RDD, ShuffledRDD}
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.shuffle.lodestone.executor.fetch.{BrokenOriginalCodec, DoublingSerializer}
import org.apache.spark.shuffle.lodestone.executor.fetch.{ForgetfulSerializer, MapRangeRDD}
import org.apache.spark.shuffle.lodestone.executor.fetch.ReadRange
import org.apache.spark.shuffle.lodestone.plan.{
  DriverMessage,
  GetCounts,
  MapCounted,
  Reason
}
import org.apache.spark.shuffle.lodestone.plan.counts.{CountLimits, PackedLongs}
import org.apache.spark.util.RpcUtils

/** Whole jobs in local mode, where one JVM is driver and executor, with a real daemon. */
@Tag("seldom-4")
final class MergedJobsSuite {
  @TempDir var directory: Path = _

  private var daemon: DaemonProcess = _
  private val mergedChunks = new LongAdder
  private val fallbacks = new LongAdder
  private val waitedMs = new LongAdder

  @BeforeEach def startDaemon(): Unit =
    daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))

  @AfterEach def stopDaemon(): Unit = daemon.stop()

  private def withSpark[T](settings: (String, String)*)(job: SparkContext => T): T = {
    val conf = LocalSpark.conf("merged-jobs")
      .set("spark.local.dir", directory.toString)
      .set("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
      .setAll(settings)
    val spark = new SparkContext(conf)
    spark.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
        // A task that failed may have none.
        Option(end.taskMetrics).map(_.shuffleReadMetrics).foreach { read =>
          mergedChunks.add(read.remoteMergedChunksFetched)
          fallbacks.add(read.mergedFetchFallbackCount)
          waitedMs.add(read.fetchWaitTime)
        }
      }
    })
    // Stopping drains the listeners' queue, so the sums are complete afterwards.
    try job(spark)
    finally spark.stop()
  }

  private def merging: Seq[(String, String)] = Seq(
    "spark.shuffle.manager" -> classOf[LodestoneShuffleManager].getName,
    "spark.lodestone.mode" -> "merge",
    "spark.lodestone.services" -> daemon.hostPort)

  private def pairs(spark: SparkContext): RDD[(Int, Int)] =
    spark.parallelize(0 until 20000, 6).map(x => (x % 997, x))

  /** The same result as plain Spark, from merged chunks. */
  private def assertMerged[T](job: SparkContext => T): Unit = {
    val expected = withSpark()(job)
    assertEquals(0, mergedChunks.sum())
    assertEquals(expected, withSpark(merging: _*)(job))
    assertTrue(mergedChunks.sum() > 0, "nothing was read merged")
    assertEquals(0, fallbacks.sum())
  }

  @Test def groupByKeyReadsMergedChunks(): Unit =
    assertMerged(pairs(_).groupByKey(8).mapValues(_.toSeq.sorted).collect().sortBy(_._1).toSeq)

  @Test def reduceByKeyReadsMergedChunks(): Unit =
    assertMerged(pairs(_).reduceByKey(_ + _, 8).collect().sortBy(_._1).toSeq)

  @Test def sortByKeyReadsMergedChunksInOrder(): Unit =
    assertMerged(pairs(_).map(_.swap).sortByKey(ascending = false, 8).collect().toSeq)

  @Test def aPlainRepartitionReadsMergedChunks(): Unit =
    assertMerged { spark =>
      new ShuffledRDD[Int, Int, Int](pairs(spark), new HashPartitioner(8)).collect().sorted.toSeq
    }

  @Test def inModeAutoAShuffleOfFewBlocksAsksNoServiceForAnything(): Unit = {
    val nowhere = "spark.lodestone.services" -> "127.0.0.1:1"
    val job = (spark: SparkContext) => pairs(spark).reduceByKey(_ + _, 8).collect().toMap
    val auto = merging.filterNot(_._1 == "spark.lodestone.mode") :+ nowhere
    assertEquals(withSpark()(job), withSpark(auto: _*)(job))
    val report = new ObjectMapper().readTree(LodestoneReport.json())
    assertEquals("{\"FEW_BLOCKS\":1}", report.at("/totals/reasons").toString)
    assertEquals(0, report.get("services").size, s"services were looked for: $report")
  }

  @Test def inModeAutoManyTinyBlocksAreMergedAndLargeOnesAreNot(): Unit = {
    val auto = merging.filterNot(_._1 == "spark.lodestone.mode")
    def reasons = new ObjectMapper().readTree(LodestoneReport.json()).at("/totals/reasons").toString
    def blocks(maps: Int, bytes: Int)(spark: SparkContext): Long =
      spark.parallelize(0 until maps * 1000, maps).map(x => (x, new Array[Byte](bytes)))
        .partitionBy(new HashPartitioner(1000)).coalesce(8).map(_._2.length.toLong).sum().toLong
    val small = "spark.shuffle.compress" -> "false"
    assertEquals(12000L * 100, withSpark(auto :+ small: _*)(blocks(12, 100)))
    assertTrue(mergedChunks.sum() > 0, "tiny blocks were not merged")
    assertEquals("{}", reasons)
    mergedChunks.reset()
    assertEquals(12000L * 10000, withSpark(auto :+ small: _*)(blocks(12, 10000)))
    assertEquals(0, mergedChunks.sum())
    assertEquals("{\"LARGE_BLOCKS\":12001}", reasons)
  }

  @Test def twoShufflesInARowAreBothMerged(): Unit =
    assertMerged { spark =>
      pairs(spark).reduceByKey(_ + _, 8).map(_.swap).sortByKey(numPartitions = 4).collect().toSeq
    }

  private def rangesOf(spark: SparkContext, ranges: Seq[ReadRange]): Seq[Seq[(Int, Int)]] = {
    val shuffle = new ShuffleDependency[Int, Int, Int](pairs(spark), new HashPartitioner(8))
    val tasks = new MapRangeRDD(shuffle, ranges)
    tasks.mapPartitions(rows => Iterator(rows.toVector.sorted)).collect().toSeq
  }

  @Test def aSkewSplitReadsItsRangeOfMapsFromTheMergedPartition(): Unit = {
    // Six maps.
    val ranges = Seq(ReadRange(0, 2, 3, 4), ReadRange(2, 6, 3, 4), ReadRange(5, 6, 4, 5))
    assertMerged(rangesOf(_, ranges))
    assertTrue(LodestoneReport.json().contains("\"originalsRead\":0"), LodestoneReport.json())
  }

  @Test def aLocalReadOfWholeMapOutputsTakesTheOriginals(): Unit = {
    val job =
      (spark: SparkContext) => rangesOf(spark, Seq(ReadRange(0, 3, 0, 8), ReadRange(3, 6, 0, 8)))
    assertEquals(withSpark()(job), withSpark(merging: _*)(job))
    assertEquals(0, mergedChunks.sum())
    assertTrue(LodestoneReport.json().contains("\"LOCAL_MAP_READ\":48"), LodestoneReport.json())
  }

  @Test def aJobWithoutAnyServiceIsRight(): Unit = {
    val job = (spark: SparkContext) => pairs(spark).reduceByKey(_ + _, 8).collect().sorted.toSeq
    val settings = merging
    daemon.kill()
    assertEquals(withSpark()(job), withSpark(settings: _*)(job))
    assertEquals(0, mergedChunks.sum())
  }

  @Test def aServiceKilledBetweenMapAndReduceCostsNothingButTime(): Unit = {
    val result = withSpark(merging: _*) { spark =>
      val shuffled = pairs(spark).reduceByKey(_ + _, 8)
      shuffled.count()
      daemon.kill()
      shuffled.collect().sorted.toSeq
    }
    assertEquals(withSpark()(pairs(_).reduceByKey(_ + _, 8).collect().sorted.toSeq), result)
  }

  @Test def aFrozenServiceCostsTheFirstReadersOneTimeoutAndTheOthersNothing(): Unit = {
    val timeout = "spark.lodestone.request.timeout" -> "3s"
    val result = withSpark(merging :+ timeout: _*) { spark =>
      val shuffled = pairs(spark).reduceByKey(_ + _, 8)
      shuffled.count()
      daemon.freeze()
      shuffled.collect().sorted.toSeq
    }
    daemon.thaw()
    assertTrue(waitedMs.sum() >= 2900, s"users see ${waitedMs.sum()} ms of wait, of 3,000 and more")
    assertEquals(withSpark()(pairs(_).reduceByKey(_ + _, 8).collect().sorted.toSeq), result)
    // Two tasks run at once, and read six blocks each.
    val waited = blocksFor(Reason.FetchTimedOut)
    assertTrue(waited > 0 && waited <= 12, s"$waited blocks waited for the service")
    assertEquals(48, waited + blocksFor(Reason.FetchSuspect), LodestoneReport.json())
  }

  /** The totals come first. */
  private def blocksFor(reason: Reason): Int =
    s""""${reason.code}":(\\d+)""".r.findFirstMatchIn(LodestoneReport.json()).fold(0)(_.group(
      1).toInt)

  @Test def aSerializerThatCannotBeConcatenatedIsLeftToSpark(): Unit = {
    val java = "spark.serializer" -> "org.apache.spark.serializer.JavaSerializer"
    // Spark always takes Kryo for keys and values of primitive types.
    val job = (spark: SparkContext) => {
      val boxed = pairs(spark).map { case (key, value) => ((key, key), value) }
      boxed.reduceByKey(_ + _, 8).collect().sorted.toSeq
    }
    assertEquals(withSpark()(job), withSpark(merging :+ java: _*)(job))
    assertEquals(0, mergedChunks.sum())
  }

  @Test def anUnknownKeyEndsTheApplicationBeforeItBegins(): Unit = {
    val wrong = "spark.lodestone.push.memroy" -> "1m"
    val thrown = assertThrows(
      classOf[Exception],
      () => withSpark(merging :+ wrong: _*)(_ => ()))
    val causes = Iterator.iterate[Throwable](thrown)(_.getCause).takeWhile(_ != null).toSeq
    assertTrue(causes.exists(_.toString.contains("spark.lodestone.push.memroy")), s"$causes")
  }

  @Test def aChunkWithOtherThanTheWrittenNumberOfRecordsIsRefused(): Unit = {
    val job = (spark: SparkContext) =>
      new ShuffledRDD[Int, Int, Int](pairs(spark), new HashPartitioner(8))
        .setSerializer(new ForgetfulSerializer(spark.getConf))
        .collect()
        .sorted
        .toSeq
    val expected = withSpark()(job)
    ForgetfulSerializer.armed.set(true)
    assertEquals(expected, withSpark(merging: _*)(job))
    assertFalse(ForgetfulSerializer.armed.get, "no record was lost")
    assertTrue(LodestoneReport.json().contains("RECORDS_MISMATCH"), LodestoneReport.json())
  }

  @Test def aMapOutputThatContradictsItsOwnCountIsWrittenAgainAndNotReadUnchecked(): Unit = {
    val job = (spark: SparkContext) =>
      new ShuffledRDD[Int, Int, Int](pairs(spark), new HashPartitioner(8))
        .setSerializer(new DoublingSerializer(spark.getConf))
        .collect()
        .sorted
        .toSeq
    val expected = withSpark()(job)
    val failedReads = new ConcurrentLinkedQueue[FetchFailed]()
    DoublingSerializer.armed.set(true)
    val result = withSpark(merging: _*) { spark =>
      spark.addSparkListener(failuresInto(failedReads))
      job(spark)
    }
    assertFalse(DoublingSerializer.armed.get, "no record was doubled")
    assertEquals(expected.size, result.size)
    assertEquals(expected, result)
    val blamed = failedReads.toArray(Array.empty[FetchFailed]).filter(_.bmAddress != null)
    assertEquals(1, blamed.length, s"$failedReads")
    assertTrue(blamed.head.mapIndex >= 0 && blamed.head.mapId >= 0, s"${blamed.head}")
    assertTrue(LodestoneReport.json().contains("RECORDS_MISMATCH"), LodestoneReport.json())
  }

  /**
   * Fills the driver's memory for numbers of records. The driver then forgets the numbers of older
   * shuffles.
   */
  private def crowdOutNumbers(spark: SparkContext): Unit = {
    val partitions = CountLimits.MostPartitions
    val numbers = PackedLongs(Array.tabulate(partitions)(i => if (i == 0) Long.MaxValue else 1L))
    val maps = (CountLimits.MostBytesOfShuffle / numbers.bytes).toInt
    val driver = RpcUtils.makeDriverRef(DriverMessage.Endpoint, spark.getConf, spark.env.rpcEnv)
    (0L to CountLimits.MostBytes / CountLimits.MostBytesOfShuffle).foreach { _ =>
      val rows = spark.parallelize(Seq(1), maps).map(x => (x, x))
      val shuffled = new ShuffledRDD[Int, Int, Int](rows, new HashPartitioner(partitions))
      val shuffle = shuffled.dependencies.head.asInstanceOf[ShuffleDependency[_, _, _]].shuffleId
      (0 until maps).foreach { map =>
        driver.send(MapCounted(shuffle, map, map.toLong, numbers))
        // Its answer says that the number has arrived.
        driver.askSync[Any](GetCounts(shuffle, map, map + 1, 0, 1))
      }
    }
  }

  /** Then nobody knows the numbers of records, and the originals may be as wrong. */
  @Test def afterMergedDataWasWrongAndItsServiceEndedTheMapsAreRunAgain(): Unit = {
    def job(spark: SparkContext, beforeSecondRead: () => Unit) =
      new SecondReadRDD(pairs(spark), new DoublingSerializer(spark.getConf), beforeSecondRead)
        .collect()
        .sorted
        .toSeq
    val expected = withSpark()(job(_, () => ()))
    DoublingSerializer.armed.set(true)
    val killed = daemon
    val found = withSpark(merging: _*) { spark =>
      job(
        spark,
        () => {
          killed.kill()
          crowdOutNumbers(spark)
        })
    }
    assertFalse(DoublingSerializer.armed.get, "no record was doubled")
    assertEquals(expected.size, found.size)
    assertEquals(expected, found)
    assertTrue(LodestoneReport.json().contains("RECORDS_MISMATCH"), LodestoneReport.json())
    assertTrue(LodestoneReport.json().contains("ORIGINAL_MISMATCH"), LodestoneReport.json())
  }

  private def failuresInto(failed: ConcurrentLinkedQueue[FetchFailed]): SparkListener =
    new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit = end.reason match {
        case failure: FetchFailed => failed.add(failure)
        case _ =>
      }
    }

  @Test def aMergedChunkThatBreaksWhileItIsReadCostsAStageAndNotTheApplication(): Unit = {
    val codec = "spark.io.compression.codec" -> classOf[BrokenOriginalCodec].getName
    val job = (spark: SparkContext) => pairs(spark).reduceByKey(_ + _, 8).collect().sorted.toSeq
    val expected = withSpark()(job)
    val failedReads = new ConcurrentLinkedQueue[FetchFailed]()
    BrokenOriginalCodec.armed.set(true)
    val result = withSpark(merging :+ codec: _*) { spark =>
      spark.addSparkListener(failuresInto(failedReads))
      job(spark)
    }
    assertEquals(expected, result)
    assertFalse(BrokenOriginalCodec.armed.get, "no stream was broken")
    assertTrue(mergedChunks.sum() > 0, "nothing was read merged")
    assertEquals(1, failedReads.size)
    assertEquals(null, failedReads.peek().bmAddress)
    assertTrue(LodestoneReport.json().contains("CHUNK_BROKEN"), LodestoneReport.json())
  }
}
