// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.io.{InputStream, OutputStream}

import scala.collection.mutable

import org.apache.spark.SparkConf
import org.apache.spark.internal.config
import org.apache.spark.io.{CompressionCodec, LZ4CompressionCodec}
import org.apache.spark.serializer.SerializerInstance
import org.apache.spark.shuffle.lodestone.plan.{EncodedBytes, SqlRows}

/** Rows of SQL's exchanges in Lodestone's own format (docs/encoded-rows.md). */
private[executor] object EncodedRows {

  /** The head and the end of a stream of one of Spark's codecs. */
  val SparksStreamBytes = 42L

  /**
   * Writes the blocks of a map task, one after another.
   *
   * @param mostGroupBytes
   *   so many bytes of rows are encoded together
   */
  final class Writer(
      conf: SparkConf,
      serializer: SerializerInstance,
      mostGroupBytes: Int) {
    private val codec = codecOf(conf)
    private val groups = new RowGroupWriter(codec, SqlRows.numFields(serializer), mostGroupBytes)

    /** Begins a block. Drops what a failed block left behind. */
    def open(out: OutputStream): Unit = groups.open(out)

    /** Adds rows that lie one after another in memory, as the serializer wrote them. */
    def add(base: AnyRef, offset: Long, length: Int): Unit = groups.add(base, offset, length)

    /** The bytes that the rows of the last block would have in Spark's format, estimated. */
    def sparksBytes: Double = groups.sparksBytes

    /** The bytes of all blocks so far. */
    def bytes: EncodedBytes = groups.bytes

    /** Ends the block. */
    def close(): Unit = groups.close()

    /** Gives memory of the codec back. The writer writes nothing after that. */
    def free(): Unit = codec.close()
  }

  /**
   * Reads the blocks of a partition, one after another, as [[CheckedGroups]] has them. It takes
   * memory when it has a block.
   */
  final class Reader(codecs: Codecs, serializer: SerializerInstance)
      extends (InputStream => Iterator[(Any, Any)]) {
    private lazy val groups = new RowGroupReader(SqlRows.numFields(serializer), codecs.get)

    override def apply(in: InputStream): Iterator[(Any, Any)] = groups(in)
  }

  /** The codecs of a reader. They have memory outside of the heap. */
  final class Codecs(conf: SparkConf) {
    private val made = mutable.Map.empty[Int, RowGroupCodec]
    private var areFree = false

    /** Gives their memory back. Another thread than the task's may be reading. */
    def free(): Unit = synchronized {
      areFree = true
      made.values.foreach(_.close())
      made.clear()
    }

    private[EncodedRows] def get(id: Int): Option[RowGroupCodec] = synchronized {
      if (areFree) throw new IllegalStateException("the task that reads is over")
      made.get(id).orElse(make(id))
    }

    private def make(id: Int): Option[RowGroupCodec] = {
      val codec = id match {
        case RowGroupCodec.Lz4Id => Some(new RowGroupCodec.Lz4Codec)
        case RowGroupCodec.ZstdId => Some(new RowGroupCodec.ZstdCodec(levelOf(conf)))
        case _ => None
      }
      codec.foreach(made.put(id, _))
      codec
    }
  }

  private def codecOf(conf: SparkConf): RowGroupCodec =
    CompressionCodec.createCodec(conf) match {
      case _: LZ4CompressionCodec => new RowGroupCodec.Lz4Codec
      case _ => new RowGroupCodec.ZstdCodec(levelOf(conf))
    }

  private def levelOf(conf: SparkConf): Int = conf.get(config.IO_COMPRESSION_ZSTD_LEVEL)
}
