// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.util.concurrent.atomic.LongAdder

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}

import org.apache.spark.{FetchFailed, ShuffleDependency, SparkContext, Success, TaskKilled}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.shuffle.ShuffleManager
import org.apache.spark.shuffle.lodestone.plan.Reason

/** What each engine owes whose native code pushes, in mode remote. */
private[lodestone] abstract class PushJobs(manager: Class[_ <: ShuffleManager], format: String)
    extends EngineJobs(manager) {
  protected val rowsWritten = new LongAdder
  protected val rowsRead = new LongAdder
  protected val bytesWritten = new LongAdder

  /** Memory for two small requests. */
  protected val small: Seq[(String, String)] = Seq(
    "spark.lodestone.push.memory" -> "256k",
    "spark.lodestone.push.batchSize" -> "128k",
    "spark.lodestone.push.maxBlockSize" -> "128k")

  protected def follow(spark: SparkContext): Unit = spark.addSparkListener(new SparkListener {
    override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
      rowsWritten.add(end.taskMetrics.shuffleWriteMetrics.recordsWritten)
      bytesWritten.add(end.taskMetrics.shuffleWriteMetrics.bytesWritten)
      rowsRead.add(end.taskMetrics.shuffleReadMetrics.recordsRead)
    }
  })

  protected def assertRemote(): Unit = {
    assertEquals("remote", shuffle.get("state").asText, LodestoneReport.json())
    assertEquals(format, shuffle.get("format").asText)
    assertEquals(0, shuffle.get("originalsRead").asInt)
    assertEquals("{}", reasons)
  }

  protected def assertAnswers(spark: SparkContext): Unit = {
    val expected = this.expected(spark)
    assertTrue(expected.nonEmpty)
    assertEquals(expected, summary(shuffled(texts(spark))))
  }

  /** One attempt fails in the middle, and leaves nothing behind. */
  protected def assertOneFailed(event: String => String): Unit = {
    val ends = withSpark("remote", start(2)) { spark =>
      val ends = endsOf(spark)
      assertEquals(expected(spark), summary(shuffled(textsMeeting(spark)(event))))
      assertTrue(hasMet)
      assertEquals(Nil, outputs)
      LodestoneReport.awaitQuiet(10000)
      ends
    }
    assertEquals(1, ends.toArray().count(_ != Success), s"$ends")
    assertRemote()
  }

  /** A task is killed while its service takes nothing. */
  protected def assertKilledTaskEnds(settings: (String, String)*): Unit = {
    val patient = settings :+ ("spark.lodestone.request.timeout" -> "60s")
    withSpark("remote", start(1), patient: _*) { spark =>
      val ends = endsOf(spark)
      val rows = textsMeeting(spark) { text =>
        daemons.head.freeze()
        text
      }
      val waiting = shuffled(rows).countAsync()
      while (!hasMet) Thread.`yield`()
      waiting.cancel()
      assertOneKilled(ends)
      daemons.head.thaw()
      assertAnswers(spark)
    }
  }

  /** What a map task of the engine does. */
  protected def write: TwoAttempts.Write = TwoAttempts.byWriter

  /** Two attempts of each map push at the same time, and one of them is read. */
  protected def assertOneAttemptIsRead(): Unit = {
    withSpark("remote", start(2)) { spark =>
      val read = shuffled(TwoAttempts.meeting(texts(spark)))
      TwoAttempts.writeAll(spark, shuffleOf(read))(write)
      spark.listenerBus.waitUntilEmpty()
      follow(spark)
      assertEquals(expected(spark), summary(read))
      assertEquals(Nil, outputs)
      LodestoneReport.awaitQuiet(10000)
    }
    assertRemote()
    assertEquals(0, rowsWritten.sum(), "Spark has run a map by itself")
  }

  private def shuffleOf(read: RDD[_]): ShuffleDependency[_, _, _] = read.dependencies.head match {
    case shuffle: ShuffleDependency[_, _, _] => shuffle
    case other => shuffleOf(other.rdd)
  }

  /** A service dies while maps push. */
  protected def assertDeathCostsNothing(): Unit = {
    val ends = withSpark("remote", start(2)) { spark =>
      val ends = endsOf(spark)
      val rows = textsMeeting(spark) { text =>
        daemons.head.kill()
        text
      }
      assertEquals(expected(spark), summary(shuffled(rows)))
      assertTrue(hasMet)
      LodestoneReport.awaitQuiet(10000)
      ends
    }
    assertTrue(reasons != "{}", "the loss was not met")
    val counted = ends.toArray().filter {
      case Success | _: TaskKilled | _: FetchFailed => false
      case _ => true
    }
    assertEquals(0, counted.length, s"$ends")
  }

  /** A frame above the limit has its shuffle written again, by executors, and no other one. */
  protected def assertLargeFrameIsKept(): Unit = {
    withSpark("remote", start(2), ownHost) { spark =>
      val rows = spark.parallelize(0 until 8, 4).map { i =>
        (i, "x".repeat(if (i == 5) 65 << 20 else i))
      }
      assertEquals(summary(rows.map(_._2)), summary(shuffled(rows)))
      assertAnswers(spark)
      LodestoneReport.awaitQuiet(10000)
    }
    assertTrue(report.at(s"/totals/reasons/${Reason.PushTooLarge.code}").asInt > 0, reasons)
    assertEquals("remote", report.at("/shuffles/1/state").asText, LodestoneReport.json())
  }
}
