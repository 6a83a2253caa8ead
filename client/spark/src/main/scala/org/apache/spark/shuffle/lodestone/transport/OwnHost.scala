// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.net.{InetAddress, NetworkInterface}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.shuffle.lodestone.plan.ServiceLocation

/** Knows which services are on this JVM's host: their answers cross no network. */
private[lodestone] object OwnHost {
  private val known = new ConcurrentHashMap[String, java.lang.Boolean]()

  def has(service: ServiceLocation): Boolean =
    known.computeIfAbsent(service.host, host => Boolean.box(isOwn(host)))

  /** The caller keeps the result, so each name is resolved once. */
  private def isOwn(host: String): Boolean =
    try {
      val address = InetAddress.getByName(host)
      address.isLoopbackAddress || NetworkInterface.getByInetAddress(address) != null
    } catch {
      case _: IOException => false
    }
}
