// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

/** A service: the address of a daemon and its incarnation. */
private[spark] final case class ServiceLocation(host: String, port: Int, incarnation: Long) {
  def hostPort: String = s"$host:$port"
}
