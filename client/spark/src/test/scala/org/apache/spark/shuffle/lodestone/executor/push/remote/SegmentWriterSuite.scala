// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.io.{IOException, OutputStream}
import java.nio.file.Path

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.DurationInt
import scala.util.Try

import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows, assertTrue, fail}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{SparkConf, TaskKilledException}
import org.apache.spark.memory.{MemoryConsumer, TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.shuffle.lodestone.DaemonProcess
import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.executor.link.PlanCache
import org.apache.spark.shuffle.lodestone.executor.push.{MapAttempt, PiecePool, SegmentBuffers}
import org.apache.spark.shuffle.lodestone.plan.{GetPlan, PlanAnswer, ServiceLocation}
import org.apache.spark.shuffle.lodestone.plan.{ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Application, MapRange, ShuffleMode}

/** Rounds of segments, as two real daemons show them: the first one has the partitions 0 to 4. */
final class SegmentWriterSuite {
  @TempDir var directory: Path = _

  private val client = new ServiceClient(Application("app", -1), 10000)
  private var daemons = Seq.empty[DaemonProcess]
  private val id = ShuffleGeneration(3, 0)

  @AfterEach def stop(): Unit = {
    client.close()
    daemons.foreach(_.stop())
  }

  private def start(): Seq[ServiceLocation] = {
    daemons = Seq("one", "two").map(name => DaemonProcess.start(directory.resolve(name).toFile))
    val services = daemons.map(one => ServiceLocation(one.host, one.port, one.incarnation))
    for (service <- services) {
      Await.result(client.registerShuffle(service, id, 4, 10, ShuffleMode.Remote), 20.seconds)
    }
    services
  }

  private final class Driver extends SilentDriver {
    override def plan(asked: GetPlan): Future[PlanAnswer] =
      Future.failed(new IllegalStateException("nothing is wrong"))
  }

  private def pushTo(
      services: Seq[ServiceLocation],
      alive: () => Unit,
      partitions: Int = 10,
      mapIndex: Int = 0): RequiredPush = {
    val retryPolicy = new RetryPolicy(10000, _ => None)
    val means = PushMeans(client, new PlanCache(new Driver), retryPolicy, retryPolicy)
    val plan = ShufflePlan(0, partitions, replicas = 1, Array(services.toArray))
    new RequiredPush(MapAttempt(3, 0, mapIndex, 100), plan, means, alive)
  }

  private def memory =
    new TaskMemoryManager(UnifiedMemoryManager(new SparkConf(false), 1), 0)

  /**
   * Writes the output of `write`, and returns the sequence and the length of each segment that is
   * shown then, by partition.
   */
  private def shown(mapIndex: Int)(write: SegmentWriter => Unit): Map[Int, Seq[(Int, Int)]] = {
    val services = start()
    val push = pushTo(services, () => (), mapIndex = mapIndex)
    val writer = new SegmentWriter(push, newBuffers, 10, memory)
    try {
      write(writer)
      writer.end()
      push.commit()
    } finally {
      writer.close()
    }
    val reduceIds = (0 until 10).toArray
    val layouts = services.flatMap { service =>
      val layout = client.layout(service, id, MapRange.All, reduceIds, 10)
      Await.result(layout, 20.seconds).partitions
    }
    layouts.filter(_.runs.nonEmpty).map { layout =>
      // Batches may overtake one another on their way.
      val segments = layout.runs.toSeq.flatMap(_.segments).map(s => (s.sequence, s.length))
      layout.reduceId -> segments.sorted
    }.toMap
  }

  private def add(writer: SegmentWriter, reduceId: Int, length: Int): Unit = {
    val rank = writer.rankOf(reduceId)
    writer.expect(rank)
    writer.add(rank) { out =>
      out.write(new Array[Byte](length), 0, length)
      1
    }
  }

  private val BufferBytes = 64 << 10
  private def newBuffers = new SegmentBuffers(BufferBytes, 4 * BufferBytes)

  @Test def `of one round each segment says whether it is the last of its block`(): Unit = {
    val one = shown(mapIndex = 0) { writer =>
      writer.beginLastRound()
      add(writer, 0, 10)
      for (length <- Seq(50000, 50001, 50002)) add(writer, 3, length)
      add(writer, 9, 11)
    }
    val large = Seq(0 -> 50000, 2 -> 50001, 5 -> 50002)
    assertEquals(Map(0 -> Seq(1 -> 10), 3 -> large, 9 -> Seq(1 -> 11)), one)
  }

  @Test def `a block of which the last round has nothing gets an end without bytes`(): Unit = {
    val rounds = shown(mapIndex = 0) { writer =>
      for (reduceId <- Seq(0, 1, 4, 7, 8)) add(writer, reduceId, 10)
      writer.endRound()
      for (reduceId <- Seq(8, 1, 2)) add(writer, reduceId, 20)
      writer.endRound()
      writer.beginLastRound()
      for (reduceId <- Seq(1, 3)) add(writer, reduceId, 30)
    }
    val expected = Map(
      0 -> Seq(0 -> 10, 3 -> 0),
      1 -> Seq(0 -> 10, 2 -> 20, 5 -> 30),
      2 -> Seq(0 -> 20, 3 -> 0),
      3 -> Seq(1 -> 30),
      4 -> Seq(0 -> 10, 3 -> 0),
      // All that the second service gets in the end.
      7 -> Seq(0 -> 10, 3 -> 0),
      8 -> Seq(0 -> 10, 2 -> 20, 5 -> 0))
    assertEquals(expected, rounds)
  }

  @Test def `map tasks that start together begin at different services`(): Unit = {
    val second = shown(mapIndex = 1) { writer =>
      assertEquals(Seq(5, 6, 7, 8, 9, 0, 1, 2, 3, 4), (0 until 10).map(writer.blockOf(_).reduceId))
      writer.beginLastRound()
      for (reduceId <- Seq(5, 9, 0, 4)) add(writer, reduceId, 10 + reduceId)
    }
    assertEquals(
      Map(5 -> 15, 9 -> 19, 0 -> 10, 4 -> 14).map { case (id, length) =>
        id -> Seq(1 -> length)
      },
      second)
  }

  @Test def `a last round without segments ends all blocks`(): Unit = {
    val ended = shown(mapIndex = 0) { writer =>
      add(writer, 9, 10)
      writer.endRound()
    }
    assertEquals(Map(9 -> Seq(0 -> 10, 3 -> 0)), ended)
  }

  @Test def `a partition that comes again in the last round is an error, and not a wrong block`()
      : Unit = {
    assertThrows(
      classOf[IllegalStateException],
      () => {
        shown(mapIndex = 0) { writer =>
          writer.beginLastRound()
          for (reduceId <- Seq(3, 4, 3)) add(writer, reduceId, 10)
        }
        ()
      })
    ()
  }

  @Test def `a record that is in no segment fails its task, and nothing of it is shown`(): Unit = {
    val failure = assertThrows(
      classOf[IllegalStateException],
      () => {
        shown(mapIndex = 0) { writer =>
          writer.expect(7)
          add(writer, 7, 10)
        }
        ()
      })
    assertEquals(
      "a map task took 1 records for partition 7 that are in no segment: " +
        "its output is not committed",
      failure.getMessage)
  }

  @Test def `a task of millions of partitions takes memory for those that it has records of`()
      : Unit = {
    val partitions = 1 << 24
    val spark = memory
    val push = pushTo(Seq(SilentDriver.goneService()), () => (), partitions)
    val writer = new SegmentWriter(push, newBuffers, partitions, spark)
    assertEquals(0L, spark.getMemoryConsumptionForThisTask)
    Seq(5, 12345678).foreach(writer.expect)
    // Three numbers for each of two groups of 1,024 neighbours.
    assertEquals(2L * 3 * 1024 * 8, spark.getMemoryConsumptionForThisTask)
    writer.close()
    assertEquals(0L, spark.getMemoryConsumptionForThisTask)
  }

  @Test def `a task that is killed while a large record waits is killed, whatever Kryo says`()
      : Unit = killedWhileItWaits(new IllegalStateException(_))

  @Test def `and whatever Java's serialization says`(): Unit =
    killedWhileItWaits(new IOException(_))

  private def killedWhileItWaits(wrapped: Throwable => Exception): Unit = {
    val buffers = new SegmentBuffers(PiecePool.PieceBytes, 2L * PiecePool.PieceBytes)
    val other = buffers.reserve(() => ())
    var isKilled = false
    val alive = () => if (isKilled) throw new TaskKilledException("scripted")
    val push = pushTo(Seq(SilentDriver.goneService()), alive)
    val writer = new SegmentWriter(push, buffers, 10, memory)
    val ended = Try(writer.add(0) { out =>
      for (_ <- 1 to 3) other.write(new Array[Byte](PiecePool.PieceBytes))
      isKilled = true
      try out.write(new Array[Byte](PiecePool.PieceBytes + 1))
      catch { case cause: RuntimeException => throw wrapped(cause) }
      1
    })
    writer.close()
    other.release()
    assertEquals(classOf[TaskKilledException], ended.failed.get.getClass)
    assertEquals(0L, buffers.usedBytes)
  }

  @Test def `a stream that is closed when its task has ended waits for no room`(): Unit = {
    val buffers = new SegmentBuffers(PiecePool.PieceBytes, 2L * PiecePool.PieceBytes)
    val other = buffers.reserve(() => ())
    val push = pushTo(Seq(SilentDriver.goneService()), () => fail("it waits"))
    val writer = new SegmentWriter(push, buffers, 10, memory)
    var stream: OutputStream = null
    writer.add(0) { out =>
      stream = out
      1
    }
    for (_ <- 1 to 3) other.write(new Array[Byte](PiecePool.PieceBytes))
    writer.close()
    stream.write(new Array[Byte](2 * PiecePool.PieceBytes))
    other.release()
    assertEquals(0L, buffers.usedBytes)
  }

  @Test def `a task asks Spark for no memory while it fills a buffer that others wait for`()
      : Unit = {
    var asked = 0
    val spark = UnifiedMemoryManager(new SparkConf(false), 1)
    val counting = new TaskMemoryManager(spark, 0) {
      override def acquireExecutionMemory(bytes: Long, by: MemoryConsumer): Long = {
        asked += 1
        super.acquireExecutionMemory(bytes, by)
      }
    }
    val partitions = 3000
    val push = pushTo(Seq(SilentDriver.goneService()), () => (), partitions)
    val writer = new SegmentWriter(push, newBuffers, partitions, counting)
    val some = Seq(0, 1, 1500, 2999)
    some.foreach(writer.expect)
    val before = asked
    assertTrue(before > 0, "the task has asked for its numbers")
    some.foreach(add(writer, _, 10))
    assertEquals(before, asked)
    writer.close()
  }

  @Test def `a task that has to end ends so though room comes back while Kryo fails`(): Unit = {
    val buffers = new SegmentBuffers(PiecePool.PieceBytes, 2L * PiecePool.PieceBytes)
    val other = buffers.reserve(() => ())
    var isOver = false
    val alive = () => if (isOver) throw new TaskKilledException("scripted")
    val push = pushTo(Seq(SilentDriver.goneService()), alive)
    val writer = new SegmentWriter(push, buffers, 10, memory)
    val bytes = new Array[Byte](PiecePool.PieceBytes + 1)
    val ended = Try(writer.add(0) { out =>
      for (_ <- 1 to 3) other.write(new Array[Byte](PiecePool.PieceBytes))
      isOver = true
      try out.write(bytes)
      catch {
        case cause: RuntimeException =>
          other.release()
          // As a codec does when it is closed.
          out.write(bytes)
          throw new IllegalStateException(cause)
      }
      1
    })
    writer.close()
    assertEquals(classOf[TaskKilledException], ended.failed.get.getClass)
    assertEquals(0L, buffers.usedBytes)
  }
}
