// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.net.{InetAddress, NetworkInterface}
import java.util.concurrent.ConcurrentHashMap

/** Which services are on this JVM's host: what comes from them crosses no network. */
private[lodestone] object OwnHost {
  private val known = new ConcurrentHashMap[String, java.lang.Boolean]()

  def has(service: ServiceLocation): Boolean =
    known.computeIfAbsent(service.host, host => Boolean.box(isOwn(host)))

  /** A name is looked up, once. */
  private def isOwn(host: String): Boolean =
    try {
      val address = InetAddress.getByName(host)
      address.isLoopbackAddress || NetworkInterface.getByInetAddress(address) != null
    } catch {
      case _: IOException => false
    }
}
