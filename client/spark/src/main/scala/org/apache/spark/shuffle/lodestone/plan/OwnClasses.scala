// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import java.io.IOException
import java.nio.ByteBuffer

import org.apache.spark.SparkConf
import org.apache.spark.serializer.JavaSerializer

/**
 * The driver's answers as bytes. Spark's RPC reads messages with the classes of Spark's own class
 * path, and gives up the whole connection to the driver for a class that is not there. With
 * `--packages` or `--jars` executors have the jar in another class loader, which is that of this
 * class.
 */
private[lodestone] final class OwnClasses(conf: SparkConf) {
  private val serializer = new JavaSerializer(conf).newInstance()

  def write(answer: DriverMessage): Array[Byte] = {
    val bytes = serializer.serialize[DriverMessage](answer)
    val copy = new Array[Byte](bytes.remaining())
    bytes.get(copy)
    copy
  }

  /** Returns an answer as it was before [[write]]. Answers of other types stay as they are. */
  def read(answer: Any): Any = answer match {
    case bytes: Array[Byte] =>
      try {
        serializer.deserialize[DriverMessage](ByteBuffer.wrap(bytes), getClass.getClassLoader)
      } catch {
        // Classes of the driver's jar that are not in this one, or are others.
        case failure @ (_: IOException | _: ReflectiveOperationException | _: LinkageError |
            _: ClassCastException) =>
          throw new IllegalStateException(OwnClasses.OtherJar, failure)
      }
    case _: DriverMessage => throw new IllegalStateException(OwnClasses.OtherJar)
    case plain => plain
  }
}

private[lodestone] object OwnClasses {
  private val OtherJar =
    "the driver's answer cannot be read: driver and executors must have the same Lodestone jar"
}
