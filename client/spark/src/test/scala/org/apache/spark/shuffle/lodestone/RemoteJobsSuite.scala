// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.lang.ref.Reference
import java.nio.ByteBuffer
import java.nio.file.{Files, Path}
import java.util.SplittableRandom
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}
import java.util.concurrent.atomic.{AtomicInteger, LongAdder}

import scala.collection.mutable.ArrayBuffer
import scala.concurrent.Await
import scala.concurrent.duration.DurationInt

import com.fasterxml.jackson.databind.ObjectMapper
import org.junit.jupiter.api.{AfterEach, Tag, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{FetchFailed, HashPartitioner, MapOutputTrackerMaster, ShuffleDependency}
import org.apache.spark.{SparkContext, SparkEnv, Success, TaskContext}
import org.apache.spark.network.buffer.NioManagedBuffer
import org.apache.spark.rdd.{RDD, ShuffledRDD}
import org.apache.spark.scheduler.{MapStatus, SparkListener, SparkListenerTaskEnd, TaskInfo}
import org.apache.spark.shuffle.lodestone.executor.fetch.{MapRangeRDD, ReadRange}
import org.apache.spark.shuffle.lodestone.executor.fetch.UnopenedChunkCodec
import org.apache.spark.shuffle.lodestone.plan.{DriverMessage, LodestoneHandle, LostAt, OutputsLost}
import org.apache.spark.shuffle.lodestone.plan.Reason
import org.apache.spark.shuffle.lodestone.plan.{RemoteOutput, RemotePart, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.{RequestTimer, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Application, Crc32c, Segment, Status}
import org.apache.spark.util.{RpcUtils, Utils}

/** Whole jobs whose shuffles are only at real daemons. */
@Tag("seldom")
final class RemoteJobsSuite {
  @TempDir var directory: Path = _

  private val daemons = ArrayBuffer.empty[DaemonProcess]
  private val chunks = new LongAdder
  private val failedReads = new LongAdder
  private val mapTasks = new LongAdder
  private val waitedMs = new LongAdder

  @AfterEach def stopDaemons(): Unit = daemons.foreach(_.stop())

  private def start(count: Int, memory: String = "128MiB"): Unit = (1 to count).foreach { _ =>
    val home = new File(directory.toFile, s"daemon${daemons.size}")
    daemons += DaemonProcess.start(home, memory = memory)
  }

  private def withSpark[T](settings: (String, String)*)(job: SparkContext => T): T = {
    val conf = LocalSpark.conf("remote-jobs", master = "local[2, 4]")
      .set("spark.local.dir", new File(directory.toFile, "local").getPath)
      // A sixth of the time limit for a service that no other can replace.
      .set("spark.lodestone.request.timeout", "500ms")
      .set("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
      .setAll(settings)
    val spark = new SparkContext(conf)
    spark.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
        if (end.taskType == "ShuffleMapTask") mapTasks.increment()
        if (end.reason.isInstanceOf[FetchFailed]) failedReads.increment()
        // A task that failed may have none.
        Option(end.taskMetrics).map(_.shuffleReadMetrics).foreach { read =>
          chunks.add(read.remoteMergedChunksFetched)
          waitedMs.add(read.fetchWaitTime)
        }
      }
    })
    // Stopping drains the listeners' queue, so the sums are complete afterwards.
    try job(spark)
    finally spark.stop()
  }

  private def remote: Seq[(String, String)] = Seq(
    "spark.shuffle.manager" -> classOf[LodestoneShuffleManager].getName,
    "spark.lodestone.mode" -> "remote",
    "spark.lodestone.services" -> daemons.map(_.hostPort).mkString(","))

  private def pairs(spark: SparkContext): RDD[(Int, Int)] =
    spark.parallelize(0 until 20000, 6).map(x => (x % 997, x))

  /** Map outputs on the executor's disk. */
  private def files: Seq[String] = {
    val local = new File(directory.toFile, "local").toPath
    if (!Files.exists(local)) Nil
    else
      Files.walk(local).map[String](_.getFileName.toString).toArray.toSeq
        .map(_.toString)
        .filter(name => name.startsWith("shuffle_") || name.startsWith("temp_shuffle"))
  }

  private def report = new ObjectMapper().readTree(LodestoneReport.json())

  /** The same result as plain Spark, while executors keep nothing. */
  private def assertRemote[T](settings: (String, String)*)(job: SparkContext => T): Unit = {
    val expected = withSpark(settings: _*)(job)
    mapTasks.reset()
    val result = withSpark(remote ++ settings: _*) { spark =>
      val result = job(spark)
      assertEquals(Nil, files)
      result
    }
    assertEquals(expected, result)
    assertTrue(chunks.sum() > 0, "nothing was read from services")
    assertEquals("{}", report.at("/totals/reasons").toString)
    assertEquals(0, failedReads.sum())
  }

  private def grouped(spark: SparkContext): Seq[(Int, Seq[Int])] =
    pairs(spark).groupByKey(8).mapValues(_.toSeq.sorted).collect().sortBy(_._1).toSeq

  private def summed(spark: SparkContext): Seq[(Int, Int)] =
    pairs(spark).reduceByKey(_ + _, 8).collect().sorted.toSeq

  private def shuffled(spark: SparkContext): Seq[(Int, Int)] =
    new ShuffledRDD[Int, Int, Int](pairs(spark), new HashPartitioner(8)).collect().sorted.toSeq

  @Test def groupByKeyKeepsNothingOnTheExecutor(): Unit = {
    start(1)
    assertRemote()(grouped)
  }

  @Test def valuesAreCombinedBeforeTheyArePushed(): Unit = {
    start(1)
    assertRemote()(summed)
    assertTrue(report.at("/totals/bytesPushed").asLong < 60000, LodestoneReport.json())
  }

  @Test def aSortIsInOrder(): Unit = {
    start(1)
    assertRemote()(pairs(_).map(_.swap).sortByKey(ascending = false, 8).collect().toSeq)
  }

  @Test def everyCodecIsReadBack(): Unit = {
    start(1)
    Seq("lz4", "zstd", "snappy", "lzf").foreach { codec =>
      assertRemote("spark.io.compression.codec" -> codec)(shuffled)
    }
    assertRemote("spark.shuffle.compress" -> "false")(shuffled)
  }

  @Test def aSerializerWhoseBytesCannotBeMovedIsRemoteAsWell(): Unit = {
    start(1)
    val java = "spark.serializer" -> "org.apache.spark.serializer.JavaSerializer"
    // Spark always takes Kryo for keys and values of primitive types.
    def boxed(partitions: Int)(spark: SparkContext) =
      new ShuffledRDD[(Int, Int), Int, Int](
        pairs(spark).map { case (key, value) => ((key, key), value) },
        new HashPartitioner(partitions)).collect().sorted.toSeq
    // Few partitions and many: streams that stay open, and objects that are sorted.
    assertRemote(java)(boxed(8))
    assertRemote(java)(boxed(300))
    assertRemote(java, "spark.shuffle.spill.numElementsForceSpillThreshold" -> "100")(boxed(300))
    assertRemote(java) { spark =>
      pairs(spark).map { case (key, value) => ((key, key), value) }
        .reduceByKey(_ + _, 8).collect().sorted.toSeq
    }
  }

  @Test def encryptedSegmentsAreReadBack(): Unit = {
    start(1)
    assertRemote("spark.io.encryption.enabled" -> "true")(shuffled)
  }

  /** Each map has a record of so many bytes that no codec makes smaller. */
  private def withLargeRecords(bytes: Int)(spark: SparkContext): Seq[(Int, Int)] = {
    val rows = spark.parallelize(0 until 4, 4).flatMap { seed =>
      val large = new Array[Byte](bytes)
      new SplittableRandom(seed.toLong).nextBytes(large)
      Iterator((seed, large)) ++ Iterator.tabulate(1000)(n => (n, Array(n.toByte)))
    }
    new ShuffledRDD[Int, Array[Byte], Array[Byte]](rows, new HashPartitioner(8))
      .map { case (key, value) => (key, Crc32c.of(ByteBuffer.wrap(value))) }
      .collect().sorted.toSeq
  }

  @Test def aRecordThatIsTooLargeForServicesKeepsItsShuffleAndNoOther(): Unit = {
    start(3)
    // A daemon of 128 MiB takes requests of 28 MiB, and no daemon takes more than 64 MiB.
    for (bytes <- Seq(30, 70).map(_ << 20)) {
      val expected = withSpark()(withLargeRecords(bytes))
      withSpark(remote: _*) { spark =>
        assertEquals(expected, withLargeRecords(bytes)(spark))
        assertEquals(expected.size, withLargeRecords(1)(spark).size)
      }
      val reasons = report.at("/totals/reasons")
      assertEquals(1, reasons.size, s"$reasons")
      assertTrue(reasons.get("PUSH_TOO_LARGE").asInt <= 5, s"$reasons")
      val shuffles = report.get("shuffles")
      assertEquals("remote", shuffles.get(1).get("state").asText, LodestoneReport.json())
    }
  }

  @Test def severalServicesShareAShuffle(): Unit = {
    start(3)
    assertRemote() { spark =>
      new ShuffledRDD[Int, Int, Int](pairs(spark), new HashPartitioner(40)).collect().sorted.toSeq
    }
  }

  @Test def aTaskThatHasNoMemoryPushesEarlier(): Unit = {
    start(1)
    assertRemote("spark.shuffle.spill.numElementsForceSpillThreshold" -> "100")(shuffled)
    // Six maps and eight partitions.
    assertTrue(report.at("/totals/blocksPushed").asLong > 1000, LodestoneReport.json())
  }

  @Test def `a partition of more segments than a layout may have costs no second run of maps`()
      : Unit = {
    // Its layouts have at most 13,107 segments.
    start(1, memory = "16MiB")
    assertRemote("spark.shuffle.spill.numElementsForceSpillThreshold" -> "1") { spark =>
      val rows = spark.parallelize(0 until 14000, 14).map(x => (x, x))
      new ShuffledRDD[Int, Int, Int](rows, new HashPartitioner(1)).collect().sorted.toSeq
    }
    assertTrue(report.at("/totals/blocksPushed").asLong > 13107, LodestoneReport.json())
    assertEquals(14, mapTasks.sum())
  }

  @Test def aTaskWithStreamsThatHasNoMemoryPushesEarlier(): Unit = {
    start(1)
    // Four megabytes of each map that no codec makes smaller, for eight partitions.
    def numbers(spark: SparkContext) = {
      val rows = spark.parallelize(0 until 4, 4).flatMap { seed =>
        val random = new scala.util.Random(seed)
        Iterator.fill(4096) {
          val bytes = new Array[Byte](1024)
          random.nextBytes(bytes)
          (random.nextInt(), bytes.toSeq)
        }
      }
      new ShuffledRDD[Int, Seq[Byte], Seq[Byte]](rows, new HashPartitioner(8))
        .map { case (key, bytes) => (key, bytes.hashCode) }.collect().sorted.toSeq
    }
    val java = "spark.serializer" -> "org.apache.spark.serializer.JavaSerializer"
    def segments(settings: (String, String)*): Long = {
      assertRemote(settings :+ java: _*)(numbers)
      report.at("/totals/blocksPushed").asLong
    }
    val plenty = segments()
    // Less than half a megabyte for each of two tasks.
    val none = segments("spark.testing.memory" -> "1572864", "spark.testing.reservedMemory" -> "0")
    assertTrue(none >= 2 * plenty, s"$none segments, where $plenty do if there is memory")
  }

  @Test def shufflesOfShufflesAreRemote(): Unit = {
    start(1)
    assertRemote() { spark =>
      pairs(spark).reduceByKey(_ + _, 8).map(_.swap).sortByKey(numPartitions = 4).collect().toSeq
    }
  }

  private def rangesOf(spark: SparkContext, ranges: Seq[ReadRange]): Seq[Seq[(Int, Int)]] = {
    val shuffle = new ShuffleDependency[Int, Int, Int](pairs(spark), new HashPartitioner(8))
    val tasks = new MapRangeRDD(shuffle, ranges)
    tasks.mapPartitions(rows => Iterator(rows.toVector.sorted)).collect().toSeq
  }

  @Test def aTaskReadsJustItsRangeOfMapsAndPartitions(): Unit = {
    start(2)
    // Six maps: parts of a partition, and whole map outputs.
    val ranges = Seq(ReadRange(0, 2, 3, 4), ReadRange(2, 6, 3, 4), ReadRange(1, 3, 0, 8))
    assertRemote()(rangesOf(_, ranges))
  }

  @Test def anAttemptThatFailsLeavesNoRowBehind(): Unit = {
    start(1)
    RemoteJobsSuite.failed.set(0)
    val job = (spark: SparkContext) => {
      val rows = pairs(spark).mapPartitionsWithIndex { (index, rows) =>
        val first = TaskContext.get().attemptNumber() == 0
        rows.zipWithIndex.map { case (row, i) =>
          if (index == 3 && first && i == 3000) {
            RemoteJobsSuite.failed.incrementAndGet()
            throw new IllegalStateException("on purpose")
          }
          row
        }
      }
      new ShuffledRDD[Int, Int, Int](rows, new HashPartitioner(8)).collect().sorted.toSeq
    }
    assertRemote("spark.shuffle.spill.numElementsForceSpillThreshold" -> "100")(job)
    assertEquals(2, RemoteJobsSuite.failed.get, "the map task did not fail, once for each side")
  }

  /**
   * Each map task passes through the partitions in small rounds. The last round has rows of one of
   * them.
   */
  @Test def `blocks of which the last round of a map task has nothing are read whole`(): Unit = {
    start(2)
    val job = (spark: SparkContext) => {
      val rows = spark.parallelize(0 until 6000, 3).map(x => (x / 250 % 8, x))
      new ShuffledRDD[Int, Int, Int](rows, new HashPartitioner(9)).collect().sorted.toSeq
    }
    for (serializer <- Seq("KryoSerializer", "JavaSerializer")) {
      assertRemote(
        "spark.serializer" -> s"org.apache.spark.serializer.$serializer",
        "spark.shuffle.sort.bypassMergeThreshold" -> "1",
        "spark.shuffle.spill.numElementsForceSpillThreshold" -> "100")(job)
    }
  }

  /** Waits until the service refuses further pushes of the attempt, and returns the status. */
  private def awaitAborted(app: Application, mapIndex: Int, mapId: Long): Unit = {
    val daemon = daemons.head
    val at = daemon.location
    val client = new ServiceClient(app, 5000)
    val deadline = System.nanoTime() + 20000000000L
    try {
      val bytes = ByteBuffer.wrap(Array[Byte](1))
      val segments = Array(Segment(0, 1, -1, Crc32c.of(bytes.duplicate())))
      def said: Status = {
        val body = new NioManagedBuffer(bytes.duplicate())
        val pushed =
          client.pushBatch(at, ShuffleGeneration(0, 0), mapIndex, mapId, segments, body)(())
        Await.result(pushed, 20.seconds).statuses.head
      }
      while (said != Status.Aborted) {
        assertTrue(System.nanoTime() < deadline, "the attempt was not aborted")
      }
    } finally {
      client.close()
    }
  }

  @Test def theDriverDropsAnAttemptWhoseExecutorSaidNothing(): Unit = {
    start(1)
    val failed = new LinkedBlockingQueue[TaskInfo]()
    val job = (spark: SparkContext) => {
      spark.addSparkListener(new SparkListener {
        override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
          if (end.reason != Success) failed.add(end.taskInfo)
      })
      // The attempt has pushed nothing when it fails, so the executor aborts nothing.
      val rows = pairs(spark).mapPartitionsWithIndex { (index, rows) =>
        val first = TaskContext.get().attemptNumber() == 0
        if (index == 3 && first) throw new IllegalStateException("on purpose") else rows
      }
      val sums = new ShuffledRDD[Int, Int, Int](rows, new HashPartitioner(8))
      val result = sums.collect().sorted.toSeq
      val task = failed.poll(20, TimeUnit.SECONDS)
      sums.dependencies.head.asInstanceOf[ShuffleDependency[_, _, _]].shuffleHandle match {
        case remote: LodestoneHandle[_, _, _] => awaitAborted(remote.app, 3, task.taskId)
        case _ => // plain Spark's
      }
      // Spark removes the shuffle of an RDD without references.
      Reference.reachabilityFence(sums)
      result
    }
    assertRemote()(job)
  }

  @Test def withoutAnyServiceExecutorsKeepTheirOutputs(): Unit = {
    start(1)
    val settings = remote
    daemons.head.kill()
    assertEquals(withSpark()(summed), withSpark(settings: _*)(summed))
    assertEquals("{\"NO_SERVICE\":1}", report.at("/totals/reasons").toString)
  }

  /** Reads everything once, changes something at the first service, and reads again. */
  private def readAgainAfter(settings: (String, String)*)(happens: DaemonProcess => Unit): Unit = {
    val expected = withSpark()(spark => wide(spark).collect().sorted.toSeq)
    mapTasks.reset()
    val result = withSpark(remote ++ settings: _*) { spark =>
      val rows = wide(spark)
      rows.count()
      happens(daemons.head)
      rows.collect().sorted.toSeq
    }
    assertEquals(expected, result)
  }

  private def assertNothingRunAgain(): Unit = {
    assertEquals(6, mapTasks.sum(), "maps were run again")
    assertEquals(0, failedReads.sum())
  }

  @Test def aLostServiceCostsOneMapStageRerun(): Unit = {
    start(2)
    readAgainAfter()(_.kill())
    assertEquals(12, mapTasks.sum(), "the six maps were not run just twice")
    assertTrue(failedReads.sum() > 0)
  }

  @Test def theOnlyServiceIsLostAndTheJobGoesOnWithoutIt(): Unit = {
    start(1)
    readAgainAfter()(_.kill())
  }

  @Test def withTwoReplicasALostServiceCostsNoRerun(): Unit = {
    start(2)
    readAgainAfter("spark.lodestone.replicas" -> "2")(_.kill())
    assertNothingRunAgain()
  }

  @Test def withTwoReplicasAMissingBlockCostsNoRerun(): Unit = {
    start(2)
    val expected = withSpark()(spark => wide(spark).collect().sorted.toSeq)
    mapTasks.reset()
    val result = withSpark(remote :+ ("spark.lodestone.replicas" -> "2"): _*) { spark =>
      val rows = wide(spark)
      rows.count()
      abortMapAtFirstService(rows, mapIndex = 3)
      rows.collect().sorted.toSeq
    }
    assertEquals(expected, result)
    assertNothingRunAgain()
  }

  /** The service no longer shows the output of the map. */
  private def abortMapAtFirstService(rows: RDD[(Int, Int)], mapIndex: Int): Unit = {
    val dependency = rows.dependencies.head.asInstanceOf[ShuffleDependency[_, _, _]]
    val handle = dependency.shuffleHandle.asInstanceOf[LodestoneHandle[_, _, _]]
    val outputs = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
    val mapId = outputs.shuffleStatuses(handle.shuffleId).mapStatuses(mapIndex).mapId
    val at = daemons.head.location
    val client = new ServiceClient(handle.app, 5000)
    try {
      val generation = ShuffleGeneration(handle.shuffleId, 0)
      Await.result(client.abortMap(at, generation, mapIndex, mapId), 20.seconds)
      ()
    } finally {
      client.close()
    }
  }

  @Test def aLateOutputOfAnOldGenerationCostsOneMapAndNotAll(): Unit = {
    start(1)
    val expected = withSpark()(spark => wide(spark).collect().sorted.toSeq)
    mapTasks.reset()
    val result = withSpark(remote: _*) { spark =>
      val rows = wide(spark)
      val shuffle = rows.dependencies.head.asInstanceOf[ShuffleDependency[_, _, _]].shuffleId
      rows.count()
      val env = SparkEnv.get
      val driver = RpcUtils.makeDriverRef(DriverMessage.Endpoint, env.conf, env.rpcEnv)
      val lost = OutputsLost(shuffle, 0, LostAt(Nil, Reason.OutputLost), "driver", -1, 0)
      assertTrue(driver.askSync[Boolean](lost))
      rows.count()
      // Like an attempt that commits just when the driver ends its generation.
      val late = RemoteOutput(0, Seq(RemotePart(0, Nil))).location(shuffle)
      val status = MapStatus(late, Array.fill(40)(1L), 2)
      env.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
        .registerMapOutput(shuffle, 2, status)
      rows.collect().sorted.toSeq
    }
    assertEquals(expected, result)
    assertEquals(13, mapTasks.sum(), "more maps than the one were run again")
  }

  @Test def aChunkThatSparkCannotOpenIsTakenForWrongRecordsAndNotForALostService(): Unit = {
    start(1)
    val codec = "spark.io.compression.codec" -> classOf[UnopenedChunkCodec].getName
    val expected = withSpark()(shuffled)
    UnopenedChunkCodec.armed.set(true)
    assertEquals(expected, withSpark(remote :+ codec: _*)(shuffled))
    assertFalse(UnopenedChunkCodec.armed.get, "every stream was opened")
    assertEquals("{\"CHUNK_BROKEN\":1}", report.at("/totals/reasons").toString)
  }

  private def wide(spark: SparkContext): RDD[(Int, Int)] =
    new ShuffledRDD[Int, Int, Int](pairs(spark), new HashPartitioner(40))

  @Test def aRemoteShuffleIsReadInOneStageWithRowsThatAreCached(): Unit = {
    start(1)
    // Without configuration cached rows are at the host that runs the tasks.
    val host = "spark.driver.host" -> Utils.localCanonicalHostName()
    withSpark(remote :+ host: _*) { spark =>
      val cached = spark.parallelize(Seq(1 -> 1), 1).cache()
      cached.count()
      // Local mode never starts a task that prefers an unknown host, while others prefer a real
      // one.
      val all = cached.union(wide(spark)).countAsync()
      assertEquals(20001L, Await.result(all, 1.minute))
    }
  }

  @Test def aFrozenServiceIsWaitedFor(): Unit = {
    start(1)
    readAgainAfter() { service =>
      service.freeze()
      waitedMs.reset()
      // Longer than a request may take.
      RequestTimer.after(1500)(service.thaw())
      ()
    }
    assertNothingRunAgain()
    assertTrue(waitedMs.sum() >= 1000, s"users see ${waitedMs.sum()} ms of wait, of 1,500 and more")
  }
}

private object RemoteJobsSuite {
  private val failed = new AtomicInteger
}
