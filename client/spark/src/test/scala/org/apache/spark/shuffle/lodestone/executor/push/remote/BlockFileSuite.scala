// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.nio.channels.FileChannel
import java.nio.file.{Files, Path}

import scala.util.Random

import org.junit.jupiter.api.Assertions.{assertArrayEquals, assertEquals}
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

final class BlockFileSuite {
  @TempDir var directory: Path = _

  @Test def `blocks are read in any order and no further than their ends`(): Unit = {
    val random = new Random(3)
    val bytes = Array.fill(2000000)(random.nextInt().toByte)
    val file = directory.resolve("output")
    Files.write(file, bytes)
    val channel = FileChannel.open(file)
    try {
      val blocks = new BlockFile(channel)
      val ranges = Seq(0 -> 10, 10 -> 300000, 300010 -> 0, 300010 -> 7, 5 -> 5, 1999990 -> 10) ++
        Seq.fill(50) {
          val offset = random.nextInt(bytes.length)
          offset -> random.nextInt(math.min(400000, bytes.length - offset))
        }
      for ((offset, length) <- ranges) {
        val read = blocks.open(offset.toLong, length.toLong).readAllBytes()
        assertArrayEquals(bytes.slice(offset, offset + length), read)
      }
      // A reader may leave a block in the middle.
      assertEquals(bytes(20), blocks.open(20, 100).read().toByte)
      assertEquals(bytes(120), blocks.open(120, 100).read().toByte)
      assertEquals(-1, blocks.open(bytes.length.toLong, 100).read())
    } finally {
      channel.close()
    }
  }
}
