// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import io.netty.buffer.Unpooled
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.plan.ServiceLocation
import org.apache.spark.shuffle.lodestone.wire.LaidSegment

/** Segments in the order of their arrival, which a task reads as plain Spark reads blocks. */
final class PortionSuite {
  private val mib = 1 << 20

  /** Map, partition, sequence: the bytes of a segment say which one it is. */
  private type Name = (Int, Int, Int)

  private def chunk(length: Int, names: Name*): FetchChunk = {
    val service = ServiceLocation("127.0.0.1", 1, 7)
    val cut = new ChunkCut(service, names.head._2, Long.MaxValue)
    names.zipWithIndex.foreach { case ((map, _, sequence), place) =>
      cut.add(place, LaidSegment(map, 100L + map, sequence, length, 1, 0))
    }
    cut.result().head
  }

  private def numberOf(name: Name): Byte = (name._1 * 25 + name._2 * 5 + name._3).toByte

  /** The bytes that the task reads, one for each segment. */
  private def read(length: Int, chunks: Seq[Name]*): Seq[Byte] = {
    val sent = chunks.flatten.flatMap(name => Seq.fill(length)(numberOf(name))).toArray
    val laid = chunks.map(names => chunk(length, names: _*)).toIndexedSeq
    val buffer = new PortionBuffer(laid, Unpooled.wrappedBuffer(sent))
    val in = buffer.createInputStream()
    val all = new Array[Byte](sent.length)
    assertEquals(sent.length, in.read(all))
    assertEquals(-1, in.read())
    buffer.release()
    val segments = all.grouped(length).map(_.toSeq).toSeq
    segments.foreach(segment => assertEquals(1, segment.distinct.size, "a segment was cut"))
    segments.map(_.head)
  }

  private val arrived: Seq[Seq[Name]] = Seq(
    Seq((2, 0, 0), (0, 0, 3), (0, 0, 1), (1, 0, 0)),
    Seq((1, 1, 0), (0, 1, 2), (2, 1, 0)))
  private val inOrder: Seq[Name] =
    Seq((0, 0, 1), (0, 0, 3), (0, 1, 2), (1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0))

  @Test def `maps come in order, then their partitions, then their pushes`()
      : Unit =
    Seq(1, 7, 1024, 5000).foreach { length =>
      assertEquals(inOrder.map(numberOf), read(length, arrived: _*), s"$length bytes each")
    }

  @Test def `any pieces of the stream are the bytes in order, and an empty segment has none`()
      : Unit = {
    val lengths = Seq(3, 0, 5, 1, 0, 0, 4, 0)
    val cut = new ChunkCut(ServiceLocation("127.0.0.1", 1, 7), 0, Long.MaxValue)
    for ((length, place) <- lengths.zipWithIndex) {
      cut.add(place, LaidSegment(lengths.size - place, 100L, 0, length, 1, 0))
    }
    val sent = lengths.zipWithIndex.map { case (length, place) => Seq.fill(length)(place.toByte) }
    val buffer = new PortionBuffer(
      IndexedSeq(cut.result().head),
      Unpooled.wrappedBuffer(sent.flatten.toArray))
    for (piece <- 0 to 14) {
      val in = buffer.createInputStream()
      val read = Iterator
        .continually {
          assertEquals(0, in.read(new Array[Byte](4), 2, 0))
          if (piece == 0) in.read() else in.readNBytes(piece).headOption.fold(-1)(_.toInt)
        }
        .takeWhile(_ >= 0)
        .size
      assertEquals(if (piece == 0) 13 else (13 + piece - 1) / piece, read, s"pieces of $piece")
      assertEquals(0, in.available())
      val whole = buffer.createInputStream()
      val all = Iterator.continually(whole.readNBytes(math.max(1, piece))).takeWhile(_.nonEmpty)
      assertEquals(sent.reverse.flatten, all.flatten.toSeq, s"pieces of $piece")
    }
    buffer.release()
  }

  @Test def `segments in order are read as they are`(): Unit = {
    val names = Seq((0, 0, 0), (1, 0, 0), (2, 0, 0))
    assertEquals(names.map(numberOf), read(10, names))
  }

  private def segmentsOf(partition: Int, count: Int, length: Int): FetchChunk =
    chunk(length, (0 until count).map(map => (map, partition, 0)): _*)

  @Test def `a small task gets all in one piece, a larger one its partitions`(): Unit = {
    def pieces(chunks: FetchChunk*): Seq[Int] =
      ReadOrder(chunks, concatenable = true).map(_.portions.size)
    assertEquals(Nil, pieces())
    assertEquals(Seq(1), pieces(segmentsOf(0, 2, mib), segmentsOf(1, 2, mib)))
    val five = Seq.fill(5)(0).map(partition => segmentsOf(partition, 1, 2 * mib))
    // Ten MiB of one partition are read as they lie, three beside them in one piece.
    assertEquals(Seq(5, 1), pieces(five :+ segmentsOf(1, 3, mib): _*))
  }

  @Test def `segments that cannot be one stream come in turn`(): Unit = {
    val chunks = arrived.flatten.map(name => chunk(10, name))
    val merged = ReadOrder(chunks, concatenable = false)
    assertEquals(1, merged.size)
    val names = merged.head.portions.map { portion =>
      val one = portion.chunks.head
      (one.segments.head.mapIndex, one.reduceId, one.segments.head.sequence)
    }
    assertEquals(inOrder, names)
    assertEquals(true, merged.head.inTurn)
  }
}
