// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import java.io.{InputStream, OutputStream}
import java.nio.ByteBuffer
import java.util.concurrent.atomic.AtomicBoolean

import scala.reflect.ClassTag

import org.apache.spark.SparkConf
import org.apache.spark.serializer._

/** Writes one record twice once it is armed: a map output with more than its task knows of. */
final class DoublingSerializer(conf: SparkConf) extends Serializer with Serializable {
  private val kryo = new KryoSerializer(conf)

  override def newInstance(): SerializerInstance = new DoublingInstance(kryo.newInstance())

  override def supportsRelocationOfSerializedObjects: Boolean = true
}

object DoublingSerializer {
  val armed = new AtomicBoolean()
}

private final class DoublingInstance(inner: SerializerInstance) extends SerializerInstance {
  override def serialize[T: ClassTag](value: T): ByteBuffer = inner.serialize(value)
  override def deserialize[T: ClassTag](bytes: ByteBuffer): T = inner.deserialize[T](bytes)
  override def deserialize[T: ClassTag](bytes: ByteBuffer, loader: ClassLoader): T =
    inner.deserialize[T](bytes, loader)
  override def serializeStream(out: OutputStream): SerializationStream =
    new DoublingStream(inner.serializeStream(out))
  override def deserializeStream(in: InputStream): DeserializationStream =
    inner.deserializeStream(in)
}

private final class DoublingStream(inner: SerializationStream) extends SerializationStream {
  private var key: Any = _

  override def writeObject[T: ClassTag](value: T): SerializationStream = {
    inner.writeObject(value)
    this
  }
  override def writeKey[T: ClassTag](value: T): SerializationStream = {
    key = value
    writeObject(value)
  }
  override def writeValue[T: ClassTag](value: T): SerializationStream = {
    writeObject(value)
    if (DoublingSerializer.armed.getAndSet(false)) writeObject(key).writeObject(value) else this
  }
  override def flush(): Unit = inner.flush()
  override def close(): Unit = inner.close()
}
