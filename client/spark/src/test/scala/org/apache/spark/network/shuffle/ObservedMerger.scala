// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.network.shuffle

import java.nio.ByteBuffer
import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.spark.network.client.StreamCallbackWithID
import org.apache.spark.network.server.OneForOneStreamManager
import org.apache.spark.network.shuffle.protocol.PushBlockStream
import org.apache.spark.network.util.TransportConf

/**
 * Spark's own merger, where a test decides the order of what Spark leaves to its threads: it
 * deletes before it answers, and a test can await the first bytes of a push, and its failure. In
 * this package because Spark lets only its own package choose the thread of deletions.
 */
private[spark] final class ObservedMerger(conf: TransportConf)
    extends RemoteBlockPushResolver(conf, null) {
  import ObservedMerger._

  private val watched = mutable.Map[String, Progress]()

  /** Deletions that wait, while they are delayed. */
  private var delayed: Option[mutable.ArrayBuffer[Runnable]] = None

  override def submitCleanupTask(task: Runnable): Unit = {
    val isDelayed = synchronized {
      delayed.foreach(_ += task)
      delayed.isDefined
    }
    if (!isDelayed) task.run()
  }

  def delayDeletions(): Unit = synchronized {
    delayed = Some(mutable.ArrayBuffer())
  }

  def resumeDeletions(): Unit = {
    val tasks = synchronized {
      val waiting = delayed
      delayed = None
      waiting
    }
    tasks.foreach(_.foreach(_.run()))
  }

  override def receiveBlockDataAsStream(message: PushBlockStream): StreamCallbackWithID = {
    val sparks = super.receiveBlockDataAsStream(message)
    val name = nameOf(message)
    new StreamCallbackWithID {
      override def getID: String = sparks.getID
      override def onData(id: String, bytes: ByteBuffer): Unit = {
        val count = bytes.remaining()
        sparks.onData(id, bytes)
        note(name)(before => before.copy(bytes = before.bytes + count))
      }
      override def onComplete(id: String): Unit = sparks.onComplete(id)
      override def onFailure(id: String, failure: Throwable): Unit = {
        sparks.onFailure(id, failure)
        note(name)(_.copy(hasFailed = true))
      }
      override def getCompletionResponse: ByteBuffer = sparks.getCompletionResponse
    }
  }

  /** Follows a block until [[forget]]. */
  def watch(message: PushBlockStream): Unit = watched.synchronized {
    watched(nameOf(message)) = Progress()
  }

  def forget(message: PushBlockStream): Unit = watched.synchronized {
    watched -= nameOf(message)
  }

  def awaitBytes(message: PushBlockStream, count: Long): Unit = await(message)(_.bytes >= count)

  def awaitFailure(message: PushBlockStream): Unit = await(message)(_.hasFailed)

  private def await(message: PushBlockStream)(isReached: Progress => Boolean): Unit =
    watched.synchronized {
      val name = nameOf(message)
      val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20)
      while (!isReached(watched(name))) {
        val leftMs = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime())
        require(leftMs > 0, s"$name does not go on at Spark's service: ${watched(name)}")
        watched.wait(leftMs)
      }
    }

  private def note(name: String)(change: Progress => Progress): Unit = watched.synchronized {
    watched.get(name).foreach { before =>
      watched(name) = change(before)
      watched.notifyAll()
    }
  }
}

private[spark] object ObservedMerger {

  /** A handler that deletes executors' directories before it returns. */
  def handler(conf: TransportConf, merger: ObservedMerger): ExternalBlockHandler =
    new ExternalBlockHandler(
      new OneForOneStreamManager,
      new ExternalShuffleBlockResolver(conf, null, _.run()),
      merger)

  private final case class Progress(bytes: Long = 0, hasFailed: Boolean = false)

  private def nameOf(message: PushBlockStream): String =
    s"${message.appId}/${message.shuffleId}/${message.shuffleMergeId}/${message.mapIndex}/" +
      message.reduceId
}
