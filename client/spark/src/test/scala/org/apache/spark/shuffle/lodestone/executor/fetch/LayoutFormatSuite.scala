// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.File
import java.nio.file.Path

import scala.concurrent.Await
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.shuffle.lodestone.DaemonProcess
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, Reason, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.transport.ServiceClient
import org.apache.spark.shuffle.lodestone.wire.{Application, MapRange, ShuffleMode}

/** A shuffle of encoded rows at a daemon, and readers of both formats. */
final class LayoutFormatSuite {
  @TempDir var directory: Path = _

  @Test def `a reader takes no segments of another format than its own`(): Unit = {
    val daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))
    val client = new ServiceClient(Application("app", -1), 20000)
    try {
      val service = daemon.location
      val generation = ShuffleGeneration(3, 0)
      val encoded = BlockFormat.EncodedRows
      val registered =
        client.registerShuffle(service, generation, 1, 1, ShuffleMode.Remote, encoded)
      Await.result(registered, 20.seconds)
      def reasons(format: BlockFormat): Seq[Option[Reason]] = {
        val reader = new LayoutReader(client, generation, format, MapRange.All)
        reader.askOnce(Seq(service -> Seq(0)))(_ => 1).map(_.layouts.left.toOption)
      }
      assertEquals(Seq(None), reasons(encoded))
      assertEquals(Seq(Some(Reason.LayoutFailed)), reasons(BlockFormat.SparkStream))
    } finally {
      client.close()
      daemon.stop()
    }
  }
}
