// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import java.io.{InputStream, OutputStream}

import scala.collection.mutable

import org.apache.spark.SparkConf
import org.apache.spark.internal.config
import org.apache.spark.io.{CompressionCodec, LZ4CompressionCodec}
import org.apache.spark.serializer.SerializerInstance
import org.apache.spark.shuffle.lodestone.plan.SqlRows

/** Rows of SQL's exchanges in Lodestone's own format (docs/encoded-rows.md). */
private[executor] object EncodedRows {

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

    /** Ends the block. */
    def close(): Unit = groups.close()

    /** Gives memory of the codec back. The writer writes nothing after that. */
    def free(): Unit = codec.close()
  }

  /** Reads the blocks of a reduce task, one after another. */
  final class Reader(conf: SparkConf, serializer: SerializerInstance)
      extends (InputStream => Iterator[(Any, Any)]) {
    private val codecs = mutable.Map.empty[Int, RowGroupCodec]
    private val groups = new RowGroupReader(SqlRows.numFields(serializer), codec)

    override def apply(in: InputStream): Iterator[(Any, Any)] = groups(in)

    private var isFree = false

    /** Gives memory of codecs back. Another thread than the task's may be reading. */
    def free(): Unit = synchronized {
      isFree = true
      codecs.values.foreach(_.close())
      codecs.clear()
    }

    private def codec(id: Int): Option[RowGroupCodec] = synchronized {
      if (isFree) throw new IllegalStateException("the task that reads is over")
      codecs.get(id).orElse(make(id))
    }

    private def make(id: Int): Option[RowGroupCodec] = {
      val made = id match {
        case RowGroupCodec.Lz4Id => Some(new RowGroupCodec.Lz4Codec)
        case RowGroupCodec.ZstdId => Some(new RowGroupCodec.ZstdCodec(levelOf(conf)))
        case _ => None
      }
      made.foreach(codecs.put(id, _))
      made
    }
  }

  private def codecOf(conf: SparkConf): RowGroupCodec =
    CompressionCodec.createCodec(conf) match {
      case _: LZ4CompressionCodec => new RowGroupCodec.Lz4Codec
      case _ => new RowGroupCodec.ZstdCodec(levelOf(conf))
    }

  private def levelOf(conf: SparkConf): Int = conf.get(config.IO_COMPRESSION_ZSTD_LEVEL)
}
