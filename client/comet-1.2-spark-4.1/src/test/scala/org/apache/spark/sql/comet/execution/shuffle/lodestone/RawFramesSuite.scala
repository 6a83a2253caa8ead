// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.comet.execution.shuffle.lodestone

import java.io.ByteArrayInputStream
import java.util.NoSuchElementException

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.engine.{EngineBlock, EngineReader}

/** The stream that native code reads. */
final class RawFramesSuite {

  private final class Block(override val name: String) extends EngineBlock {
    private val bytes = new ByteArrayInputStream(name.getBytes("UTF-8"))
    override def isPushed: Boolean = true
    override def frames(): ByteArrayInputStream = bytes
    override def broken(why: String): Unit = throw new IllegalStateException(s"$name: $why")
  }

  private def stream(names: String*): RawFrames = {
    val blocks = names.iterator.map(new Block(_))
    new RawFrames(new EngineReader {
      override def hasNext: Boolean = blocks.hasNext
      override def next(): EngineBlock = blocks.next()
      override def addRows(rows: Long): Unit =
        throw new NoSuchElementException("Comet counts its rows by itself")
    })
  }

  @Test def `blocks come one after another, also those without a byte`(): Unit = {
    assertEquals("abcde", new String(stream("ab", "", "cde", "").readAllBytes(), "UTF-8"))
    assertEquals(-1, stream().read())
  }
}
