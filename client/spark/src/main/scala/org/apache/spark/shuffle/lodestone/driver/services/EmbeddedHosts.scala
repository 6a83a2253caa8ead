// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import scala.collection.mutable
import scala.concurrent.{ExecutionContext, Future}

import org.apache.spark.shuffle.lodestone.config.{HostPort, Logged}
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.plan.{ServiceFound, ServiceMissing}

/**
 * The daemons that executors found or started on their hosts. A plan waits until each host with an
 * executor has announced its daemon, but not for long: an executor without a task announces
 * nothing.
 */
private[driver] final class EmbeddedHosts(executorHosts: () => Future[Seq[String]], loop: EventLoop)
    extends AddressSource with Logged {
  import EmbeddedHosts._

  private implicit val events: ExecutionContext = loop.context

  /**
   * Hosts by address of their daemon. Two executors of one host may have found the same daemon, or
   * different ones.
   */
  private val found = mutable.LinkedHashMap.empty[HostPort, String]
  private val silent = mutable.LinkedHashSet.empty[String]
  private val answered = mutable.LinkedHashSet.empty[String]
  private val waits = mutable.LinkedHashSet.empty[Wait]

  def serviceFound(message: ServiceFound): Unit = {
    if (found.size < MaxHosts && found.put(message.address, message.host).isEmpty) {
      // The executor that started or found it has a line of its own.
      log.debug(s"${message.address} serves host ${message.host}")
    }
    spoke(message.host)
  }

  def serviceMissing(message: ServiceMissing): Unit = {
    log.warn(
      s"No shuffle service on ${message.host} (executor ${message.executorId}): ${message.cause}")
    spoke(message.host)
  }

  override def addresses(answer: Seq[HostPort] => Unit): Unit = {
    val wait = new Wait(answer)
    executorHosts().onComplete { outcome =>
      val hosts = outcome.getOrElse(Nil).toSet
      forget(hosts)
      wait.forHosts(hosts)
    }
  }

  /** The daemon has ended. The next executor on its host may start another one. */
  override def givenUp(address: HostPort): Unit = found.remove(address)

  private def spoke(host: String): Unit = {
    if (answered.size < MaxHosts) answered += host
    silent -= host
    waits.toSeq.foreach(_.look())
  }

  /** Forgets hosts without executors. Their daemons stay known until they fail. */
  private def forget(hosts: Set[String]): Unit = if (hosts.nonEmpty) {
    silent --= silent.filterNot(hosts.contains).toSeq
    answered --= answered.filterNot(hosts.contains).toSeq
  }

  private final class Wait(answer: Seq[HostPort] => Unit) {
    private val startMs = loop.nowMs

    /** The hosts that may still announce a daemon, when the hosts are known. */
    private var expected: Option[Set[String]] = None
    waits += this
    loop.later(GraceMs)(look())
    loop.later(MaxWaitMs)(look())

    def forHosts(hosts: Set[String]): Unit = {
      expected = Some(hosts).filter(_.nonEmpty).map(_ -- silent)
      look()
    }

    def look(): Unit = if (waits.contains(this)) {
      val pending = expected.map(_ -- answered)
      val waitedMs = loop.nowMs - startMs
      val enough = pending.exists(_.isEmpty)
      if (enough || (found.nonEmpty && waitedMs >= GraceMs) || waitedMs >= MaxWaitMs) {
        waits -= this
        silent ++= pending.getOrElse(Nil)
        answer(found.keys.toSeq.sortBy(_.toString))
      }
    }
  }
}

private[driver] object EmbeddedHosts {

  /** The time for the others after one host has announced a daemon. */
  private val GraceMs = 1000L

  /** The time that a daemon may take to start. */
  private val MaxWaitMs = 10000L

  /** More hosts than Spark runs on. */
  private val MaxHosts = 100000
}
