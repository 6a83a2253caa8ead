// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.counts

import scala.util.Random

import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.driver.SentByRpc
import org.apache.spark.shuffle.lodestone.plan.MapCounted
import org.apache.spark.shuffle.lodestone.plan.counts.PackedLongs

final class PackedLongsSuite {

  private def arrived(values: Array[Long]): Seq[Long] = {
    val sent = MapCounted(1, 2, 3, PackedLongs(values))
    val records = SentByRpc.arrived(sent).records
    (0 until records.length).map(records(_))
  }

  @Test def `numbers arrive as they were sent`(): Unit = {
    val random = new Random(11)
    val edges = Seq(1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 62).map(1L << _)
    val cases = Seq(
      Seq.empty[Long],
      Seq(0L),
      Seq(Long.MaxValue),
      Seq(0L, Long.MaxValue, 1L),
      Seq.fill(100)(12345678901L),
      edges,
      edges.map(_ - 1) ++ edges,
      Seq.fill(1000)(1000L + random.nextInt(300)),
      Seq.fill(1000)(random.nextLong() & Long.MaxValue))
    cases.foreach(values => assertEquals(values, arrived(values.toArray)))
  }

  @Test def `numbers that are alike take a byte or two and equal ones take none`(): Unit = {
    val random = new Random(11)
    def bytes(values: Seq[Long]): Int = PackedLongs(values.toArray).bytes
    assertEquals(0, bytes(Seq.fill(1000)(0L)))
    assertEquals(0, bytes(Seq.fill(1000)(5000000L)))
    assertEquals(1000, bytes(Seq.fill(1000)(5000000L + random.nextInt(256))))
    assertEquals(2000, bytes(5000256L +: Seq.fill(999)(5000000L)))
    val message =
      SentByRpc.bytes(MapCounted(1, 2, 3, PackedLongs(Array.fill(200)(random.nextInt(300).toLong))))
    println(s"what a map task of 200 partitions counted takes ${message.length} bytes")
    assertTrue(message.length < 800, s"${message.length} bytes")
  }

  @Test def `a negative number of records is refused`(): Unit = {
    assertThrows(classOf[IllegalArgumentException], () => { PackedLongs(Array(3L, -1L)); () })
    val two = PackedLongs(Array(3L, 3L))
    Seq(-1, 2).foreach { index =>
      assertThrows(classOf[IndexOutOfBoundsException], () => { two(index); () })
    }
  }
}
