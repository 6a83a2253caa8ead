// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import java.io.{File, IOException}
import java.nio.ByteBuffer
import java.util.Collections
import java.util.concurrent.{CompletableFuture, TimeUnit}

import scala.collection.mutable

import org.apache.spark.SparkConf
import org.apache.spark.network.TransportContext
import org.apache.spark.network.client.{RpcResponseCallback, TransportClient}
import org.apache.spark.network.netty.SparkTransportConf
import org.apache.spark.network.server.NoOpRpcHandler
import org.apache.spark.network.shuffle.{ExternalBlockStoreClient, ObservedMerger}
import org.apache.spark.network.shuffle.protocol.{BlockTransferMessage, PushBlockStream}
import org.apache.spark.network.util.TransportConf
import org.apache.spark.shuffle.lodestone.DaemonProcess

/**
 * One of the two services, and connections of Spark's own client to it. Executors have their files
 * below `root`.
 */
private[level0] abstract class Service(val name: String, val root: File) extends AutoCloseable {
  def host: String = "127.0.0.1"
  def port: Int

  /** The cluster manager ends an application. */
  def end(appId: String): Answer

  /** It says that an executor has ended, if the service can hear it. */
  def endExecutor(appId: String, exec: String): Answer

  /** Closes and deletes nothing until `resumeDeletions`, if the service can be made to. */
  def delayDeletions(): Unit
  def resumeDeletions(): Unit

  /** Follows a push that is held, from before its first byte until it has ended. */
  def watch(push: PushBlockStream): Unit
  def awaitBytes(push: PushBlockStream, count: Long): Unit
  def awaitTorn(push: PushBlockStream): Unit
  def forget(push: PushBlockStream): Unit

  private val context = new TransportContext(Service.conf, new NoOpRpcHandler)
  private val factory = context.createClientFactory()
  private val connections = new Array[TransportClient](Service.Connections)
  private val storeClients = mutable.Map[String, ExternalBlockStoreClient]()

  def connection(on: Int): TransportClient = {
    val known = connections(on)
    if (known == null || !known.isActive) {
      connections(on) = factory.createUnmanagedClient(host, port)
    }
    connections(on)
  }

  /** Ends a connection that the service may be about to end. */
  def drop(on: Int): Unit = {
    Option(connections(on)).foreach(_.close())
    connections(on) = null
  }

  def dropAll(): Unit = (0 until Service.Connections).foreach(drop)

  /** The client of an executor of this application. */
  def storeClient(appId: String, attempt: Int): ExternalBlockStoreClient = {
    val client = storeClients.getOrElseUpdate(
      appId, {
        val made = new ExternalBlockStoreClient(Service.conf, null, false, 20000)
        made.init(appId)
        made
      })
    client.setAppAttemptId(attempt.toString)
    client
  }

  def forget(appId: String): Unit = storeClients.remove(appId).foreach(_.close())

  def rpc(on: Int, message: BlockTransferMessage)(read: ByteBuffer => Answer)
      : CompletableFuture[Answer] = {
    val done = new CompletableFuture[Answer]
    connection(on).sendRpc(message.toByteBuffer, Service.callback(done)(read))
    done
  }

  override def close(): Unit = {
    storeClients.values.foreach(_.close())
    connections.filter(_ != null).foreach(_.close())
    factory.close()
    context.close()
  }
}

private[level0] object Service {
  val Connections = 3
  private val AnswerTimeoutS = 60L

  /** A client that repeats nothing: each answer counts. */
  val conf: TransportConf = SparkTransportConf.fromSparkConf(
    new SparkConf(false)
      .set("spark.shuffle.io.maxRetries", "0")
      .set("spark.shuffle.service.fetch.rdd.enabled", "true"),
    "shuffle",
    2)

  def await(answer: CompletableFuture[Answer]): Answer =
    answer.get(AnswerTimeoutS, TimeUnit.SECONDS)

  /** A client reads no more of a failure than whether the connection has ended. */
  def failure(cause: Throwable): Answer =
    if (Iterator.iterate(cause)(_.getCause).takeWhile(_ != null).exists(
        _.isInstanceOf[IOException]))
      Answer.Broken(cause.toString.take(300))
    else Answer.Failed(cause.toString.take(300))

  /** Completes `done` with what `read` returns. An error of `read` is one of the test. */
  def callback(done: CompletableFuture[Answer])(read: ByteBuffer => Answer): RpcResponseCallback =
    new RpcResponseCallback {
      override def onSuccess(response: ByteBuffer): Unit = complete(done)(read(response))
      override def onFailure(cause: Throwable): Unit = {
        done.complete(failure(cause))
      }
    }

  def complete(done: CompletableFuture[Answer])(read: => Answer): Unit = {
    // Also an error of the test's own must reach the thread that waits.
    try done.complete(read)
    catch { case error: RuntimeException => done.completeExceptionally(error) }
    ()
  }
}

/** Spark's own service, in this JVM, with merging on as on YARN. */
private[level0] final class SparksService(root: File) extends Service("Spark's service", root) {
  private val merger = new ObservedMerger(Service.conf)
  private val handler = ObservedMerger.handler(Service.conf, merger)
  private val serverContext = new TransportContext(Service.conf, handler)
  private val server = serverContext.createServer(host, 0, Collections.emptyList())

  override def port: Int = server.getPort

  override def end(appId: String): Answer = {
    handler.applicationRemoved(appId, true)
    Answer.Done
  }

  override def endExecutor(appId: String, exec: String): Answer = {
    handler.executorRemoved(exec, appId)
    Answer.Done
  }

  override def delayDeletions(): Unit = merger.delayDeletions()
  override def resumeDeletions(): Unit = merger.resumeDeletions()
  override def watch(push: PushBlockStream): Unit = merger.watch(push)
  override def awaitBytes(push: PushBlockStream, count: Long): Unit =
    merger.awaitBytes(push, count)
  override def awaitTorn(push: PushBlockStream): Unit = merger.awaitFailure(push)
  override def forget(push: PushBlockStream): Unit = merger.forget(push)

  override def close(): Unit = {
    super.close()
    server.close()
    serverContext.close()
    handler.close()
  }
}

/** The daemon. */
private[level0] final class LodestonesService(root: File) extends Service("Lodestone", root) {
  private val daemon = DaemonProcess.start(new File(root, "service"))

  override def port: Int = daemon.port

  override def end(appId: String): Answer = {
    daemon.end(appId)
    Answer.Done
  }

  override def endExecutor(appId: String, exec: String): Answer = Answer.Done
  override def delayDeletions(): Unit = ()
  override def resumeDeletions(): Unit = ()

  /** The daemon merges whole blocks: which bytes of others it has decides nothing. */
  override def watch(push: PushBlockStream): Unit = ()
  override def awaitBytes(push: PushBlockStream, count: Long): Unit = ()
  override def awaitTorn(push: PushBlockStream): Unit = ()
  override def forget(push: PushBlockStream): Unit = ()

  def counter(name: String): Long = daemon.counter(name)

  override def close(): Unit = {
    super.close()
    daemon.stop()
  }
}
