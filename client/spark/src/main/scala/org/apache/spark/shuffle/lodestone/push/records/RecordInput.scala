// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.records

import java.io.ByteArrayOutputStream

import scala.reflect.ClassTag

import org.apache.spark.serializer.SerializerInstance

/** Serializes one record after another, each on its own, into pages. */
private[push] final class RecordInput(serializer: SerializerInstance, pages: RecordPages) {
  private val buffer = new RecordInput.Buffer
  private val stream = serializer.serializeStream(buffer)
  private implicit val any: ClassTag[Any] = ClassTag.Any

  def add(partition: Int, key: Any, value: Any): Unit = {
    buffer.reset()
    stream.writeKey[Any](key)
    stream.writeValue[Any](value)
    stream.flush()
    pages.insert(buffer.bytes, buffer.size(), partition)
  }
}

private object RecordInput {

  /** It grows with the largest record. */
  private val FirstBytes = 64 * 1024

  /** Its bytes can be seen without a copy. */
  private final class Buffer extends ByteArrayOutputStream(FirstBytes) {
    def bytes: Array[Byte] = buf
  }
}
