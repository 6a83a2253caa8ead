// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push

import java.io.File
import java.nio.ByteBuffer
import java.nio.file.{Files, Path}
import java.util.concurrent.{CountDownLatch, LinkedBlockingQueue, TimeUnit}

import scala.concurrent.{Future, Promise}
import scala.concurrent.duration.{DurationInt, FiniteDuration}
import scala.util.Random

import io.netty.buffer.Unpooled
import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertNotNull, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{HashPartitioner, SparkConf}
import org.apache.spark.shuffle.lodestone.{LodestoneConf, Reason}
import org.apache.spark.shuffle.lodestone.driver._
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire._

final class BlockPusherSuite {
  @TempDir var directory: Path = _
  private val generation = ShuffleGeneration(3, 0)
  private var closing = List.empty[() => Unit]

  @AfterEach def closeAll(): Unit = closing.foreach(_.apply())

  /** Answers by what has been seen, and keeps questions and reports. */
  private final class Driver(answer: MapSample => Future[DriverMessage]) extends DriverLink {
    val reports = new LinkedBlockingQueue[MapPushed]()
    val asked = new LinkedBlockingQueue[MapSample]()
    override def plan(
        generation: ShuffleGeneration,
        sample: MapSample): Future[DriverMessage] = {
      asked.add(sample)
      answer(sample)
    }
    override def result(generation: ShuffleGeneration): Future[DriverMessage] = Future.never
    override def distrust(
        generation: ShuffleGeneration,
        reduceId: Int,
        why: Reason): Future[Boolean] = Future.never
    override def counts(asked: GetCounts): Future[DriverMessage] = Future.never
    override def tell(message: DriverMessage): Unit = message match {
      case report: MapPushed => reports.add(report)
      case other => throw new IllegalStateException(s"$other is not for a pusher to send")
    }
    override def patience: FiniteDuration = 10.seconds

    /** The next report, and apart from it what each service acknowledged. */
    def accounts(): (PushCounts, Map[Int, Ledger]) = {
      val report = reports.poll(20, TimeUnit.SECONDS)
      assertNotNull(report, "no report came")
      unsure = report.counts.unsure
      val counts = report.counts.copy(acknowledged = Map.empty, unsure = Set.empty)
      (counts, report.counts.acknowledged)
    }

    /** The services of which nobody knows what they have, by the report that came last. */
    var unsure: Set[Int] = Set.empty

    def counts(): PushCounts = accounts()._1
  }

  private class Setup(
      answer: MapSample => Future[DriverMessage],
      settings: (String, String)*) {
    protected def memory: BodyMemory = new BodyMemory

    def this(plan: Future[DriverMessage], settings: (String, String)*) =
      this((_: MapSample) => plan, settings: _*)

    private val conf = new SparkConf(false).set("spark.lodestone.push.batchSize", "64k")
      .set("spark.lodestone.push.maxBlockSize", "1k").setAll(settings)
    val driver = new Driver(answer)
    private val parsed = LodestoneConf(conf)
    private val client = new ServiceClient(Application("app", -1), parsed.requestTimeoutMs)
    val pusher = new BlockPusher(parsed, client, driver, () => 123, new Random(1), memory)
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

  private def planOf(partitions: Int, targets: PushTarget*): Future[DriverMessage] =
    Future.successful(
      MergePlan(partitions, targets.map(_.location).toArray, maxBlockBytes = 1024))

  private def output(lengths: Array[Long], mapIndex: Int = 4): MapOutput = {
    val bytes = new Array[Byte](lengths.sum.toInt)
    new Random(5).nextBytes(bytes)
    val file = Files.write(Files.createTempFile(directory, "map", ".data"), bytes).toFile
    MapOutput(generation, mapIndex, 1L << 40, lengths, counted(lengths), () => file)
  }

  /** One record per byte. */
  private def counted(lengths: Array[Long]): RecordCounts = {
    val records = RecordCounts(new HashPartitioner(lengths.length))
    for ((length, reduceId) <- lengths.zipWithIndex) {
      records.counting(Iterator.fill(length.toInt)((reduceId, ()))).foreach(_ => ())
    }
    records
  }

  private def accepting: PushTarget = target((_, batch) => PushTarget.all(Status.Ok, batch))

  @Test def whatArrivesIsTheBytesOfTheFileWithTheirChecksums(): Unit = {
    val service = accepting
    val setup = new Setup(planOf(4, service))
    val map = output(Array(10, 0, 300, 20))
    setup.pusher.push(map)
    val (counts, acknowledged) = setup.driver.accounts()
    assertEquals(PushCounts(3, 330, 1, Map.empty, Map.empty), counts)
    val (batch, body) = service.arrived.poll(10, TimeUnit.SECONDS)
    assertEquals(Files.readAllBytes(map.dataFile().toPath).toSeq, body.toSeq)
    val lengths = batch.segments.toSeq.map(segment => segment.reduceId -> segment.length)
    assertEquals(Seq(0 -> 10, 2 -> 300, 3 -> 20), lengths)
    assertEquals(Seq(10, 300, 20), batch.segments.map(_.records).toSeq)
    val ledger = batch.segments.map(Ledger.of(4, 1L << 40, _)).reduce(_.and(_))
    assertEquals(Map(0 -> ledger), acknowledged)
    val checksum = Crc32c.of(ByteBuffer.wrap(body, 10, 300))
    assertEquals(checksum, batch.segments(1).crc32c)
    assertEquals((4, 1L << 40), (batch.mapIndex, batch.mapId))
    assertEquals(0, setup.pusher.bytesInFlight)
  }

  @Test def blocksForWhichTheJvmHasNoDirectMemoryAreReadFromTheOriginals(): Unit = {
    var asked = 0
    val settings = "spark.lodestone.push.batchSize" -> "512k"
    val setup = new Setup(planOf(300, accepting), settings) {
      override protected def memory: BodyMemory = new BodyMemory(() => {
        asked += 1
        if (asked == 1) throw new OutOfMemoryError("Cannot reserve") else Unpooled.directBuffer()
      })
    }
    val lengths = Array.fill(300)(1000L)
    setup.pusher.push(output(lengths))
    val unread = Map("PUSH_READ_FAILED" -> 300L)
    assertEquals(PushCounts(0, 0, 0, Map.empty, unread), setup.driver.counts())
    assertEquals(0, setup.pusher.bytesInFlight)
    setup.pusher.push(output(lengths, mapIndex = 5))
    assertEquals(PushCounts(300, 300000, 1, Map.empty, Map.empty), setup.driver.counts())
  }

  @Test def eachRefusedBlockIsCountedWithItsReason(): Unit = {
    val service = target { (_, batch) =>
      val statuses = Array[Status](Status.Duplicate, Status.OtherAttempt, Status.DiskFull)
      PushTarget.Answer(PushBatchReply(7, statuses.take(batch.segments.length)))
    }
    val setup = new Setup(planOf(4, service))
    setup.pusher.push(output(Array(10, 10, 10, 2000)))
    val unpushed = Map("PUSH_OTHER_ATTEMPT" -> 1L, "PUSH_DISK_FULL" -> 1L, "BLOCK_TOO_LARGE" -> 1L)
    assertEquals(PushCounts(1, 10, 1, Map.empty, unpushed), setup.driver.counts())
  }

  @Test def damagedBytesAreSentOnceMoreAndNotAThirdTime(): Unit = {
    val healing = target { (before, batch) =>
      PushTarget.all(if (before == 0) Status.ChecksumMismatch else Status.Ok, batch)
    }
    val setup = new Setup(planOf(1, healing))
    setup.pusher.push(output(Array(10)))
    assertEquals(PushCounts(1, 10, 2, Map.empty, Map.empty), setup.driver.counts())

    val broken = target((_, batch) => PushTarget.all(Status.ChecksumMismatch, batch))
    val hopeless = new Setup(planOf(1, broken))
    hopeless.pusher.push(output(Array(10)))
    val counts = PushCounts(0, 0, 2, Map.empty, Map("PUSH_CHECKSUM_MISMATCH" -> 1L))
    assertEquals(counts, hopeless.driver.counts())
    assertEquals(0, hopeless.pusher.bytesInFlight)
  }

  @Test def aBusyServiceIsAskedOnceMore(): Unit = {
    val busy = Refused(Status.Overloaded, 7, "no memory")
    val service = target { (before, batch) =>
      if (before == 0) PushTarget.Answer(busy) else PushTarget.all(Status.Ok, batch)
    }
    val setup = new Setup(planOf(1, service))
    setup.pusher.push(output(Array(10)))
    assertEquals(PushCounts(1, 10, 2, Map.empty, Map.empty), setup.driver.counts())

    val hopeless = new Setup(planOf(1, target((_, _) => PushTarget.Answer(busy))))
    val notPushed = Map("PUSH_OVERLOADED" -> 1L)
    (4 to 5).foreach { mapIndex =>
      hopeless.pusher.push(output(Array(10), mapIndex))
      val counts = hopeless.driver.counts()
      assertEquals(PushCounts(0, 0, 2, Map.empty, notPushed), counts, "it is tried by each map")
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
        val expected = PushCounts(0, 0, requests, Map.empty, Map(reason -> 1L))
        assertEquals(expected, setup.driver.counts())
      }
    }

  @Test def aLostConnectionIsMadeAgainOnce(): Unit = {
    val service = target { (before, batch) =>
      if (before == 0) PushTarget.HangUp else PushTarget.all(Status.Ok, batch)
    }
    val setup = new Setup(planOf(1, service))
    setup.pusher.push(output(Array(10)))
    assertEquals(PushCounts(1, 10, 2, Map.empty, Map.empty), setup.driver.counts())
  }

  /** The services of which nobody knows what they have, when a map of one block was answered so. */
  private def unsureAfter(answer: (Int, PushBatch) => PushTarget.Reaction): Set[Int] = {
    val setup =
      new Setup(planOf(1, target(answer)), "spark.lodestone.request.timeout" -> "500ms")
    setup.pusher.push(output(Array(10)))
    setup.driver.counts()
    setup.driver.unsure
  }

  @Test def `without an answer it is not known whether a block is there`(): Unit = {
    assertEquals(Set(0), unsureAfter((_, _) => PushTarget.Silence))
    assertEquals(Set(0), unsureAfter((_, _) => PushTarget.HangUp))
  }

  @Test def `a refusal does not tell what came of the same push before`(): Unit =
    for (status <- Seq(Status.TooLate, Status.DiskFull)) {
      def unsure(answer: PushBatch => PushTarget.Reaction) = unsureAfter { (before, batch) =>
        if (before == 0) PushTarget.HangUp else answer(batch)
      }
      assertEquals(Set(0), unsure(PushTarget.all(status, _)))
      assertEquals(Set(0), unsure(_ => PushTarget.Answer(Refused(status, 7, "no"))))
      assertEquals(Set(), unsure(PushTarget.all(Status.Duplicate, _)), "this does")
    }

  @Test def `an answer tells which blocks are there, also one that is a refusal`(): Unit =
    for (status <- Seq(Status.Ok, Status.DiskFull, Status.OtherAttempt, Status.Overloaded)) {
      assertEquals(Set(), unsureAfter((_, batch) => PushTarget.all(status, batch)), status.name)
      if (!status.isSuccess) {
        val refused = PushTarget.Answer(Refused(status, 7, "no"))
        assertEquals(Set(), unsureAfter((_, _) => refused), status.name)
      }
    }

  @Test def `a service that has another block in the place of ours is not asked again`(): Unit = {
    val service = target((_, batch) => PushTarget.all(Status.OtherContent, batch))
    val setup = new Setup(planOf(1, service))
    for (requests <- Seq(1L, 0L)) {
      setup.pusher.push(output(Array(10)))
      val expected = PushCounts(0, 0, requests, Map.empty, Map("PUSH_SERVICE_ERROR" -> 1L))
      assertEquals((expected, Map.empty), setup.driver.accounts())
      assertEquals(if (requests > 0) Set(0) else Set(), setup.driver.unsure)
    }
  }

  @Test def nothingMoreOfAMapIsSentOnceItIsTooLate(): Unit = {
    val service = target((_, _) => PushTarget.Answer(Refused(Status.TooLate, 7, "finalized")))
    // Ten requests of one block each, of which at most those in flight are sent in vain.
    val setup = new Setup(
      Future.successful(MergePlan(30, Array(service.location))),
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
      PushCounts(0, 0, 0, Map.empty, Map("PUSH_SERVICE_RESTARTED" -> 1L)),
      setup.driver.counts())
  }

  @Test def aSilentServiceCostsOneTimeoutAndIsSkippedThen(): Unit = {
    val service = target((_, _) => PushTarget.Silence)
    val setup = new Setup(planOf(1, service), "spark.lodestone.request.timeout" -> "200ms")
    setup.pusher.push(output(Array(10)))
    assertEquals(
      PushCounts(0, 0, 1, Map.empty, Map("PUSH_CONNECTION_FAILED" -> 1L)),
      setup.driver.counts())
    setup.pusher.push(output(Array(10), mapIndex = 5))
    assertEquals(
      PushCounts(0, 0, 0, Map.empty, Map("PUSH_SERVICE_SUSPECT" -> 1L)),
      setup.driver.counts())
    assertEquals(0, setup.pusher.bytesInFlight)
  }

  @Test def aMapOutputThatVanishedOrIsCutIsReportedAsUnreadable(): Unit = {
    val setup = new Setup(planOf(2, accepting))
    val gone = output(Array(10, 10)).copy(dataFile = () => new File(directory.toFile, "gone"))
    setup.pusher.push(gone)
    assertEquals(
      PushCounts(0, 0, 0, Map.empty, Map("PUSH_READ_FAILED" -> 2L)),
      setup.driver.counts())
    val whole = output(Array(10, 10))
    setup.pusher.push(whole.copy(lengths = Array(10, 11)))
    assertEquals(
      PushCounts(0, 0, 0, Map.empty, Map("PUSH_READ_FAILED" -> 2L)),
      setup.driver.counts())
    assertEquals(0, setup.pusher.bytesInFlight)
    setup.pusher.push(whole)
    val pushed = PushCounts(2, 20, 1, Map.empty, Map.empty)
    assertEquals(pushed, setup.driver.counts(), "the service was blamed for our own disk")
  }

  @Test def aMapThatIsNotMergedIsReportedWithTheDriversReason(): Unit = {
    val setup = new Setup(Future.successful(NotMerged("NO_SERVICE")))
    setup.pusher.push(output(Array(10, 0, 10)))
    assertEquals(PushCounts(0, 0, 0, Map.empty, Map("NO_SERVICE" -> 2L)), setup.driver.counts())
  }

  @Test def whenTheDriverLeavesAShuffleForNowItIsAskedAgainEachTimeTwiceAsManyMapsAreKnown()
      : Unit = {
    val service = accepting
    val setup = new Setup(sample =>
      if (sample.maps < 4) Future.successful(NotMerged("LARGE_BLOCKS", forNow = true))
      else planOf(3, service))
    val map = output(Array(10, 0, 10))
    val nothing = PushCounts(0, 0, 0, Map.empty, Map.empty)
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
    val plan = Promise[DriverMessage]()
    val setup = new Setup(plan.future)
    val maps = 600
    val lengths = Array(10L)
    val file = output(lengths)
    (0 until maps).foreach(index => setup.pusher.push(file.copy(mapIndex = index)))
    assertEquals(
      PushCounts(0, 0, 0, Map.empty, Map("PUSH_QUEUE_FULL" -> 1L)),
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
    val plan = Promise[DriverMessage]()
    val setup = new Setup(plan.future)
    val partitions = 300000
    val lengths = new Array[Long](partitions)
    lengths(7) = 10
    val map = output(lengths)
    assertTrue(2L * lengths.length * 16 > WaitingMaps.MaxBytes, "two are too large together")
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
    val plan = Promise[DriverMessage]()
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
      PushCounts(0, 0, 0, Map.empty, Map("PUSH_UNKNOWN_SHUFFLE" -> 1L)),
      setup.driver.counts())
    assertTrue(asked.await(10, TimeUnit.SECONDS))
    assertTrue(service.arrived.isEmpty)
  }
}
