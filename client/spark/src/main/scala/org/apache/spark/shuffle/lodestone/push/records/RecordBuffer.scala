// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.records

import java.io.ByteArrayOutputStream

/** Where one record after another is serialized; its bytes can be seen without a copy. */
private[records] final class RecordBuffer extends ByteArrayOutputStream(RecordBuffer.FirstBytes) {
  def bytes: Array[Byte] = buf
}

private[records] object RecordBuffer {

  /** It grows with the largest record. */
  private val FirstBytes = 64 * 1024
}
