// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.io.{ObjectInputStream, ObjectOutputStream}

/** A message as Spark's RPC sends it. */
private[driver] object SentByRpc {

  def bytes(message: AnyRef): Array[Byte] = {
    val bytes = new ByteArrayOutputStream()
    val out = new ObjectOutputStream(bytes)
    out.writeObject(message)
    out.close()
    bytes.toByteArray
  }

  def arrived[M](message: M with AnyRef): M =
    new ObjectInputStream(new ByteArrayInputStream(bytes(message))).readObject.asInstanceOf[M]
}
