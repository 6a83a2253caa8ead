// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import org.apache.spark.shuffle.lodestone.HostPort

/**
 * Which services failed a moment ago, so that the next task does not wait for the same time-out
 * again.
 */
private[lodestone] final class ServiceHealth(nanoClock: () => Long = () => System.nanoTime()) {
  import ServiceHealth._

  private val failedAtNs = new ConcurrentHashMap[HostPort, java.lang.Long]()

  def failed(service: HostPort): Unit = failedAtNs.put(service, nanoClock())

  /** It is well: a connection that was lost and made again is no reason to stay away. */
  def answered(service: HostPort): Unit = failedAtNs.remove(service)

  def isSuspect(service: HostPort): Boolean = {
    val atNs = failedAtNs.get(service)
    val suspect = atNs != null && nanoClock() - atNs < SuspectNs
    if (atNs != null && !suspect) failedAtNs.remove(service, atNs)
    suspect
  }
}

private[lodestone] object ServiceHealth {

  /** Longer than one request's time-out, so that a dead service costs a task one wait, not many. */
  private val SuspectNs = TimeUnit.SECONDS.toNanos(10)
}
