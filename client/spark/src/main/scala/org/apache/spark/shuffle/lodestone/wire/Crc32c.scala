// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

import java.nio.ByteBuffer
import java.util.zip.CRC32C

/** CRC-32C (Castagnoli). The JDK has it from Java 9 on, which is why the plugin needs Java 11. */
private[lodestone] object Crc32c {

  /** Of the remaining bytes, which it consumes. */
  def of(bytes: ByteBuffer): Int = {
    val crc = new CRC32C
    crc.update(bytes)
    crc.getValue.toInt
  }
}
