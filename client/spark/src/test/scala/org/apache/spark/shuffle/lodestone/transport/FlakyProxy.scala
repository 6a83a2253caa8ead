// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.{IOException, InputStream, OutputStream}
import java.net.{InetAddress, ServerSocket, Socket}
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicInteger

/**
 * A proxy before a daemon. After so many bytes of the daemon's answers it cuts a connection, or
 * stops it.
 *
 * @param damage
 *   for each connection, what changes bytes of the answers, of which an array has so many
 */
private[lodestone] final class FlakyProxy(
    daemonPort: Int,
    limitOf: Int => Long,
    standsStill: Boolean,
    damage: () => (Array[Byte], Int) => Unit = () => (_, _) => ()) {
  private val loopback = InetAddress.getByName("127.0.0.1")
  private val listener = new ServerSocket(0, 50, loopback)
  private val accepted = new AtomicInteger
  private val over = new CountDownLatch(1)

  val port: Int = listener.getLocalPort
  thread(serve())

  def connections: Int = accepted.get

  def close(): Unit = {
    listener.close()
    over.countDown()
  }

  private def serve(): Unit =
    try {
      while (true) {
        val client = listener.accept()
        val limit = limitOf(accepted.getAndIncrement())
        val daemon = new Socket(loopback, daemonPort)
        def cut(): Unit = {
          client.close()
          daemon.close()
        }
        val (requests, answers) = (client.getInputStream, daemon.getInputStream)
        thread(copy(requests, daemon.getOutputStream, Long.MaxValue, (_, _) => (), () => cut()))
        thread(copy(answers, client.getOutputStream, limit, damage(), () => cut()))
      }
    } catch {
      case _: IOException => // closed
    }

  private def copy(
      in: InputStream,
      out: OutputStream,
      limit: Long,
      change: (Array[Byte], Int) => Unit,
      atEnd: () => Unit): Unit = {
    val buffer = new Array[Byte](1 << 16)
    var left = limit
    try {
      while (left > 0) {
        val length = in.read(buffer, 0, math.min(left, buffer.length.toLong).toInt)
        if (length < 0) left = 0
        else {
          change(buffer, length)
          out.write(buffer, 0, length)
          left -= length
          if (left == 0 && standsStill) over.await()
        }
      }
    } catch {
      case _: IOException => // the other side was cut
    } finally {
      atEnd()
    }
  }

  private def thread(body: => Unit): Unit = {
    val run = new Thread(() => body, "flaky-proxy")
    run.setDaemon(true)
    run.start()
  }
}
