// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.gluten

import java.io.{ByteArrayInputStream, FilterInputStream}

import org.junit.jupiter.api.Assertions.{assertArrayEquals, assertEquals}
import org.junit.jupiter.api.Test

/** Gluten's native readers do not look at how many bytes a read has given. */
final class WholeReadsSuite {
  private val bytes = Array.tabulate(1000)(_.toByte)

  /** As a network gives them. */
  private def inParts = new FilterInputStream(new ByteArrayInputStream(bytes)) {
    override def read(target: Array[Byte], offset: Int, length: Int): Int =
      super.read(target, offset, math.min(length, 7))
  }

  @Test def `a read gives all bytes that native code asks for up to the end`(): Unit = {
    val in = new WholeReads(inParts)
    val target = new Array[Byte](640)
    assertEquals(640, in.read(target))
    assertArrayEquals(bytes.take(640), target)
    assertEquals(0, in.read(new Array[Byte](0)))
    assertEquals(360, in.read(target))
    assertArrayEquals(bytes.drop(640), target.take(360))
    assertEquals(-1, in.read(target))
    assertEquals(-1, in.read())
  }

  @Test def `bytes that native code has left are still there after it has closed`(): Unit = {
    val left = inParts
    val in = new WholeReads(left)
    in.read(new Array[Byte](999))
    in.close()
    assertEquals(bytes.last, left.read().toByte)
  }
}
