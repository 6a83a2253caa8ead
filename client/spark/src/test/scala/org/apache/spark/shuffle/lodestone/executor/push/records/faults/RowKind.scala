// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records.faults

import java.io.ByteArrayInputStream
import java.util.Arrays

import com.esotericsoftware.kryo.Kryo
import org.junit.jupiter.api.Assertions.{assertArrayEquals, assertEquals, assertFalse}
import org.junit.jupiter.api.Assertions.{assertTrue, fail}

import org.apache.spark._
import org.apache.spark.serializer.{JavaSerializer, KryoRegistrator, KryoSerializer, Serializer}
import org.apache.spark.shuffle.lodestone.executor.rows.BlockEncryption
import org.apache.spark.shuffle.lodestone.executor.rows.encoded.{CheckedGroups, EncodedRows}
import org.apache.spark.shuffle.lodestone.plan.BlockFormat
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.UnsafeRowSerializer
import org.apache.spark.storage.ShuffleBlockId

/** The rows of a map task, and their serializer. */
private[push] abstract class RowKind(val name: String) {
  def serializer: Serializer
  def format: BlockFormat = BlockFormat.SparkStream
  def record(partition: Int, bytes: Array[Byte]): Product2[Any, Any] = (partition, bytes)

  /** Reads a block as the readers of the format do. */
  def recordsIn(id: ShuffleBlockId, block: Array[Byte]): Iterator[(Any, Any)] = {
    val stream = SparkEnv.get.serializerManager.wrapStream(id, new ByteArrayInputStream(block))
    serializer.newInstance().deserializeStream(stream).asKeyValueIterator
  }

  def dependency(spark: SparkContext, partitioner: Partitioner): ShuffleDependency[Any, Any, Any] =
    new ShuffleDependency[Any, Any, Any](RowKind.noRows(spark), partitioner, serializer)

  /** Checks that a partition has these rows in their order. */
  def check(rows: Iterator[Array[Byte]], read: Iterator[(Any, Any)], story: String): Unit = {
    rows.zipWithIndex.foreach { case (bytes, i) =>
      if (!read.hasNext) fail(s"rows are missing from the ${i}th on, $story")
      val found = bytesIn(read.next()._2)
      // JUnit compares byte by byte, and would have the text for each row.
      if (!Arrays.equals(bytes, found)) assertArrayEquals(bytes, found, s"row $i, $story")
    }
    assertFalse(read.hasNext, s"there are more rows, $story")
  }

  /** The numbers of records that plain Spark and Lodestone count. */
  def checkCount(plain: Long, ours: Long, story: String): Unit = assertEquals(plain, ours, story)

  protected def bytesIn(value: Any): Array[Byte] = value.asInstanceOf[Array[Byte]]
}

private[push] object RowKind {
  private[records] def noRows(spark: SparkContext) = spark.parallelize(Seq.empty[(Any, Any)], 1)
}

private[push] object RowsOfSql extends RowsOfSql("rows of SQL")

/** Codecs of Lodestone's own format are two. */
private[push] object EncodedRowsOfSql extends RowsOfSql("encoded rows of SQL") {
  def ifUsed(conf: SparkConf): Seq[RowKind] =
    Some(this).filter(_ => BlockFormat.hasOwnCodec(conf)).toSeq

  override def format: BlockFormat = BlockFormat.EncodedRows

  override def recordsIn(id: ShuffleBlockId, block: Array[Byte]): Iterator[(Any, Any)] = {
    val codecs = new EncodedRows.Codecs(SparkEnv.get.conf)
    val reader = new EncodedRows.Reader(codecs, serializer.newInstance())
    reader(new CheckedGroups()(BlockEncryption().reading(new ByteArrayInputStream(block))))
  }
}

/** All rows are one object, as in SQL. Its content does not matter here. */
private[push] sealed abstract class RowsOfSql(kind: String) extends RowKind(kind) {
  private val row = new UnsafeRow(1)
  override val serializer: Serializer = new UnsafeRowSerializer(1)

  override def record(partition: Int, bytes: Array[Byte]): Product2[Any, Any] = {
    row.pointTo(bytes, bytes.length)
    (partition, row)
  }

  override protected def bytesIn(value: Any): Array[Byte] =
    value.asInstanceOf[UnsafeRow].getBytes.clone()
}

private[push] final class ObjectsByKryo(conf: SparkConf) extends RowKind("objects by Kryo") {
  override val serializer: Serializer =
    new KryoSerializer(conf.clone.set("spark.kryoserializer.buffer.max", "256m"))
}

/** Like Java's, its bytes depend on what was written before. */
private[push] final class ObjectsByKryoWithoutReset(conf: SparkConf)
    extends RowKind("objects by Kryo without reset") {
  override val serializer: Serializer = new KryoSerializer(
    conf.clone
      .set("spark.kryo.registrator", classOf[NoReset].getName)
      .set("spark.kryoserializer.buffer.max", "256m"))
}

/** Objects refer to equal ones before them in the same stream. */
final class NoReset extends KryoRegistrator {
  override def registerClasses(kryo: Kryo): Unit = kryo.setAutoReset(false)
}

/** Its bytes depend on what was written before. */
private[push] final class ObjectsByJava(conf: SparkConf) extends RowKind("objects by Java") {
  override val serializer: Serializer = new JavaSerializer(conf)
}

/** Rows that are combined before they are written: their number, and the sum of their checksums. */
private[push] final class CombinedRows(conf: SparkConf) extends RowKind("combined rows") {
  import CombinedRows._

  override val serializer: Serializer = new KryoSerializer(conf)

  override def dependency(
      spark: SparkContext,
      partitioner: Partitioner): ShuffleDependency[Any, Any, Any] =
    new ShuffleDependency[Any, Any, Any](
      RowKind.noRows(spark),
      partitioner,
      serializer,
      aggregator = Some(new Aggregator[Any, Any, Any](one, (sum, row) => and(sum, one(row)), and)),
      mapSideCombine = true)

  override def check(
      rows: Iterator[Array[Byte]],
      read: Iterator[(Any, Any)],
      story: String): Unit = {
    val expected: Any = rows.map(one).fold(Nothing)(and)
    assertEquals(expected, read.map(_._2).fold(Nothing)(and), story)
  }

  /** Records that were pushed to free memory are not combined with later ones. Readers do that. */
  override def checkCount(plain: Long, ours: Long, story: String): Unit =
    assertTrue(ours >= plain, story)
}

private[push] object CombinedRows {
  private val Nothing: Any = (0, 0L)

  private def one(row: Any): Any =
    (1, java.util.Arrays.hashCode(row.asInstanceOf[Array[Byte]]).toLong)

  private def and(one: Any, other: Any): Any = (one, other) match {
    case ((count: Int, sum: Long), (more: Int, rest: Long)) => (count + more, sum + rest)
    case _ => throw new IllegalArgumentException(s"$one and $other")
  }
}

/** Keys are partitions, or as many more as there are of them. */
private[push] final class ByNumber(override val numPartitions: Int) extends Partitioner {
  override def getPartition(key: Any): Int = key.asInstanceOf[Int] % numPartitions
}
