// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.nio.ByteBuffer
import java.nio.file.Path
import java.util.{Arrays, Properties, SplittableRandom}
import java.util.concurrent.{ConcurrentLinkedQueue, Executors, TimeUnit}
import java.util.concurrent.atomic.AtomicReference

import scala.concurrent.{Await, ExecutionContext, Future}
import scala.concurrent.duration.DurationInt
import scala.jdk.CollectionConverters._
import scala.util.Try

import org.junit.jupiter.api._
import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows, assertTrue}
import org.junit.jupiter.api.TestInstance.Lifecycle
import org.junit.jupiter.api.io.TempDir

import org.apache.spark._
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.shuffle.lodestone.{DaemonProcess, LocalSpark}
import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.engine.FramePush
import org.apache.spark.shuffle.lodestone.executor.link.PlanCache
import org.apache.spark.shuffle.lodestone.executor.push.{MapAttempt, PushTarget, SegmentBuffers}
import org.apache.spark.shuffle.lodestone.plan._
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Application, MapRange, ShuffleMode, Status}

/** What an engine may do with a push, and when: from any thread, in any state. */
@TestInstance(Lifecycle.PER_CLASS)
final class RemoteFramePushSuite {
  private val pool = Executors.newCachedThreadPool()
  private implicit val threads: ExecutionContext = ExecutionContext.fromExecutor(pool)
  private val partitions = 10
  private val id = ShuffleGeneration(3, 0)
  private val client = new ServiceClient(Application("app", -1), 10000)
  private val reports = new ConcurrentLinkedQueue[DriverMessage]()
  private var spark: SparkContext = _
  private var daemons = Seq.empty[DaemonProcess]
  private var services = Seq.empty[ServiceLocation]

  @BeforeAll def start(@TempDir directory: Path): Unit = {
    spark = new SparkContext(LocalSpark.conf("frame-push", master = "local[1]"))
    daemons = Seq("one", "two").map(name => DaemonProcess.start(directory.resolve(name).toFile))
    services = daemons.map(_.location)
    for (service <- services) {
      val registered = client.registerShuffle(service, id, 100, partitions, ShuffleMode.Remote)
      Await.result(registered, 20.seconds)
    }
  }

  @AfterAll def stop(): Unit = {
    pool.shutdown()
    client.close()
    daemons.foreach(_.stop())
    spark.stop()
  }

  private class Driver extends SilentDriver {
    val troubles = new ConcurrentLinkedQueue[ServiceTrouble]()
    def next: PlanAnswer = NoPlan(Reason.NoService)
    override def plan(asked: GetPlan): Future[PlanAnswer] = {
      asked.trouble.foreach(troubles.add)
      Future.successful(next)
    }
  }

  private def newMeans(
      bufferBytes: Int = 1 << 20,
      pushBytes: Long = 8L << 20,
      waitingBytes: Long = 8L << 20): FrameMeans =
    new FrameMeans(new SegmentBuffers(bufferBytes, pushBytes), waitingBytes, pushBytes)

  /** The attempt of a map, and its task. */
  private final class Attempt(
      means: FrameMeans,
      mapIndex: Int,
      driver: Driver = new Driver,
      at: Seq[ServiceLocation] = services) {
    private val memory = new TaskMemoryManager(UnifiedMemoryManager(new SparkConf(false), 1), 0)
    val context = new TaskContextImpl(0, 0, mapIndex, 7, 0, 2, memory, new Properties, null)
    val push: FramePush = {
      val rows = spark.parallelize(0 until 2, 2).map(x => (x, x))
      val dependency = new ShuffleDependency[Int, Int, Int](rows, new HashPartitioner(partitions))
      val retryPolicy = new RetryPolicy(10000, _ => None)
      val pushMeans = PushMeans(client, new PlanCache(driver), retryPolicy, retryPolicy)
      val plan = ShufflePlan(0, partitions, replicas = 1, Array(at.toArray))
      val attempt = MapAttempt(id.shuffleId, 0, mapIndex, 100L + mapIndex)
      new RemoteFramePush(
        dependency,
        means,
        context,
        context.taskMetrics.shuffleWriteMetrics,
        message => { reports.add(message); () })(alive =>
        new RequiredPush(attempt, plan, pushMeans, alive))
    }

    def end(): Unit = {
      context.markTaskCompleted(None)
      assertEquals(0L, memory.getMemoryConsumptionForThisTask, "the task keeps memory of Spark")
    }
  }

  /** The bytes of each partition that services show of a map. */
  private def shown(mapIndex: Int): Seq[Long] = {
    val layouts = services.flatMap { service =>
      val maps = MapRange(mapIndex, mapIndex + 1)
      val asked = client.layout(service, id, maps, (0 until partitions).toArray, partitions)
      Await.result(asked, 20.seconds).partitions
    }
    (0 until partitions).map { reduceId =>
      layouts.filter(_.reduceId == reduceId).flatMap(_.runs).flatMap(_.segments)
        .map(_.length.toLong).sum
    }
  }

  private def requestsOf(mapIndex: Int): Long = {
    val requests = reports.toArray().collect {
      case pushed: MapPushed if pushed.mapIndex == mapIndex => pushed.counts.requests
    }
    requests.sum
  }

  private def assertFree(means: FrameMeans): Unit = {
    val endNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(20)
    // Answers of services give it back.
    while (means.buffers.usedBytes > 0 && System.nanoTime() < endNs) Thread.`yield`()
    assertEquals(0L, means.buffers.usedBytes)
    assertEquals(0L, means.waiting.usedBytes)
    assertEquals(0L, means.reservations.usedBytes)
  }

  private def saying[T <: Throwable](kind: Class[T], what: String)(act: => Any): Unit = {
    val thrown = assertThrows(kind, () => { act; () })
    assertTrue(thrown.getMessage.contains(what), thrown.toString)
  }

  @Test def `frames in any order of partitions come in few requests and each once`(): Unit = {
    val seed = System.nanoTime()
    println(s"frames of seed $seed")
    val random = new SplittableRandom(seed)
    val means = newMeans()
    val one = new Attempt(means, mapIndex = 0)
    val expected = new Array[Long](partitions)
    val array = new Array[Byte](2000)
    for (_ <- 1 to 10000) {
      val (partition, length) = (random.nextInt(partitions), random.nextInt(300))
      expected(partition) += length
      one.push.push(partition, array, random.nextInt(1000), length)
    }
    assertEquals(expected.toSeq, one.push.partitionLengths().toSeq)
    one.push.commit()
    one.end()
    assertEquals(expected.toSeq, shown(0))
    assertTrue(requestsOf(0) <= 8, s"${requestsOf(0)} requests for 1.5 MB")
    assertFree(means)
  }

  @Test def `a frame larger than a request takes no memory before it ends its attempt`(): Unit = {
    val means = newMeans()
    val driver = new Driver
    val one = new Attempt(means, mapIndex = 1, driver)
    val frame = ByteBuffer.allocateDirect(FramePush.MAX_FRAME_BYTES + 1)
    val other = means.buffers.reserve(() => ())
    val before = means.buffers.usedBytes
    val ended = Try(one.push.push(5, frame))
    assertEquals(classOf[TaskKilledException], ended.failed.get.getClass, ended.toString)
    assertEquals(before, means.buffers.usedBytes)
    assertEquals(1, driver.troubles.size)
    assertEquals(Reason.PushTooLarge, driver.troubles.peek().reason)
    assertTrue(ended.failed.get eq one.push.causeOf(new RuntimeException("of native code")))
    one.end()
    other.release()
    assertFree(means)
  }

  @Test def `a call after the end is an error that says so`(): Unit = {
    val means = newMeans()
    val one = new Attempt(means, mapIndex = 2)
    one.push.push(3, Array[Byte](1, 2, 3), 0, 3)
    val status = one.push.commit()
    assertTrue(status.getSizeForBlock(3) > 0)
    saying(classOf[IllegalStateException], "has committed")(one.push.commit())
    saying(classOf[IllegalStateException], "has committed")(one.push.reserve(1))
    one.end()
    assertEquals(3L, shown(2)(3))
    one.push.abort()
    saying(classOf[IllegalStateException], "was aborted")(one.push.push(3, Array[Byte](1), 0, 0))
    one.push.abort()
    assertFree(means)
  }

  @Test def `an output is taken back if the engine pushes a frame after its commit`(): Unit = {
    val means = newMeans()
    val one = new Attempt(means, mapIndex = 3)
    one.push.push(3, Array[Byte](1, 2, 3), 0, 3)
    one.push.commit()
    assertEquals(3L, shown(3)(3))
    saying(classOf[IllegalStateException], "has committed")(one.push.push(3, Array[Byte](1), 0, 1))
    val endNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(20)
    while (shown(3).sum > 0 && System.nanoTime() < endNs) Thread.`yield`()
    assertEquals(0L, shown(3).sum)
    one.end()
    assertFree(means)
  }

  @Test def `an announcement of more than a frame may have counts as the largest frame`(): Unit = {
    val means = newMeans()
    val one = new Attempt(means, mapIndex = 7)
    one.push.reserve(Int.MaxValue)
    assertEquals(FramePush.MAX_FRAME_BYTES.toLong, means.reservations.usedBytes)
    one.push.push(3, Array[Byte](1), 0, 1)
    one.push.commit()
    one.end()
    assertEquals(1L, shown(7).sum)
    assertFree(means)
  }

  @Test def `an engine that goes on after a call has failed commits nothing`(): Unit = {
    val means = newMeans()
    def failing(mapIndex: Int, kind: Class[_ <: Throwable])(act: FramePush => Unit): Unit = {
      val one = new Attempt(means, mapIndex)
      one.push.push(3, Array[Byte](1), 0, 1)
      assertThrows(kind, () => act(one.push))
      saying(classOf[IllegalStateException], "has failed")(one.push.push(3, Array[Byte](1), 0, 1))
      saying(classOf[IllegalStateException], "has failed")(one.push.commit())
      one.end()
    }
    val bytes = new Array[Byte](10)
    failing(30, classOf[IllegalArgumentException])(_.push(partitions, bytes, 0, 1))
    failing(31, classOf[IllegalArgumentException])(_.push(-1, bytes, 0, 1))
    failing(32, classOf[IndexOutOfBoundsException])(_.push(1, bytes, 5, 6))
    failing(33, classOf[IllegalArgumentException])(_.reserve(-1))
    assertFree(means)
  }

  @Test def `what an engine throws is its own failure unless the push or a kill is the cause`()
      : Unit = {
    val one = new Attempt(newMeans(), mapIndex = 4)
    val own = new RuntimeException("of native code")
    assertTrue(own eq one.push.causeOf(own))
    one.push.abort()
    assertTrue(own eq one.push.causeOf(own), "Spark would run what fails again and again")
    one.context.markInterrupted("by Spark")
    assertEquals(classOf[TaskKilledException], one.push.causeOf(own).getClass)
    one.end()
  }

  /** A call that waits for memory, and how it ends after `act`. */
  private def waiting(mapIndex: Int)(act: Attempt => Unit): Throwable = {
    val means = newMeans(bufferBytes = 256 << 10, pushBytes = 256L << 10)
    val other = means.buffers.reserve(() => ())
    val one = new Attempt(means, mapIndex)
    one.push.push(1, new Array[Byte](100), 0, 100)
    one.push.reserve(100)
    val pushing = new AtomicReference[Thread]
    val large = Future {
      pushing.set(Thread.currentThread)
      one.push.push(2, new Array[Byte](100 << 10), 0, 100 << 10)
    }
    val endNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(20)
    def isWaiting = Option(pushing.get).exists(_.getState == Thread.State.TIMED_WAITING)
    while (!isWaiting && System.nanoTime() < endNs) Thread.`yield`()
    assertTrue(isWaiting)
    act(one)
    val ended = Await.ready(large, 20.seconds).value.get.failed.get
    one.end()
    other.release()
    assertFree(means)
    assertEquals(Seq.fill(partitions)(0L), shown(mapIndex))
    ended
  }

  @Test def `a killed task ends a call of another thread that waits and keeps no memory`(): Unit = {
    val ended = waiting(mapIndex = 5)(_.context.markInterrupted("by Spark"))
    assertEquals(classOf[TaskKilledException], ended.getClass, ended.toString)
  }

  @Test def `an abort ends a call of another thread that waits and keeps no memory`(): Unit = {
    val ended = waiting(mapIndex = 6)(_.push.abort())
    assertTrue(ended.getMessage.contains("was aborted"), ended.toString)
  }

  @Test def `tasks that together hold more frames than there is memory for all go on`(): Unit = {
    val means = newMeans(bufferBytes = 64 << 10, pushBytes = 256L << 10, waitingBytes = 192L << 10)
    val tasks = (10 until 14).map { mapIndex =>
      val one = new Attempt(means, mapIndex)
      // From two threads of its own.
      val pushing = Seq(0, 1).map(half =>
        Future {
          val frame = new Array[Byte](999)
          for (i <- 1 to 1000) one.push.push((i * 7 + half) % partitions, frame, 0, 999)
        })
      Future.sequence(pushing).map { _ =>
        one.push.commit()
        one.end()
        mapIndex
      }
    }
    for (task <- tasks) {
      assertEquals(2000L * 999, shown(Await.result(task, 60.seconds)).sum)
    }
    assertFree(means)
  }

  @Test def `frames that a full service refuses go to another one`(): Unit = {
    val full = new PushTarget((before, batch) =>
      PushTarget.all(if (before == 0) Status.Ok else Status.DiskFull, batch))
    val other = new PushTarget((_, batch) => PushTarget.all(Status.Ok, batch))
    try {
      val driver = new Driver {
        override def next: PlanAnswer = {
          val versions = Array(Array(full.location), Array(other.location))
          ShufflePlan(0, partitions, replicas = 1, versions)
        }
      }
      val means = newMeans()
      val one = new Attempt(means, mapIndex = 20, driver, Seq(full.location))
      val frame = new Array[Byte](300 << 10)
      Arrays.fill(frame, 7.toByte)
      for (partition <- 0 until 6) one.push.push(partition, frame, 0, frame.length)
      one.push.commit()
      one.end()
      assertEquals(Reason.PushDiskFull, driver.troubles.peek().reason)
      // The first request is one that the full service took.
      val taken = Iterator(full.arrived.peek()) ++ other.arrived.asScala
      assertEquals(6L * frame.length, taken.map(_._2.length.toLong).sum)
      assertEquals(Seq(1, 1), Seq(full, other).map(_.ends.size))
      assertFree(means)
    } finally {
      Seq(full, other).foreach(_.close())
    }
  }

  @Test def `announced frames keep others waiting but not for ever`(): Unit = {
    val some = new FrameReservations(10, TimeUnit.MILLISECONDS.toNanos(200))
    val first = some.take(12)(() => ())
    val beganNs = System.nanoTime()
    val second = some.take(5)(() => ())
    assertTrue(System.nanoTime() - beganNs >= TimeUnit.MILLISECONDS.toNanos(200))
    first.close()
    first.close()
    assertEquals(5L, some.usedBytes)
    some.take(5)(() => ()).close()
    second.close()
    assertEquals(0L, some.usedBytes)
    saying(classOf[TaskKilledException], "scripted") {
      some.take(1)(() =>
        throw new TaskKilledException("scripted") {
          override def getMessage: String = "scripted"
        })
    }
  }
}
