// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.nio.ByteBuffer
import java.nio.file.{Files, Path}

import scala.util.Random

import org.junit.jupiter.api.Assertions.{assertArrayEquals, assertThrows}
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.shuffle.lodestone.wire.Crc32c

final class FrameOutputSuite {
  @TempDir var directory: Path = _

  @Test def `each block has the checksum of its bytes`(): Unit = {
    val random = new Random(5)
    val blocks = Seq(0, 3, 262143, 2, 0, 700000, 1).map(Array.fill(_)(random.nextInt().toByte))
    val file = directory.resolve("output")
    Files.write(file, blocks.toArray.flatten)
    val expected = blocks.map(one => Integer.toUnsignedLong(Crc32c.of(ByteBuffer.wrap(one))))
    val lengths = blocks.map(_.length.toLong).toArray
    assertArrayEquals(expected.toArray, FrameOutput.checksums(file.toFile, lengths))
  }

  @Test def `an output without rows needs no file`(): Unit = {
    val none = directory.resolve("none").toFile
    assertArrayEquals(new Array[Long](3), FrameOutput.checksums(none, new Array[Long](3)))
  }

  @Test def `an output that is not as long as its blocks is refused`(): Unit = {
    val file = directory.resolve("output")
    Files.write(file, new Array[Byte](10))
    for (lengths <- Seq(Array(4L, 5L), Array(4L, 7L))) {
      assertThrows(
        classOf[IllegalStateException],
        () => { FrameOutput.checksums(file.toFile, lengths); () })
    }
  }

  @Test def `blocks beyond the last partition must be empty`(): Unit = {
    assertArrayEquals(Array(4L, 6L), FrameOutput.lengths(Array(4L, 6L, 0L), numPartitions = 2))
    for (lengths <- Seq(Array(4L), Array(4L, 6L, 1L))) {
      assertThrows(
        classOf[IllegalStateException],
        () => { FrameOutput.lengths(lengths, numPartitions = 2); () })
    }
  }
}
