// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.{InputStream, OutputStream}
import java.nio.ByteBuffer

import scala.reflect.ClassTag

import org.apache.spark.SparkConf
import org.apache.spark.serializer._

/** Kryo, whose streams a test alters. */
abstract class AlteredKryo(conf: SparkConf) extends Serializer with Serializable {
  private val kryo = new KryoSerializer(conf)

  protected def writing(stream: SerializationStream): SerializationStream = stream

  protected def reading(stream: DeserializationStream): DeserializationStream = stream

  override def supportsRelocationOfSerializedObjects: Boolean = true

  override def newInstance(): SerializerInstance = new Instance(kryo.newInstance())

  private final class Instance(inner: SerializerInstance) extends SerializerInstance {
    override def serialize[T: ClassTag](value: T): ByteBuffer = inner.serialize(value)
    override def deserialize[T: ClassTag](bytes: ByteBuffer): T = inner.deserialize[T](bytes)
    override def deserialize[T: ClassTag](bytes: ByteBuffer, loader: ClassLoader): T =
      inner.deserialize[T](bytes, loader)
    override def serializeStream(out: OutputStream): SerializationStream =
      writing(inner.serializeStream(out))
    override def deserializeStream(in: InputStream): DeserializationStream =
      reading(inner.deserializeStream(in))
  }
}
