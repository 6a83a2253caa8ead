// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.concurrent.atomic.AtomicBoolean

import scala.reflect.ClassTag

import org.apache.spark.SparkConf
import org.apache.spark.serializer.SerializationStream

/** Writes one record twice once it is armed: a map output with more than its task knows of. */
final class DoublingSerializer(conf: SparkConf) extends AlteredKryo(conf) {
  override protected def writing(stream: SerializationStream): SerializationStream =
    new DoublingStream(stream)
}

object DoublingSerializer {
  val armed = new AtomicBoolean()

  /** Once armed it stays so: every attempt of every map is wrong. */
  val stuck = new AtomicBoolean()

  def doubles(): Boolean = if (stuck.get) armed.get else armed.getAndSet(false)
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
    if (DoublingSerializer.doubles()) writeObject(key).writeObject(value) else this
  }
  override def flush(): Unit = inner.flush()
  override def close(): Unit = inner.close()
}
