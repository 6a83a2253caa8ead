// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.records

import java.io.ByteArrayOutputStream

/** Where one record after another is serialized; its bytes can be seen without a copy. */
private[push] final class RecordBuffer extends ByteArrayOutputStream(RecordBuffer.FirstBytes) {
  def bytes: Array[Byte] = buf
}

private[push] object RecordBuffer {

  /** It grows with the largest record. */
  private val FirstBytes = 64 * 1024
}
