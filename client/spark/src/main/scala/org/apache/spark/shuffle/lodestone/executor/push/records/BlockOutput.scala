// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.OutputStream
import java.util.zip.Checksum

import org.apache.spark.SparkConf
import org.apache.spark.internal.config
import org.apache.spark.network.shuffle.checksum.ShuffleChecksumHelper

/** Writes the bytes of a block, counts and times them, and updates a checksum. */
private[records] final class BlockOutput(out: OutputStream, checksum: Option[Checksum])
    extends OutputStream {
  private val check = checksum.orNull
  private var written = 0L
  private var spent = 0L

  def bytes: Long = written
  def nanos: Long = spent

  override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)

  override def write(bytes: Array[Byte], start: Int, length: Int): Unit = {
    if (check != null) check.update(bytes, start, length)
    val from = System.nanoTime()
    out.write(bytes, start, length)
    spent += System.nanoTime() - from
    written += length
  }

  override def flush(): Unit = out.flush()

  override def close(): Unit = out.close()
}

/** `spark.shuffle.checksum`: by these checksums Spark finds out where a block was corrupted. */
private[records] final class BlockChecksums(conf: SparkConf, numPartitions: Int) {
  private val algorithm = conf.get(config.SHUFFLE_CHECKSUM_ALGORITHM)
  private val checksum: Option[Checksum] =
    if (conf.get(config.SHUFFLE_CHECKSUM_ENABLED)) {
      ShuffleChecksumHelper.createPartitionChecksums(1, algorithm).headOption
    } else {
      None
    }

  val values: Array[Long] = new Array[Long](if (checksum.isDefined) numPartitions else 0)

  def begin(): Option[Checksum] = {
    checksum.foreach(_.reset())
    checksum
  }

  def end(partition: Int): Unit = checksum.foreach(c => values(partition) = c.getValue)
}
