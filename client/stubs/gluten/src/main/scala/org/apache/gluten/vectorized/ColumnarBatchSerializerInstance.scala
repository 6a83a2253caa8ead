// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.vectorized

import java.io.{InputStream, OutputStream}
import java.nio.ByteBuffer

import scala.reflect.ClassTag

import org.apache.spark.serializer.{DeserializationStream, SerializationStream, SerializerInstance}
import org.apache.spark.storage.BlockId

/**
 * Stands for backends-velox/src/main/scala/org/apache/gluten/vectorized/
 * ColumnarBatchSerializerInstance.scala of apache/incubator-gluten, v1.6.0 (89718982).
 */
abstract class ColumnarBatchSerializerInstance extends SerializerInstance {
  def deserializeStreams(streams: Iterator[(BlockId, InputStream)]): DeserializationStream

  override def serialize[T: ClassTag](t: T): ByteBuffer = throw new UnsupportedOperationException

  override def deserialize[T: ClassTag](bytes: ByteBuffer): T =
    throw new UnsupportedOperationException

  override def deserialize[T: ClassTag](bytes: ByteBuffer, loader: ClassLoader): T =
    throw new UnsupportedOperationException

  override def serializeStream(s: OutputStream): SerializationStream =
    throw new UnsupportedOperationException
}
