// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.frames

import java.io.{ByteArrayInputStream, EOFException, InputStream, SequenceInputStream}

import org.junit.jupiter.api.Assertions.{assertArrayEquals, assertEquals, assertThrows, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException

final class WholeFramesSuite {
  private val bytes = TestFrames.of("abc", "", "d" * 100000)

  private def read(bytes: InputStream): Array[Byte] =
    new WholeFrames(bytes, TestFrames).readAllBytes()

  private def read(bytes: Array[Byte]): Array[Byte] = read(new ByteArrayInputStream(bytes))

  @Test def `whole frames are read as they are`(): Unit = {
    assertArrayEquals(bytes, read(bytes))
    assertArrayEquals(Array.emptyByteArray, read(Array.emptyByteArray))
  }

  @Test def `frames are walked through one by one`(): Unit = {
    val frames = new WholeFrames(new ByteArrayInputStream(bytes), TestFrames)
    val sizes = Iterator.continually(frames.nextFrame()).takeWhile(_ > 0).map { size =>
      assertEquals(size, frames.readNBytes(size).length)
      size
    }.toList
    assertEquals(List(8, 5, 100005), sizes)
  }

  @Test def `an end in the middle of a frame is an error wherever it is`(): Unit = {
    val borders = Set(0, 8, 13)
    for (length <- 0 until 20 if !borders.contains(length)) {
      assertThrows(classOf[BrokenRowsException], () => { read(bytes.take(length)); () })
    }
  }

  @Test def `bytes that begin no frame are an error before the engine has them`(): Unit = {
    val frames =
      new WholeFrames(new ByteArrayInputStream(bytes.take(8) ++ "nonsense".getBytes), TestFrames)
    assertEquals(8, frames.readNBytes(8).length)
    assertThrows(classOf[BrokenRowsException], () => { frames.read(); () })
    ()
  }

  @Test def `an exception that says the end of a stream does not end the frames`(): Unit = {
    val broken = new InputStream {
      override def read(): Int = throw new EOFException("connection lost")
    }
    val failure = assertThrows(
      classOf[BrokenRowsException],
      () => { read(new SequenceInputStream(new ByteArrayInputStream(bytes), broken)); () })
    assertTrue(failure.getMessage.contains("connection lost"))
  }
}
