// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.{File, RandomAccessFile}

/** Changes a bit in the middle of a file, as a bad disk does. */
private[lodestone] object DamagedFile {
  def apply(which: File): Unit = {
    val file = new RandomAccessFile(which, "rw")
    try {
      file.seek(file.length / 2)
      val byte = file.readByte()
      file.seek(file.length / 2)
      file.writeByte(byte ^ 0x10)
    } finally {
      file.close()
    }
  }
}
