// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch.remote

import org.junit.jupiter.api.{AfterEach, Test}
import org.junit.jupiter.api.Assertions.assertEquals

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.lodestone.driver.ScriptedService
import org.apache.spark.shuffle.lodestone.driver.ScriptedService._
import org.apache.spark.shuffle.lodestone.executor.fetch.{ChunkCut, LayoutReader}
import org.apache.spark.shuffle.lodestone.plan.BlockFormat.SparkStream
import org.apache.spark.shuffle.lodestone.plan.{RemoteOutput, RemotePart}
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Application, BlockSequence, LaidRun, LaidSegment}
import org.apache.spark.shuffle.lodestone.wire.{MapRange, PartitionLayout, Refused}
import org.apache.spark.shuffle.lodestone.wire.{SegmentLayout, SegmentLayoutReply, Status}
import org.apache.spark.storage.ShuffleBlockId

/** A large partition that two services should have, one of which fails. */
final class SharedReplicasSuite {
  private val client = new ServiceClient(Application("app", -1), 5000)
  private var services = List.empty[ScriptedService]

  @AfterEach def stop(): Unit = {
    client.close()
    services.foreach(_.close())
  }

  /** A service that shows these maps. */
  private def showing(maps: Int*): ServiceLocation = answering {
    val segments = maps.map { map =>
      LaidSegment(map, map + 100L, BlockSequence.last(BlockSequence(0)), 10, -1, map)
    }
    val partition = PartitionLayout(0, Status.Ok, Array(LaidRun(0, segments.toArray)))
    Answer(SegmentLayoutReply(1, SparkStream.name, Array(partition)))
  }

  private def answering(layout: => Reaction): ServiceLocation = {
    val started = new ScriptedService(services.size + 1L).answering { case _: SegmentLayout =>
      layout
    }
    services :+= started
    ServiceLocation(started.address.host, started.address.port, started.incarnation)
  }

  /** The service from which each map is read, or the services that are said to lack a block. */
  private def read(at: ServiceLocation*): Either[Seq[ServiceLocation], Seq[(Int, Int)]] = {
    val plan = ShufflePlan(0, numPartitions = 1, replicas = 2, Array(at.toArray))
    val blocks = (0 until 4).map(map => (ShuffleBlockId(3, map + 100L, 0), 3L << 20, map))
    val wanted = new WantedSegments(Seq(RemoteOutput(0, Seq(RemotePart(0, Nil))) -> blocks), plan)
    val reader = new LayoutReader(client, ShuffleGeneration(3, 0), SparkStream, MapRange(0, 4))
    val sources = new RemoteSources(
      client,
      reader,
      plan,
      wanted,
      ChunkCut.OneSegment,
      new RetryPolicy(0, _ => None),
      TaskContext.empty())
    sources.chunks() match {
      case Left((_, lost)) => Left(lost.services.sortBy(at.indexOf))
      case Right(chunks) =>
        val found = chunks.flatMap { chunk =>
          chunk.segments.map(one => one.mapIndex -> at.indexOf(chunk.service))
        }
        Right(found.sorted)
    }
  }

  @Test def `two whole replicas are read by halves`(): Unit =
    assertEquals(
      Right(Seq(0 -> 0, 1 -> 0, 2 -> 1, 3 -> 1)),
      read(showing(0, 1, 2, 3), showing(3, 2, 1, 0)))

  @Test def `a block that one replica lacks is read from the other one`(): Unit = {
    val fromFirst = Right((0 until 4).map(_ -> 0))
    assertEquals(fromFirst, read(showing(0, 1, 2, 3), showing(0, 1, 2)))
    assertEquals(
      Right((0 until 4).map(_ -> 1)),
      read(showing(0, 2, 3), showing(0, 1, 2, 3)))
  }

  @Test def `a replica that sends no layout is not needed`(): Unit =
    assertEquals(
      Right((0 until 4).map(_ -> 0)),
      read(showing(0, 1, 2, 3), answering(Answer(Refused(Status.DiskFailed, 1, "scripted")))))

  @Test def `a block that both lack is lost, and both are named`(): Unit = {
    val both = Seq(showing(0, 1, 2), showing(0, 1, 2))
    assertEquals(Left(both), read(both: _*))
  }
}
