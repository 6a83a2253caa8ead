// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.services

import java.util.concurrent.{ExecutorService, Executors}

import scala.concurrent.{ExecutionContext, Future, Promise}

import org.apache.spark.shuffle.lodestone.config.DaemonThreads
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop

/**
 * Runs lookups that block: addresses at the name service, and executors at the block manager's
 * master. Each kind has a thread, so that a name service that is silent for minutes delays nothing
 * else.
 */
private[driver] final class Lookups(loop: EventLoop) {
  import Lookups._

  private val namesThread = newThread("names")
  private val executorsThread = newThread("executors")

  val names: ExecutionContext = ExecutionContext.fromExecutor(namesThread)
  def executors[T](look: => T): Future[T] =
    Future(look)(ExecutionContext.fromExecutor(executorsThread))

  /** Returns `otherwise` if the result is late or does not come: a plan does not wait for it. */
  def inTime[T](found: Future[T], otherwise: T): Future[T] = {
    val answer = Promise[T]()
    found.foreach(answer.trySuccess(_))(loop.context)
    found.failed.foreach(_ => answer.trySuccess(otherwise))(loop.context)
    loop.later(MaxWaitMs) {
      answer.trySuccess(otherwise)
      ()
    }
    answer.future
  }

  def stop(): Unit = {
    namesThread.shutdownNow()
    executorsThread.shutdownNow()
    ()
  }
}

private[driver] object Lookups {

  /** The limit for a question inside the driver's JVM, which answers at once if it is healthy. */
  private val MaxWaitMs = 1000L

  private def newThread(name: String): ExecutorService =
    Executors.newSingleThreadExecutor(DaemonThreads.named(s"lookup-$name"))
}
