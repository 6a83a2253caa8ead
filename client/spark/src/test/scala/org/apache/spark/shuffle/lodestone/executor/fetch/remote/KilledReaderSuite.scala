// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.{ExecutionContext, Future}

import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows}
import org.junit.jupiter.api.Test

import org.apache.spark.{TaskContext, TaskKilledException}
import org.apache.spark.shuffle.lodestone.driver.SilentDriver
import org.apache.spark.shuffle.lodestone.executor.fetch.{ChunkCut, LayoutReader}
import org.apache.spark.shuffle.lodestone.plan.{
  BlockFormat,
  LostAt,
  OutputsLost,
  Reason,
  RemoteOutput
}
import org.apache.spark.shuffle.lodestone.plan.RemotePart
import org.apache.spark.shuffle.lodestone.plan.{ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Application, MapRange}
import org.apache.spark.storage.ShuffleBlockId

/** A reduce task that is killed without an interrupt, as Spark does it, ends and blames nobody. */
final class KilledReaderSuite {

  /** One that is just being started again. */
  private val away = SilentDriver.goneService()
  private val plan = ShufflePlan(0, numPartitions = 1, replicas = 1, Array(Array(away)))
  private val wanted = {
    val blocks = Seq((ShuffleBlockId(3, 100, 0), 10L, 0))
    new WantedSegments(Seq(RemoteOutput(0, Seq(RemotePart(0, Nil))) -> blocks), plan)
  }

  private val losses = new AtomicInteger
  private val driver = new SilentDriver {
    override def lost(outputs: OutputsLost): Future[Boolean] = {
      losses.incrementAndGet()
      Future.successful(true)
    }
  }

  private def assertKilled(body: => Unit): Unit = {
    assertThrows(classOf[TaskKilledException], () => body)
    ()
  }

  @Test def `a task that is killed while it waits for a service does not call its outputs lost`()
      : Unit = {
    val context = TaskContext.empty()
    val client = new ServiceClient(Application("app", -1), 1000)
    // Killed after the first attempt, so that the second one, which comes soon, is the last.
    val retryPolicy = new RetryPolicy(
      60000,
      { _ =>
        context.markInterrupted("scripted")
        None
      })
    try {
      val format = BlockFormat.SparkStream
      val reader = new LayoutReader(client, ShuffleGeneration(3, 0), format, MapRange(0, 1))
      val sources =
        new RemoteSources(client, reader, plan, wanted, ChunkCut.ChunkBytes, retryPolicy, context)
      assertKilled {
        sources.chunks()
        ()
      }
    } finally {
      client.close()
    }
  }

  @Test def `a task whose outputs are there waits until it is killed`(): Unit = {
    val context = TaskContext.empty()
    val there = new SilentDriver {
      override def lost(outputs: OutputsLost): Future[Boolean] =
        Future.successful(false).map { answer =>
          // The kill is a message of its own.
          Future(context.markInterrupted("by the driver"))(ExecutionContext.global)
          answer
        }(ExecutionContext.global)
    }
    val loss = new OutputLoss(3, 0, there, "executor-1", context)
    val killed = assertThrows(
      classOf[TaskKilledException],
      () => loss.fail(0, LostAt(Seq(away), Reason.LayoutFailed)))
    assertEquals("by the driver", killed.reason)
  }

  @Test def `a killed task does not report a loss`(): Unit = {
    val context = TaskContext.empty()
    val loss = new OutputLoss(3, 0, driver, "executor-1", context)
    context.markInterrupted("scripted")
    assertKilled(loss.fail(0, LostAt(Seq(away), Reason.LayoutFailed)))
    assertEquals(0, losses.get)
  }
}
