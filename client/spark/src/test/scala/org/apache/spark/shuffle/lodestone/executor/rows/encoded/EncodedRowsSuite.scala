// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, IOException}
import java.nio.ByteBuffer

import scala.util.Random

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.{Tag, Test}

import org.apache.spark.SparkConf
import org.apache.spark.io.LZ4CompressionCodec
import org.apache.spark.shuffle.lodestone.executor.rows.{BrokenRowsException, Lz4Blocks}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

@Tag("seldom")
final class EncodedRowsSuite {
  import EncodedRowsSuite._

  /** Fails with the seed that repeats the failure. */
  private def seeded(cases: Int)(check: Random => Unit): Unit = {
    val seed = System.nanoTime()
    for (number <- 0 until cases) {
      try check(new Random(seed + number))
      catch {
        // Catches everything, to add the seed: the test fails with it.
        case cause: Throwable => throw new AssertionError(s"with seed ${seed + number}", cause)
      }
    }
  }

  @Test def `rows of any schema come back byte for byte`(): Unit = seeded(120) { random =>
    val fields = if (random.nextInt(10) == 0) 64 + random.nextInt(300) else random.nextInt(20)
    val next = new SqlRowSource(random).table(fields, isCompiled = random.nextInt(30) == 0)
    val rows = Seq.fill(random.nextInt(if (random.nextInt(5) == 0) 3000 else 100))(next())
    assertSame(rows, read(write(rows, fields, codec(random)), fields))
  }

  @Test def `bytes that are no rows of Spark come back as well`(): Unit = seeded(300) { random =>
    val fields = random.nextInt(12)
    val next = new SqlRowSource(random).anyBytes(fields)
    val rows = Seq.fill(random.nextInt(200))(next())
    assertSame(rows, read(write(rows, fields, codec(random)), fields))
  }

  @Test def `one writer and one reader handle rows whose form changes all the time`(): Unit =
    seeded(20) { random =>
      val fields = 1 + random.nextInt(8)
      val source = new SqlRowSource(random)
      val rows = Seq.fill(30) {
        val next = if (random.nextBoolean()) source.table(fields) else source.anyBytes(fields)
        Seq.fill(1 + random.nextInt(50))(next())
      }
      val writer = new RowGroupWriter(lz4, fields)
      val reader = newReader(fields)
      for (block <- rows) assertSame(block, bytesOf(reader(in(written(writer, block)))))
      val together = rows.map(written(writer, _)).reduce(_ ++ _)
      assertSame(rows.flatten, bytesOf(reader(in(together))))
    }

  @Test def `rows larger than a row group come back, between small ones`(): Unit =
    seeded(5) { random =>
      def row(words: Int) = {
        val bytes = new Array[Byte](8 * words)
        random.nextBytes(bytes)
        bytes
      }
      val limit = RowGroup.MostBytes / 8
      val rows = Seq(2, limit - 1, 3, limit, limit + 1, 2, 40 * limit, 5, 3 * limit).map(row)
      assertSame(rows, read(write(rows, 1, codec(random)), 1))
    }

  @Test def `a row is valid until the next one is asked for`(): Unit = {
    val rows = Seq.fill(5000)(Array.fill[Byte](64)(7)) ++ Seq.fill(3000)(Array.fill[Byte](72)(9))
    val records = newReader(1)(in(write(rows, 1, lz4)))
    for (row <- rows) {
      val record = records.next()._2.asInstanceOf[UnsafeRow]
      records.hasNext
      assertArrayEquals(row, record.getBytes)
    }
    assertThrows(classOf[NoSuchElementException], () => { records.next(); () })
  }

  @Test def `rows of no field are counted`(): Unit = {
    val rows = Seq.fill(20000)(Array.emptyByteArray)
    assertEquals(20000, read(write(rows, 0, lz4), 0).size)
  }

  @Test def `columns take a half of the bytes, and random bytes not more than rows`(): Unit = {
    val random = new Random(1)
    def bytes(next: () => Array[Byte], fields: Int) = {
      val rows = Seq.fill(20000)(next())
      write(rows, fields, lz4).length.toDouble / rows.map(_.length + 4).sum
    }
    var order = 1000L
    val lines =
      bytes(() => { order += random.nextInt(3); longs(0, order, random.nextInt(50), 7) }, 3)
    assertTrue(lines < 0.12, s"$lines of the bytes")
    val noise = bytes(() => longs(Seq.fill(12)(random.nextLong()): _*), 11)
    assertTrue(noise < 1.001, s"$noise of the bytes")
  }

  @Test def `a damaged bit is an error, and never another row`(): Unit = seeded(200) { random =>
    val (fields, whole) = someBlock(random)
    val damaged = whole.clone()
    val bit = random.nextInt(8 * whole.length)
    damaged(bit / 8) = (damaged(bit / 8) ^ (1 << bit % 8)).toByte
    assertThrows(classOf[BrokenRowsException], () => { read(damaged, fields); () })
  }

  /** Its codec takes a stream that ends within the head of its first block for an empty one. */
  @Test def `Spark's codec refuses the smallest block, and does not take it for an empty one`()
      : Unit = {
    val smallest = write(Seq(Array.emptyByteArray), 0, plain)
    val sparks = new LZ4CompressionCodec(new SparkConf)
    assertThrows(
      classOf[IOException],
      () => { sparks.compressedInputStream(in(smallest)).read(); () })
    ()
  }

  @Test def `a stream of row groups has the same bytes, or an error if one is damaged`()
      : Unit = seeded(100) { random =>
    val block = Seq.fill(1 + random.nextInt(4))(someBlock(random)._2).reduce(_ ++ _)
    assertArrayEquals(block, new CheckedGroups()(in(block)).readAllBytes())
    val damaged = block.clone()
    damaged(random.nextInt(block.length)) = (random.nextInt() | 1).toByte
    if (!damaged.sameElements(block)) {
      val stream = new CheckedGroups()(in(damaged))
      assertThrows(classOf[BrokenRowsException], () => { stream.readAllBytes(); () })
    }
  }

  @Test def `a block that is cut off is an error, or ends behind a row group`(): Unit =
    seeded(100) { random =>
      val (fields, whole) = someBlock(random)
      val rows = read(whole, fields)
      val cut = whole.take(random.nextInt(whole.length))
      try assertSame(rows.take(read(cut, fields).size), read(cut, fields))
      catch { case _: BrokenRowsException => () }
    }

  @Test def `damaged bytes with a right checksum are an error or rows, and nothing else`(): Unit =
    seeded(100) { random =>
      val (fields, whole) = someBlock(random, plain)
      for (_ <- 0 until 50) {
        val damaged = whole.clone()
        val at = RowGroupHead.HeadBytes + random.nextInt(whole.length - RowGroupHead.HeadBytes)
        val near = RowGroupHead.HeadBytes + (at - RowGroupHead.HeadBytes) % 60
        damaged(if (random.nextBoolean()) at else near) = random.nextInt().toByte
        sign(damaged)
        try read(damaged, fields).foreach(_.length)
        catch { case _: BrokenRowsException => () }
      }
    }

  @Test def `a block of another version, codec or number of fields is refused by name`(): Unit = {
    val block = write(Seq(longs(0, 5)), 1, lz4)
    def message(change: Array[Byte] => Unit, fields: Int = 1): String = {
      val changed = block.clone()
      change(changed)
      sign(changed)
      assertThrows(classOf[BrokenRowsException], () => { read(changed, fields); () }).getMessage
    }
    assertTrue(message(_(2) = 2).contains("version 2 of the format"))
    assertTrue(message(_(3) = 0x29).contains("the unknown codec 9"))
    assertTrue(message(_ => (), fields = 2).contains("rows of 1 fields, where 2 are expected"))
  }
}

object EncodedRowsSuite {

  private def lz4 = new RowGroupCodec.Lz4Codec
  private def codec(random: Random): RowGroupCodec =
    if (random.nextBoolean()) lz4 else new RowGroupCodec.ZstdCodec(1)

  /** A codec that saves nothing: the bytes are stored as they are. */
  private[encoded] val plain: RowGroupCodec = new RowGroupCodec {
    override def id: Int = RowGroupCodec.Lz4Id
    override def mostBytes(plain: Int): Int = plain
    override def compress(from: Array[Byte], length: Int, packed: Array[Byte], at: Int): Int =
      length
    override def decompress(
        packed: Array[Byte],
        at: Int,
        length: Int,
        to: Array[Byte],
        plainLength: Int): Int = -1
    override def close(): Unit = ()
  }

  private val codecs = (id: Int) =>
    id match {
      case RowGroupCodec.Lz4Id => Some(lz4)
      case RowGroupCodec.ZstdId => Some(new RowGroupCodec.ZstdCodec(1))
      case _ => None
    }

  private def newReader(fields: Int) = new RowGroupReader(fields, codecs)

  private def in(bytes: Array[Byte]) = new ByteArrayInputStream(bytes)

  private def write(rows: Seq[Array[Byte]], fields: Int, codec: RowGroupCodec): Array[Byte] =
    written(new RowGroupWriter(codec, fields), rows)

  private[encoded] def written(writer: RowGroupWriter, rows: Seq[Array[Byte]]): Array[Byte] = {
    val out = new ByteArrayOutputStream
    writer.open(out)
    for (row <- rows) {
      val withSize = ByteBuffer.allocate(4 + row.length).putInt(row.length).put(row).array
      writer.add(withSize, Platform.BYTE_ARRAY_OFFSET.toLong, withSize.length)
    }
    writer.close()
    out.toByteArray
  }

  private[encoded] def read(block: Array[Byte], fields: Int): Seq[Array[Byte]] =
    bytesOf(newReader(fields)(new CheckedGroups()(in(block))))

  private def bytesOf(records: Iterator[(Any, Any)]): Seq[Array[Byte]] =
    records.map { record =>
      val row = record._2.asInstanceOf[UnsafeRow]
      java.util.Arrays.copyOf(row.getBytes, row.getSizeInBytes)
    }.toVector

  private def assertSame(expected: Seq[Array[Byte]], found: Seq[Array[Byte]]): Unit = {
    assertEquals(expected.size, found.size)
    for (((one, other), number) <- expected.zip(found).zipWithIndex) {
      assertArrayEquals(one, other, s"row $number")
    }
  }

  private def longs(words: Long*): Array[Byte] = {
    val bytes = new Array[Byte](8 * words.size)
    for ((word, i) <- words.zipWithIndex) Platform.putLong(bytes, ByteSink.address(8 * i), word)
    bytes
  }

  private def someBlock(random: Random, codec: RowGroupCodec = lz4): (Int, Array[Byte]) = {
    val fields = 1 + random.nextInt(8)
    val next = new SqlRowSource(random).table(fields)
    (fields, write(Seq.fill(1 + random.nextInt(200))(next()), fields, codec))
  }

  /** Makes the checksum of the first group right. */
  private def sign(block: Array[Byte]): Unit = {
    import RowGroupHead._
    val head = Lz4Blocks.numbersIn(block)
    val packed = math.min(head.getInt(PackedBytesAt), block.length - HeadBytes)
    val crc = new java.util.zip.CRC32C
    crc.update(block, 0, ChecksumAt)
    crc.update(block, HeadBytes, packed)
    head.putInt(ChecksumAt, crc.getValue.toInt)
    ()
  }
}
