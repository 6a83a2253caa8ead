// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.util.concurrent.atomic.AtomicBoolean

import scala.reflect.ClassTag

import org.apache.spark.SparkConf
import org.apache.spark.serializer.DeserializationStream

/** Loses a record of the first stream that it reads once it is armed. */
final class ForgetfulSerializer(conf: SparkConf) extends AlteredKryo(conf) {
  override protected def reading(stream: DeserializationStream): DeserializationStream =
    new ForgetfulStream(stream)
}

object ForgetfulSerializer {
  val armed = new AtomicBoolean()
}

private final class ForgetfulStream(inner: DeserializationStream) extends DeserializationStream {
  override def readObject[T: ClassTag](): T = inner.readObject[T]()
  override def close(): Unit = inner.close()
  override def asKeyValueIterator: Iterator[(Any, Any)] = {
    val all = inner.asKeyValueIterator
    if (ForgetfulSerializer.armed.getAndSet(false)) all.drop(1) else all
  }
}
