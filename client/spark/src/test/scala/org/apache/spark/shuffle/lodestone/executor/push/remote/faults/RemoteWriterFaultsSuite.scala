// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote.faults

import java.io.File
import java.nio.file.Path
import java.util.concurrent.TimeUnit

import scala.collection.mutable.ArrayBuffer
import scala.concurrent.Future

import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.shuffle.lodestone.DaemonProcess
import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.executor.link.PlanCache
import org.apache.spark.shuffle.lodestone.executor.push.{MapAttempt, PiecePool, SegmentBuffers}
import org.apache.spark.shuffle.lodestone.executor.push.records.faults.{
  CombinedRows,
  EncodedRowsOfSql
}
import org.apache.spark.shuffle.lodestone.executor.push.records.faults.Ended
import org.apache.spark.shuffle.lodestone.executor.push.records.faults.{
  ObjectsByJava,
  ObjectsByKryoWithoutReset
}
import org.apache.spark.shuffle.lodestone.executor.push.records.faults.{ObjectsByKryo, RowsOfSql}
import org.apache.spark.shuffle.lodestone.executor.push.records.faults.{WriterCase, WriterHunt}
import org.apache.spark.shuffle.lodestone.executor.push.records.faults.WriterTask
import org.apache.spark.shuffle.lodestone.executor.push.remote.{PushMeans, RemoteMapWriter}
import org.apache.spark.shuffle.lodestone.executor.push.remote.RequiredPush
import org.apache.spark.shuffle.lodestone.plan.{DriverMessage, GetPlan, MapEncoded, PlanAnswer}
import org.apache.spark.shuffle.lodestone.plan.ServiceLocation
import org.apache.spark.shuffle.lodestone.plan.{ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{FlakyProxy, RetryPolicy, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Application, ShuffleMode}

/**
 * The writer of map outputs that services keep, with a real one, and connections that break at any
 * byte.
 */
@Tag("seldom")
final class RemoteWriterFaultsSuite extends WriterHunt {
  import RemoteWriterFaultsSuite._

  override protected def usualCases: Int = 9

  @TempDir var dir: Path = _

  /** The name of the Spark that runs: each has its own shuffles. */
  private var app: Application = _
  private var reader: ServiceClient = _
  private var daemon: DaemonProcess = _

  @BeforeEach def startDaemon(): Unit =
    daemon = DaemonProcess.start(new File(dir.toFile, "daemon"), memory = "256MiB")

  @AfterEach def stopDaemon(): Unit = {
    if (reader != null) reader.close()
    daemon.stop()
  }

  private def follow(spark: String): Unit = if (app == null || app.appId != spark) {
    if (reader != null) reader.close()
    app = Application(spark, -1)
    reader = new ServiceClient(app, 20000)
  }

  @Test def `a map task whose network and memory fail pushes all of its rows or shows none`()
      : Unit =
    hunt { conf =>
      Seq(
        RowsOfSql,
        new ObjectsByKryo(conf),
        new ObjectsByKryoWithoutReset(conf),
        new ObjectsByJava(conf),
        new CombinedRows(conf)) ++ EncodedRowsOfSql.ifUsed(conf)
    }(task => if (task.which.partitions == 0) Ended(None, 0, 0) else write(task))

  private def write(task: WriterTask): Ended = {
    follow(task.appId)
    val which = task.which
    val service = daemon.location
    val id = ShuffleGeneration(task.dependency.shuffleId, 0)
    ShownBlocks.await(
      reader.registerShuffle(service, id, 1, which.partitions, ShuffleMode.Remote))
    val network = new Network(which)
    try {
      val (failure, requests) = pushed(task, network)
      val shown =
        new ShownBlocks(reader, service, task.dependency, which.seed, task.kind, task.story)
      if (failure.isEmpty) task.check(shown.recordsOf)
      else assertEquals(0, shown.count, s"rows of a task that failed are shown, ${task.story}")
      // A record of this size is for local outputs.
      val mayFail = which.cuts.nonEmpty || which.rows.exists(_._2 > (60 << 20))
      Ended(failure, task.other.hit, requests, mayFail)
    } finally {
      network.close()
      ShownBlocks.await(reader.removeShuffle(service, id))
    }
  }

  private def pushed(task: WriterTask, network: Network): (Option[Throwable], Int) = {
    val which = task.which
    val plan =
      ShufflePlan(0, which.partitions, replicas = 1, Array(Array(network.service)))
    val retryPolicy = new RetryPolicy(20000, _ => None)
    val means = PushMeans(network.client, new PlanCache(NoOther), retryPolicy, retryPolicy)
    val attempt = MapAttempt(task.dependency.shuffleId, 0, 0, which.seed)
    val alive = () => task.context.killTaskIfInterrupted()
    val push = new RequiredPush(attempt, plan, means, alive)
    val buffers = new SegmentBuffers(which.bufferBytes, BuffersAtATime.toLong * which.bufferBytes)
    val reports = ArrayBuffer.empty[DriverMessage]
    val writer = new RemoteMapWriter[Any, Any](
      task.dependency,
      task.kind.format,
      push,
      buffers,
      task.context,
      task.context.taskMetrics().shuffleWriteMetrics,
      reports += _)
    val failure = task.failureOf(writer.write(task.rows))
    val status = writer.stop(failure.isEmpty)
    assertEquals(failure.isEmpty, status.isDefined, task.story)
    if (failure.isEmpty) {
      val encoded = reports.collectFirst { case encoded: MapEncoded => encoded }
      task.checkEncoded(encoded, writer.getPartitionLengths(), status)
    }
    awaitRoom(buffers, which.bufferBytes, task.story)
    (failure, push.requestCount.toInt)
  }

  /** The task gives all room for buffers back, also what is still on its way when it ends. */
  private def awaitRoom(buffers: SegmentBuffers, bufferBytes: Int, story: String): Unit = {
    val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60)
    val alive = () => assertTrue(System.nanoTime() < end, s"room for buffers is lost, $story")
    // One is begun where nothing else is in use, however little there may be.
    val all = if (bufferBytes < PiecePool.PieceBytes) 1 else BuffersAtATime
    Seq.fill(all)(buffers.reserve(alive)).foreach(_.release())
  }

  private object NoOther extends SilentDriver {
    override def plan(asked: GetPlan): Future[PlanAnswer] =
      Future.failed(new IllegalStateException("there is no other service"))
  }

  /** How the task reaches the service. */
  private final class Network(which: WriterCase) {
    private val proxy = if (which.cuts.isEmpty) None else Some(cutting(which.cuts))
    val client: ServiceClient = if (proxy.isEmpty) reader else new ServiceClient(app, 20000)
    val service: ServiceLocation =
      ServiceLocation(daemon.host, proxy.fold(daemon.port)(_.port), daemon.incarnation)

    private def cutting(after: Seq[Long]): FlakyProxy =
      new FlakyProxy(
        daemon.port,
        connection => after.lift(connection).getOrElse(Long.MaxValue),
        standsStill = false)

    def close(): Unit = proxy.foreach { one =>
      client.close()
      one.close()
    }
  }
}

private object RemoteWriterFaultsSuite {

  /** For which there is memory. */
  private val BuffersAtATime = 3
}
