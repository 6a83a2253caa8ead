// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import java.nio.ByteOrder

import org.apache.spark.{ShuffleDependency, SparkConf}
import org.apache.spark.internal.config
import org.apache.spark.io.{CompressionCodec, LZ4CompressionCodec, ZStdCompressionCodec}
import org.apache.spark.shuffle.BaseShuffleHandle
import org.apache.spark.shuffle.sort.{BypassMergeSortShuffleHandle, SerializedShuffleHandle}

/**
 * The format of all blocks of a shuffle. The driver chooses it, and the handle carries it, so that
 * writers and readers never differ.
 *
 * @param name
 *   the one that services know
 */
private[spark] sealed abstract class BlockFormat(val name: String) extends Serializable {

  /** The least bytes of what a map task reports of a block: its number of records. */
  def numberBytes: Int = 1
}

private[spark] object BlockFormat {

  /** That of Spark's own writers and readers. */
  case object SparkStream extends BlockFormat("spark-stream")

  /** Rows of SQL by column: docs/encoded-rows.md. */
  case object EncodedRows extends BlockFormat("encoded-rows-1")

  /** Whole frames of an engine, which alone writes and decodes them: docs/engines.md. */
  final case class EngineFrames(engine: String) extends BlockFormat(engine) {

    /** A checksum in place of the number of records. */
    override def numberBytes: Int = Integer.BYTES
  }

  /** Chooses the format of a shuffle that Lodestone writes and reads. */
  def of(
      conf: SparkConf,
      dependency: ShuffleDependency[_, _, _],
      sparks: BaseShuffleHandle[_, _, _]): BlockFormat =
    if (isSerialized(sparks) && SqlRows.areOf(dependency.serializer) &&
      hasOwnCodec(conf) && ByteOrder.nativeOrder == ByteOrder.LITTLE_ENDIAN) EncodedRows
    else SparkStream

  /** Then Lodestone's writer takes all outputs, also those that stay on executors. */
  private def isSerialized(sparks: BaseShuffleHandle[_, _, _]): Boolean = sparks match {
    case _: SerializedShuffleHandle[_, _] | _: BypassMergeSortShuffleHandle[_, _] => true
    case _ => false
  }

  /**
   * True if Spark compresses blocks with a codec that Lodestone calls itself, and does no more. A
   * subclass of the codec may do more.
   */
  def hasOwnCodec(conf: SparkConf): Boolean =
    conf.get(config.SHUFFLE_COMPRESS) && OwnCodecs.contains(
      CompressionCodec.createCodec(conf).getClass)

  private val OwnCodecs: Set[Class[_]] =
    Set(classOf[LZ4CompressionCodec], classOf[ZStdCompressionCodec])
}
