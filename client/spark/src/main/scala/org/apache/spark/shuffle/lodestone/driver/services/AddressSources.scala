// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import java.net.InetAddress

import scala.concurrent.{ExecutionContext, Future}
import scala.util.{Failure, Success}

import org.slf4j.LoggerFactory

import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop

/** Which addresses there may be services at; asked again for each plan. */
private[driver] trait AddressSource {

  /** Calls back once, on the event loop, within a bounded time. */
  def addresses(found: Seq[HostPort] => Unit): Unit

  /** This address has failed again and again. */
  def givenUp(address: HostPort): Unit
}

/** A list that somebody wrote down. */
private[driver] final class ListedAddresses(listed: Seq[HostPort]) extends AddressSource {
  override def addresses(found: Seq[HostPort] => Unit): Unit = found(listed)
  override def givenUp(address: HostPort): Unit = {}
}

/** Every address of one name; the last answer counts when the name service has a bad moment. */
private[driver] final class DnsAddresses(
    name: String,
    port: Int,
    lookups: ExecutionContext,
    loop: EventLoop,
    resolver: String => Seq[InetAddress] = InetAddress.getAllByName(_).toSeq)
    extends AddressSource {
  import DnsAddresses._

  private val log = LoggerFactory.getLogger(classOf[DnsAddresses])
  private implicit val events: ExecutionContext = loop.context
  private var last: Seq[HostPort] = Nil
  private var resolvedAtMs: Option[Long] = None
  private var waiting: List[Seq[HostPort] => Unit] = Nil

  /** Since when the name service has been silent. */
  private var askedAtMs: Option[Long] = None

  override def addresses(found: Seq[HostPort] => Unit): Unit =
    if (resolvedAtMs.exists(at => loop.nowMs - at < TrustMs)) {
      found(last)
    } else if (askedAtMs.exists(at => loop.nowMs - at >= MaxWaitMs)) {
      // Others have waited for this very answer, and long enough.
      found(last)
    } else {
      waiting ::= found
      if (askedAtMs.isEmpty) ask()
    }

  private def ask(): Unit = {
    askedAtMs = Some(loop.nowMs)
    loop.later(MaxWaitMs)(answer())
    Future(resolve())(lookups).onComplete { outcome =>
      askedAtMs = None
      outcome match {
        case Success(resolved) =>
          last = resolved
          resolvedAtMs = Some(loop.nowMs)
        case Failure(failure) => log.warn(s"$name cannot be resolved: ${failure.getMessage}")
      }
      answer()
    }
  }

  override def givenUp(address: HostPort): Unit = {}

  private def resolve(): Seq[HostPort] =
    resolver(name)
      .map(address => if (isV6(address)) s"[${address.getHostAddress}]" else address.getHostAddress)
      .map(HostPort(_, port))
      .sortBy(_.host)

  private def isV6(address: InetAddress): Boolean = address.getHostAddress.contains(":")

  private def answer(): Unit = {
    val all = waiting
    waiting = Nil
    all.reverse.foreach(found => found(last))
  }
}

private[driver] object DnsAddresses {
  private val TrustMs = 10000L

  /** A resolver can be silent for much longer; the plan is made without it then. */
  private val MaxWaitMs = 5000L
}
