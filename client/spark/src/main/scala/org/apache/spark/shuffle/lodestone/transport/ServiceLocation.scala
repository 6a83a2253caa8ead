// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

/** One life of one daemon: where it listens, and which start of it we spoke to. */
private[spark] final case class ServiceLocation(host: String, port: Int, incarnation: Long) {
  def hostPort: String = s"$host:$port"
}
