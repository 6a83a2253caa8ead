// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.network.client.ChunkFetchFailureException
import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.plan.{DamagedSegment, Reason}
import org.apache.spark.shuffle.lodestone.wire.{MalformedMessageException, Refused}
import org.apache.spark.shuffle.lodestone.wire.{RefusedException, Status}

class FailureClassSuite {
  private val service = HostPort("a", 1)
  private val rows = {
    val file = Paths.get(System.getProperty("lodestone.vectors"), "../../docs/failures.md")
    val lines = new String(Files.readAllBytes(file), UTF_8).linesIterator.toSeq
    lines.filter(_.startsWith("| ")).map(_.split('|').toSeq.map(_.trim).drop(1))
      .filter(_.length == 10).filterNot(_.head == "class")
  }

  private def quoted(cell: String): Seq[String] = "`([A-Z_]+)`".r.findAllMatchIn(cell)
    .map(_.group(1)).toSeq

  private def yes(condition: Boolean): String = if (condition) "yes" else "no"

  private def inWords(failure: FailureClass): Seq[String] = {
    val action = failure.action
    val again = action.retryAfterMs match {
      case None => "never"
      case Some(0) => "once, at once"
      case Some(_) => "once, after a pause"
    }
    Seq(
      failure.name,
      again,
      yes(action.penalty),
      action.pushes.name,
      if (action.reads) "go on" else "end",
      yes(action.newShuffles),
      if (action.isTransient) "for a while" else "no",
      if (action.keepsSegments) "kept" else "lost")
  }

  @Test def `the table of failures that people read is the one that the plugin follows`(): Unit = {
    val documented = rows.map(row => row.head +: row.slice(2, 9))
    assertEquals(FailureClass.all.map(inWords), documented)
  }

  @Test def `every status that is no success is in the row of its class`(): Unit = {
    val documented = for (row <- rows; name <- quoted(row(1))) yield name -> row.head
    val failures = Status.all.filterNot(_.isSuccess)
    val followed = failures.map(status => status.name -> FailureClass.of(status).name)
    assertEquals(followed.toMap, documented.toMap)
    assertEquals(failures.size, documented.size)
    assertEquals(Seq(Status.Ok, Status.Duplicate), Status.all.filter(_.isSuccess))
  }

  @Test def `the codes in the table are codes of the report`(): Unit = {
    val codes = rows.flatMap(row => quoted(row.last))
    assertTrue(codes.nonEmpty)
    assertEquals(Nil, codes.filter(Reason.of(_).isEmpty))
  }

  @Test def `the class of a failure does not depend on the superclass of the exception`()
      : Unit = {
    val refused = new RefusedException(Refused(Status.DiskFull, 1, ""))
    val seen = Seq(
      new IOException("Connection reset by peer"),
      new java.net.ConnectException("refused"),
      new RequestTimeoutException(service, 1),
      new SlowAnswerException(service, 1),
      new ChunkFetchFailureException("the disk"),
      refused,
      new OwnOutputException("map 1", new IOException("No space left on device")),
      new DamagedChunkException("bits", DamagedSegment(0, 1, 100, 0)),
      new MalformedMessageException("bytes"),
      new NotLodestoneException(service, "no"),
      new RpcFailedException(new RuntimeException("no")),
      new IllegalStateException("a bug"))
    import FailureClass._
    val expected = Seq(
      Network,
      Network,
      Silence,
      Straggler,
      ServiceDisk,
      ServiceDisk,
      OwnDisk,
      Corrupt,
      Foreign,
      Foreign,
      Foreign,
      Fault)
    assertEquals(expected, seen.map(FailureClass.of))
  }
}
