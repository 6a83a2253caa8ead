// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.io.File
import java.nio.ByteBuffer
import java.nio.file.{Files, Path}
import java.util.concurrent.{CountDownLatch, LinkedBlockingQueue, TimeUnit}

import scala.concurrent.{Await, ExecutionContext, Future, Promise}
import scala.concurrent.duration.DurationInt
import scala.util.Random

import io.netty.buffer.Unpooled
import org.apache.logging.log4j.Level
import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertNotNull, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.LogCapture
import org.apache.spark.shuffle.lodestone.config.LodestoneConf
import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.executor.link.PlanCache
import org.apache.spark.shuffle.lodestone.executor.push.records.RecordCounts
import org.apache.spark.shuffle.lodestone.plan.{DriverMessage, GetPlan, MapPushed, MapSample}
import org.apache.spark.shuffle.lodestone.plan.{NoPlan, PlanAnswer, PushCounts, Reason}
import org.apache.spark.shuffle.lodestone.plan.{ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.{AbortMap, Application, CommitMap, Crc32c, Ledger}
import org.apache.spark.shuffle.lodestone.wire.{Message, PushBatch, PushBatchReply, Refused}
import org.apache.spark.shuffle.lodestone.wire.{ShuffleAddress, Status}

final class BlockPusherSuite {
  @TempDir var directory: Path = _
  private val generation = ShuffleGeneration(3, 0)
  private var closing = List.empty[() => Unit]

  @AfterEach def closeAll(): Unit = closing.foreach(_.apply())

  /** Answers by what has been seen, and keeps questions and reports. */
  private final class Driver(answer: MapSample => Future[PlanAnswer]) extends SilentDriver {
    val reports = new LinkedBlockingQueue[MapPushed]()
    val asked = new LinkedBlockingQueue[MapSample]()
    override def plan(question: GetPlan): Future[PlanAnswer] = {
      val sample = question.sample.get
      asked.add(sample)
      answer(sample)
    }
    override def send(message: DriverMessage): Unit = message match {
      case report: MapPushed => reports.add(report)
      case other => throw new IllegalStateException(s"$other is not for a pusher to send")
    }

    /** Returns the counts of the next report. */
    def counts(): PushCounts = {
      val report = reports.poll(20, TimeUnit.SECONDS)
      assertNotNull(report, "no report came")
      report.counts
    }
  }

  private class Setup(
      answer: MapSample => Future[PlanAnswer],
      settings: (String, String)*) {
    protected def pool: PiecePool = new PiecePool

    def this(plan: Future[PlanAnswer], settings: (String, String)*) =
      this((_: MapSample) => plan, settings: _*)

    private val conf = new SparkConf(false).set("spark.lodestone.push.batchSize", "64k")
      .set("spark.lodestone.push.maxBlockSize", "1k").setAll(settings)
    val driver = new Driver(answer)
    private val parsed = LodestoneConf(conf)
    val client = new ServiceClient(Application("app", -1), parsed.requestTimeoutMs)
    val buffers = new SegmentBuffers(parsed.pushBatchSizeBytes.toInt, parsed.pushMemoryBytes, pool)
    val pusher = new BlockPusher(
      parsed,
      client,
      driver,
      new PlanCache(driver),
      buffers,
      () => 123,
      new Random(1))
    closing ::= { () =>
      pusher.stop()
      client.close()
    }
  }

  private def target(answer: (Int, PushBatch) => PushTarget.Reaction): PushTarget = {
    val made = new PushTarget(answer)
    closing = closing :+ (() => made.close())
    made
  }

  private def planOf(partitions: Int, targets: PushTarget*): Future[PlanAnswer] =
    Future.successful(
      ShufflePlan(
        generation = 0,
        partitions,
        replicas = 1,
        Array(targets.map(_.location).toArray),
        maxBlockBytes = 1024))

  /** With a limit of blocks that is beyond what a map has. */
  private def unlimited(partitions: Int, service: PushTarget): Future[PlanAnswer] =
    Future.successful(ShufflePlan(0, partitions, replicas = 1, Array(Array(service.location))))

  private def output(lengths: Array[Long], mapIndex: Int = 4): MapOutput = {
    val bytes = new Array[Byte](lengths.sum.toInt)
    new Random(5).nextBytes(bytes)
    val file = Files.write(Files.createTempFile(directory, "map", ".data"), bytes).toFile
    MapOutput(generation, mapIndex, 1L << 40, lengths, counted(lengths), () => file)
  }

  /** One record per byte. */
  private def counted(lengths: Array[Long]): Option[RecordCounts] = {
    val records = new RecordCounts(lengths.length)
    for ((length, reduceId) <- lengths.zipWithIndex; _ <- 0L until length) records.add(reduceId)
    Some(records)
  }

  private val shuffle = ShuffleAddress(Application("app", -1), 7, generation.shuffleId, 0)
  private val abort = AbortMap(shuffle, 4, 1L << 40)

  /** Returns the commits and aborts that the service has received, if it answers. */
  private def endsAt(service: PushTarget, setup: Setup): Seq[Message] = {
    val last = setup.client.abortMap(service.location, generation, 99, 99)
    Await.result(last, 20.seconds)
    val all = service.ends.toArray(Array.empty[Message]).toSeq
    assertEquals(AbortMap(shuffle, 99, 99), all.last)
    all.init
  }

  private def accepting: PushTarget = target((_, batch) => PushTarget.all(Status.Ok, batch))

  @Test def whatArrivesIsTheBytesOfTheFileWithTheirChecksums(): Unit = {
    val service = accepting
    val setup = new Setup(planOf(4, service))
    val map = output(Array(10, 0, 300, 20))
    setup.pusher.push(map)
    assertEquals(PushCounts(3, 330, 1, Map.empty), setup.driver.counts())
    val (batch, body) = service.arrived.poll(10, TimeUnit.SECONDS)
    assertEquals(Files.readAllBytes(map.dataFile().toPath).toSeq, body.toSeq)
    val lengths = batch.segments.toSeq.map(segment => segment.reduceId -> segment.length)
    assertEquals(Seq(0 -> 10, 2 -> 300, 3 -> 20), lengths)
    assertEquals(Seq(10, 300, 20), batch.segments.map(_.records).toSeq)
    val checksum = Crc32c.of(ByteBuffer.wrap(body, 10, 300))
    assertEquals(checksum, batch.segments(1).crc32c)
    assertEquals((4, 1L << 40), (batch.mapIndex, batch.mapId))
    assertEquals(0, setup.buffers.usedBytes)
  }

  @Test def `a map that needs one request commits with it`(): Unit = {
    val service = accepting
    val setup = new Setup(planOf(4, service))
    setup.pusher.push(output(Array(10, 0, 300, 20)))
    assertEquals(PushCounts(3, 330, 1, Map.empty), setup.driver.counts())
    assertEquals(Seq.empty, endsAt(service, setup), "there is no need to ask again")
    assertTrue(service.arrived.poll()._1.isWhole)
  }

  @Test def `a map whose only request did not commit it asks for the commit of what is there`()
      : Unit = {
    val service = target { (_, batch) =>
      val statuses = Array[Status](Status.Ok, Status.DiskFull, Status.DiskFull)
      PushTarget.Answer(PushBatchReply(7, isCommitted = false, statuses))
    }
    val setup = new Setup(planOf(3, service))
    setup.pusher.push(output(Array(10, 300, 20)))
    assertEquals(PushCounts(1, 10, 1, Map("PUSH_DISK_FULL" -> 2L)), setup.driver.counts())
    val taken = service.arrived.poll()._1.segments.head
    val commit = CommitMap(shuffle, 4, 1L << 40, Ledger.of(4, 1L << 40, taken))
    assertEquals(Seq(commit), endsAt(service, setup))
  }

  @Test def blocksForWhichTheJvmHasNoDirectMemoryAreReadFromTheOriginals(): Unit = {
    var asked = 0
    val settings = "spark.lodestone.push.batchSize" -> "512k"
    val setup = new Setup(planOf(300, accepting), settings) {
      override protected def pool: PiecePool = new PiecePool(() => {
        asked += 1
        if (asked == 1) throw new OutOfMemoryError("Cannot reserve")
        else Unpooled.directBuffer(PiecePool.PieceBytes, PiecePool.PieceBytes)
      })
    }
    val lengths = Array.fill(300)(1000L)
    setup.pusher.push(output(lengths))
    val unread = Map("PUSH_READ_FAILED" -> 300L)
    assertEquals(PushCounts(0, 0, 0, unread), setup.driver.counts())
    assertEquals(0, setup.buffers.usedBytes)
    setup.pusher.push(output(lengths, mapIndex = 5))
    assertEquals(PushCounts(300, 300000, 1, Map.empty), setup.driver.counts())
  }

  @Test def eachRefusedBlockIsCountedWithItsReason(): Unit = {
    val service = target { (_, batch) =>
      val statuses = Array[Status](Status.Duplicate, Status.Aborted, Status.DiskFull)
      PushTarget.Answer(PushBatchReply(
        7,
        isCommitted = false,
        statuses.take(batch.segments.length)))
    }
    val setup = new Setup(planOf(4, service))
    setup.pusher.push(output(Array(10, 10, 10, 2000)))
    val unpushed = Map("PUSH_ABORTED" -> 1L, "PUSH_DISK_FULL" -> 1L, "BLOCK_TOO_LARGE" -> 1L)
    assertEquals(PushCounts(1, 10, 1, unpushed), setup.driver.counts())
  }

  @Test def damagedBytesAreSentOnceMoreAndNotAThirdTime(): Unit = {
    val healing = target { (before, batch) =>
      PushTarget.all(if (before == 0) Status.ChecksumMismatch else Status.Ok, batch)
    }
    val setup = new Setup(planOf(1, healing))
    setup.pusher.push(output(Array(10)))
    assertEquals(PushCounts(1, 10, 2, Map.empty), setup.driver.counts())

    val broken = target((_, batch) => PushTarget.all(Status.ChecksumMismatch, batch))
    val hopeless = new Setup(planOf(1, broken))
    hopeless.pusher.push(output(Array(10)))
    val counts = PushCounts(0, 0, 2, Map("PUSH_CHECKSUM_MISMATCH" -> 1L))
    assertEquals(counts, hopeless.driver.counts())
    assertEquals(0, hopeless.buffers.usedBytes)
  }

  @Test def aBusyServiceIsAskedOnceMore(): Unit = {
    val busy = Refused(Status.Overloaded, 7, "no memory")
    val service = target { (before, batch) =>
      if (before == 0) PushTarget.Answer(busy) else PushTarget.all(Status.Ok, batch)
    }
    val setup = new Setup(planOf(1, service))
    setup.pusher.push(output(Array(10)))
    assertEquals(PushCounts(1, 10, 2, Map.empty), setup.driver.counts())

    val hopeless = new Setup(planOf(1, target((_, _) => PushTarget.Answer(busy))))
    val notPushed = Map("PUSH_OVERLOADED" -> 1L)
    (4 to 5).foreach { mapIndex =>
      hopeless.pusher.push(output(Array(10), mapIndex))
      val counts = hopeless.driver.counts()
      assertEquals(PushCounts(0, 0, 2, notPushed), counts, "it is tried by each map")
    }
  }

  @Test def aServiceThatIsIllOrOnItsWayOutGetsNothingMoreOfTheShuffle(): Unit =
    Seq(
      Status.DiskFull,
      Status.DiskFailed,
      Status.Draining,
      Status.UnknownShuffle,
      Status.Malformed,
      Status.Internal).foreach { status =>
      val service = target((_, _) => PushTarget.Answer(Refused(status, 7, "no")))
      val setup = new Setup(planOf(1, service))
      val reason = PushReason.of(status).code
      Seq(1L, 0L).foreach { requests =>
        setup.pusher.push(output(Array(10)))
        val expected = PushCounts(0, 0, requests, Map(reason -> 1L))
        assertEquals(expected, setup.driver.counts())
      }
    }

  @Test def aLostConnectionIsMadeAgainOnce(): Unit = {
    val service = target { (before, batch) =>
      if (before == 0) PushTarget.HangUp else PushTarget.all(Status.Ok, batch)
    }
    val setup = new Setup(planOf(1, service))
    setup.pusher.push(output(Array(10)))
    assertEquals(PushCounts(1, 10, 2, Map.empty), setup.driver.counts())
  }

  /**
   * A map of two blocks, of which the service takes the first one. The other one is pushed after
   * that, and answered so.
   */
  private final class TwoBlocks(answer: (Int, PushBatch) => PushTarget.Reaction) {
    val service: PushTarget = target { (before, batch) =>
      if (before == 0) PushTarget.all(Status.Ok, batch) else answer(before - 1, batch)
    }

    // There is room for one block at a time.
    private val setup = new Setup(
      unlimited(2, service),
      "spark.lodestone.push.maxBlockSize" -> "64k",
      "spark.lodestone.push.memory" -> "64k",
      "spark.lodestone.request.timeout" -> "500ms")
    setup.pusher.push(output(Array(60000, 60000)))
    val counts: PushCounts = setup.driver.counts()

    /** That the attempt commits so many of its blocks, in the order of their pushes. */
    def commits(blocks: Int): Seq[Message] = {
      val batches = service.arrived.toArray(Array.empty[(PushBatch, Array[Byte])]).toSeq.map(_._1)
      val segments = batches.flatMap(_.segments).distinct.take(blocks)
      val ledger = segments.map(Ledger.of(4, 1L << 40, _)).reduce(_.and(_))
      Seq(CommitMap(shuffle, 4, 1L << 40, ledger))
    }

    def ends: Seq[Message] = endsAt(service, setup)
  }

  @Test def `an attempt does not commit where it is not known whether a block is there`(): Unit =
    Seq(PushTarget.Silence, PushTarget.HangUp).foreach { trouble =>
      val map = new TwoBlocks((_, _) => trouble)
      assertEquals(0, map.service.ends.size, "it is not asked, as it does not answer")
      assertEquals(0, map.counts.blocks)
    }

  @Test def `a refusal does not show what the same push did before`(): Unit =
    for (status <- Seq(Status.TooLate, Status.DiskFull)) {
      def after(answer: PushBatch => PushTarget.Reaction) = new TwoBlocks((before, batch) =>
        if (before == 0) PushTarget.HangUp else answer(batch))
      assertEquals(Seq(abort), after(PushTarget.all(status, _)).ends)
      assertEquals(Seq(abort), after(_ => PushTarget.Answer(Refused(status, 7, "no"))).ends)
      val answered = after(PushTarget.all(Status.Duplicate, _))
      assertEquals(answered.commits(2), answered.ends, "this does")
    }

  @Test def `an answer shows which blocks are there, also a refusal`(): Unit =
    for (status <- Seq(Status.Ok, Status.DiskFull, Status.Aborted, Status.Overloaded)) {
      val answered = new TwoBlocks((_, batch) => PushTarget.all(status, batch))
      val blocks = if (status.isSuccess) 2 else 1
      assertEquals(answered.commits(blocks), answered.ends, status.name)
      if (!status.isSuccess) {
        val refused = new TwoBlocks((_, _) => PushTarget.Answer(Refused(status, 7, "no")))
        assertEquals(refused.commits(1), refused.ends, status.name)
      }
    }

  @Test def `a service that has another block in the place of ours is not asked again`(): Unit = {
    val service = target((_, batch) => PushTarget.all(Status.OtherContent, batch))
    val setup = new Setup(planOf(1, service))
    for (requests <- Seq(1L, 0L)) {
      setup.pusher.push(output(Array(10)))
      val expected = PushCounts(0, 0, requests, Map("PUSH_SERVICE_ERROR" -> 1L))
      assertEquals(expected, setup.driver.counts())
    }
    assertEquals(Seq(abort), endsAt(service, setup), "only the first map has sent anything")
  }

  @Test def nothingMoreOfAMapIsSentOnceItIsTooLate(): Unit = {
    val service = target((_, _) => PushTarget.Answer(Refused(Status.TooLate, 7, "removed")))
    // Ten requests of one block each, of which at most those in flight are sent in vain.
    val setup = new Setup(
      unlimited(30, service),
      "spark.lodestone.push.batchSize" -> "64k",
      "spark.lodestone.push.maxBlockSize" -> "64k",
      "spark.lodestone.push.memory" -> "64k")
    setup.pusher.push(output(Array.fill(30)(60000L)))
    val counts = setup.driver.counts()
    assertEquals(Map("PUSH_TOO_LATE" -> 30L), counts.unpushed)
    assertTrue(counts.requests <= 3, s"${counts.requests} requests")
  }

  @Test def aServiceThatLostTheShuffleIsLeftAloneByLaterMaps(): Unit = {
    val service = target((_, _) => PushTarget.Answer(Refused(Status.StaleIncarnation, 8, "new")))
    val setup = new Setup(planOf(1, service))
    setup.pusher.push(output(Array(10)))
    assertEquals(Map("PUSH_SERVICE_RESTARTED" -> 1L), setup.driver.counts().unpushed)
    setup.pusher.push(output(Array(10), mapIndex = 5))
    assertEquals(
      PushCounts(0, 0, 0, Map("PUSH_SERVICE_RESTARTED" -> 1L)),
      setup.driver.counts())
  }

  @Test def aSilentServiceCostsOneTimeoutAndIsSkippedThen(): Unit = {
    val service = target((_, _) => PushTarget.Silence)
    val setup = new Setup(planOf(1, service), "spark.lodestone.request.timeout" -> "200ms")
    setup.pusher.push(output(Array(10)))
    assertEquals(
      PushCounts(0, 0, 1, Map("PUSH_CONNECTION_FAILED" -> 1L)),
      setup.driver.counts())
    setup.pusher.push(output(Array(10), mapIndex = 5))
    assertEquals(
      PushCounts(0, 0, 0, Map("PUSH_SERVICE_SUSPECT" -> 1L)),
      setup.driver.counts())
    assertEquals(0, setup.buffers.usedBytes)
  }

  @Test def aMapOutputThatVanishedOrIsCutIsReportedAsUnreadable(): Unit = {
    val setup = new Setup(planOf(2, accepting))
    val gone = output(Array(10, 10)).copy(dataFile = () => new File(directory.toFile, "gone"))
    setup.pusher.push(gone)
    assertEquals(
      PushCounts(0, 0, 0, Map("PUSH_READ_FAILED" -> 2L)),
      setup.driver.counts())
    val whole = output(Array(10, 10))
    setup.pusher.push(whole.copy(lengths = Array(10, 11)))
    assertEquals(
      PushCounts(0, 0, 0, Map("PUSH_READ_FAILED" -> 2L)),
      setup.driver.counts())
    assertEquals(0, setup.buffers.usedBytes)
    setup.pusher.push(whole)
    val pushed = PushCounts(2, 20, 1, Map.empty)
    assertEquals(pushed, setup.driver.counts(), "the service was blamed for our own disk")
  }

  @Test def `a class of another Spark fails a push and no executor`(): Unit = {
    val setup = new Setup(planOf(2, accepting))
    val other = output(Array(10, 10))
      .copy(dataFile = () => throw new NoSuchMethodError("of another release of Spark"))
    val said = LogCapture.lines(Level.ERROR, "BlockPusher") {
      setup.pusher.push(other)
      assertEquals(0, setup.driver.counts().blocks)
    }
    // What is not logged has left the thread.
    assertEquals(1, said.size, said.toString)
  }

  @Test def aMapThatIsNotMergedIsReportedWithTheDriversReason(): Unit = {
    val setup = new Setup(Future.successful(NoPlan(Reason.NoService)))
    setup.pusher.push(output(Array(10, 0, 10)))
    assertEquals(PushCounts(0, 0, 0, Map("NO_SERVICE" -> 2L)), setup.driver.counts())
  }

  @Test def whenTheDriverLeavesAShuffleForNowItIsAskedAgainEachTimeTwiceAsManyMapsAreKnown()
      : Unit = {
    val service = accepting
    val setup = new Setup(sample =>
      if (sample.maps < 4) Future.successful(NoPlan(Reason.LargeBlocks, forNow = true))
      else planOf(3, service))
    val map = output(Array(10, 0, 10))
    val nothing = PushCounts(0, 0, 0, Map.empty)
    val counts = (0 until 6).map { index =>
      setup.pusher.push(map.copy(mapIndex = index))
      setup.driver.counts()
    }
    assertEquals(Seq(1, 2, 4), setup.driver.asked.toArray(Array.empty[MapSample]).map(_.maps).toSeq)
    assertEquals(MapSample(1, 2, 20, 123), setup.driver.asked.poll())
    assertEquals(MapSample(2, 4, 40, 123), setup.driver.asked.poll())
    assertEquals(Seq.fill(3)(nothing), counts.take(3), "a map that is left is reported as over")
    assertEquals(Seq(2L, 2L, 2L), counts.drop(3).map(_.blocks))
  }

  @Test def mapsThatFindTheQueueFullAreReportedAtOnceAndTheOthersArePushed(): Unit = {
    val plan = Promise[PlanAnswer]()
    val setup = new Setup(plan.future)
    val maps = 600
    val lengths = Array(10L)
    val file = output(lengths)
    (0 until maps).foreach(index => setup.pusher.push(file.copy(mapIndex = index)))
    assertEquals(
      PushCounts(0, 0, 0, Map("PUSH_QUEUE_FULL" -> 1L)),
      setup.driver.counts())
    plan.completeWith(planOf(1, accepting))
    val others = (1 until maps).map(_ => setup.driver.counts())
    val pushed = others.count(_.blocks == 1)
    val full = others.count(_.unpushed.contains("PUSH_QUEUE_FULL"))
    assertEquals(maps - 1, pushed + full)
    assertTrue(pushed >= 512, s"$pushed maps were pushed")
    assertTrue(setup.driver.reports.isEmpty)
  }

  @Test def mapsOfVeryManyPartitionsThatWaitTakeTheMemoryOfAFewAndNotOfAll(): Unit = {
    val plan = Promise[PlanAnswer]()
    val setup = new Setup(plan.future)
    val partitions = 300000
    val lengths = new Array[Long](partitions)
    lengths(7) = 10
    val map = output(lengths)
    assertTrue(2L * lengths.length * 16 > BlockPusher.MaxWaitingBytes, "two are too large together")
    val maps = 8
    (0 until maps).foreach(index => setup.pusher.push(map.copy(mapIndex = index)))
    plan.completeWith(planOf(partitions, accepting))
    val all = (1 to maps).map(_ => setup.driver.counts())
    val pushed = all.count(_.blocks == 1)
    val full = all.count(_.unpushed.contains("PUSH_QUEUE_FULL"))
    assertEquals(maps, pushed + full)
    // One map that waits alone may be large; besides it each of two workers has taken one at most.
    assertTrue(pushed >= 1 && pushed <= 3, s"$pushed maps were pushed")
    setup.pusher.push(map.copy(mapIndex = maps))
    assertEquals(1, setup.driver.counts().blocks, "there is room again")
  }

  @Test def whatWasForgottenIsNotSent(): Unit = {
    val plan = Promise[PlanAnswer]()
    val service = accepting
    val setup = new Setup(plan.future)
    val asked = new CountDownLatch(1)
    val map = output(Array(10))
    setup.pusher.push(map.copy(dataFile = () => {
      asked.countDown()
      setup.pusher.forget(generation.shuffleId)
      map.dataFile()
    }))
    plan.completeWith(planOf(1, service))
    assertEquals(
      PushCounts(0, 0, 0, Map("PUSH_UNKNOWN_SHUFFLE" -> 1L)),
      setup.driver.counts())
    assertTrue(asked.await(10, TimeUnit.SECONDS))
    assertTrue(service.arrived.isEmpty)
  }

  @Test def anAttemptThatSparkDidNotAcceptIsNoErrorOfTheService(): Unit = {
    val service = target((_, batch) => PushTarget.all(Status.Aborted, batch))
    val setup = new Setup(planOf(300, service))
    setup.pusher.push(output(Array.fill(300)(1000L)))
    assertEquals(Map("PUSH_ABORTED" -> 300L), setup.driver.counts().unpushed)
  }

  @Test def aTaskThreadDoesNotWaitForTheQuestionOfAnother(): Unit = {
    val (asked, answered) = (new CountDownLatch(1), new CountDownLatch(1))
    val setup = new Setup((_: MapSample) => {
      asked.countDown()
      answered.await()
      Future.never
    })
    // So large that the second one is refused while the first one waits.
    def large(mapIndex: Int): MapOutput = {
      val lengths = new Array[Long](600000)
      lengths(3) = 10
      MapOutput(generation, mapIndex, mapIndex.toLong, lengths, records = None, () => null)
    }
    setup.pusher.push(large(1))
    asked.await()
    val pushed = Future((2 to 6).foreach(i => setup.pusher.push(large(i))))(
      ExecutionContext.global)
    try Await.result(pushed, 10.seconds)
    finally answered.countDown()
  }
}
