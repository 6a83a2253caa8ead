// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import java.io.{InputStream, OutputStream}
import java.nio.ByteBuffer
import java.util.concurrent.atomic.AtomicBoolean

import scala.reflect.ClassTag

import org.apache.spark.SparkConf
import org.apache.spark.serializer._

/** Loses a record of the first stream that it reads once it is armed. */
final class ForgetfulSerializer(conf: SparkConf) extends Serializer with Serializable {
  private val kryo = new KryoSerializer(conf)

  override def newInstance(): SerializerInstance = new ForgetfulInstance(kryo.newInstance())

  override def supportsRelocationOfSerializedObjects: Boolean = true
}

object ForgetfulSerializer {
  val armed = new AtomicBoolean()
}

private final class ForgetfulInstance(inner: SerializerInstance) extends SerializerInstance {
  override def serialize[T: ClassTag](value: T): ByteBuffer = inner.serialize(value)
  override def deserialize[T: ClassTag](bytes: ByteBuffer): T = inner.deserialize[T](bytes)
  override def deserialize[T: ClassTag](bytes: ByteBuffer, loader: ClassLoader): T =
    inner.deserialize[T](bytes, loader)
  override def serializeStream(out: OutputStream): SerializationStream = inner.serializeStream(out)
  override def deserializeStream(in: InputStream): DeserializationStream =
    new ForgetfulStream(inner.deserializeStream(in))
}

private final class ForgetfulStream(inner: DeserializationStream) extends DeserializationStream {
  override def readObject[T: ClassTag](): T = inner.readObject[T]()
  override def close(): Unit = inner.close()
  override def asKeyValueIterator: Iterator[(Any, Any)] = {
    val all = inner.asKeyValueIterator
    if (ForgetfulSerializer.armed.getAndSet(false)) all.drop(1) else all
  }
}
