// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import java.net.InetAddress
import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.{Await, Future, Promise}
import scala.concurrent.duration.DurationInt

import org.junit.jupiter.api.{AfterEach, Tag, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}

import org.apache.spark.shuffle.lodestone.config.HostPort
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop

/** The driver makes plans while a name service, or Spark's own list of executors, is silent. */
@Tag("seldom")
final class LookupsSuite {
  private val loop = new EventLoop
  private val lookups = new Lookups(loop)
  private val gate = new CountDownLatch(1)
  private val asked = new AtomicInteger
  private val address = InetAddress.getByName("127.0.0.1")

  /** Is silent until the test releases it. */
  private val dns = new DnsAddresses(
    "services.example",
    7337,
    lookups.names,
    loop,
    { _ =>
      asked.incrementAndGet()
      gate.await(60, TimeUnit.SECONDS)
      Seq(address)
    })

  @AfterEach def stop(): Unit = {
    gate.countDown()
    lookups.stop()
    loop.stop()
  }

  private def addresses(): Future[Seq[HostPort]] = {
    val found = Promise[Seq[HostPort]]()
    loop.post(dns.addresses(list => found.success(list)))
    found.future
  }

  private def await[T](future: Future[T]): T = Await.result(future, 30.seconds)

  @Test def `a silent name service delays one plan for some seconds and the next ones not at all`()
      : Unit = {
    val first = addresses()
    // Hosts with executors are found while the name service keeps its thread.
    assertEquals(7, await(lookups.inTime(lookups.executors(7), 0)))
    assertEquals(Nil, await(first))
    val begunNs = System.nanoTime()
    (1 to 10).foreach(_ => assertEquals(Nil, await(addresses())))
    val tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begunNs)
    assertTrue(tookMs < 4000, s"$tookMs ms for plans that need not wait")
    assertEquals(1, asked.get, "a silent name service was asked again and again")
  }

  @Test def `a late answer of the name service counts`(): Unit = {
    gate.countDown()
    assertEquals(Seq(HostPort("127.0.0.1", 7337)), await(addresses()))
    assertEquals(Seq(HostPort("127.0.0.1", 7337)), await(addresses()))
    assertEquals(1, asked.get)
  }

  @Test def `a list of executors that does not come is done without`(): Unit = {
    val silent = lookups.executors {
      gate.await(60, TimeUnit.SECONDS)
      7
    }
    assertEquals(0, await(lookups.inTime(silent, 0)))
    assertEquals(0, await(lookups.inTime(Future.failed(new IllegalStateException("scripted")), 0)))
  }
}
