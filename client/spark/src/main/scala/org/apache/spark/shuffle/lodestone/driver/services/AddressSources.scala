// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import java.net.InetAddress

import scala.concurrent.{ExecutionContext, Future}
import scala.util.{Failure, Success}

import org.apache.spark.shuffle.lodestone.config.{HostPort, Logged}
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop

/** Knows the addresses of services. The driver asks it for each plan. */
private[driver] trait AddressSource {

  /** Calls back once, on the event loop, within a bounded time. */
  def addresses(found: Seq[HostPort] => Unit): Unit

  /** Reports an address that failed again and again. */
  def givenUp(address: HostPort): Unit = ()
}

private[driver] final class ListedAddresses(listed: Seq[HostPort]) extends AddressSource {
  override def addresses(found: Seq[HostPort] => Unit): Unit = found(listed)
}

/** All addresses of one name. If the name service does not answer, the last addresses are used. */
private[driver] final class DnsAddresses(
    name: String,
    port: Int,
    lookups: ExecutionContext,
    loop: EventLoop,
    resolver: String => Seq[InetAddress] = InetAddress.getAllByName(_).toSeq)
    extends AddressSource with Logged {
  import DnsAddresses._

  private implicit val events: ExecutionContext = loop.context
  private var last: Seq[HostPort] = Nil
  private var resolvedAtMs: Option[Long] = None
  private var waiting: List[Seq[HostPort] => Unit] = Nil

  /** The time of the question that the name service has not answered yet. */
  private var askedAtMs: Option[Long] = None

  override def addresses(found: Seq[HostPort] => Unit): Unit =
    if (resolvedAtMs.exists(at => loop.nowMs - at < TrustMs)) {
      found(last)
    } else if (askedAtMs.exists(at => loop.nowMs - at >= MaxWaitMs)) {
      // Others have waited for this answer for long enough.
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

  /** A name service may be silent for much longer. The plan is made without it then. */
  private val MaxWaitMs = 5000L
}
