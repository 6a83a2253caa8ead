// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.nio.ByteBuffer

import scala.concurrent.{Future, Promise}
import scala.util.{Failure, Success, Try}

import org.apache.spark.{SparkConf, SPARK_VERSION}
import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.network.client.{RpcResponseCallback, TransportClient}
import org.apache.spark.network.protocol.OneWayMessage
import org.apache.spark.network.shuffle.protocol.RemoveShuffleMerge
import org.apache.spark.shuffle.lodestone.{HostPort, LodestoneConf}
import org.apache.spark.shuffle.lodestone.driver.ShuffleGeneration
import org.apache.spark.shuffle.lodestone.wire._

/** What answered at that address is no Lodestone daemon. */
private[spark] final class NotLodestoneException(service: HostPort, answer: String)
    extends IOException(s"$service is not a Lodestone service: $answer")

/** No answer within `spark.lodestone.request.timeout`. */
private[spark] final class RequestTimeoutException(service: HostPort, timeoutMs: Long)
    extends IOException(s"$service did not answer within $timeoutMs ms")

/**
 * All requests to all services. Every future ends within the request time-out: with an answer, with
 * a [[RefusedException]], or with an IOException, which also makes the service suspect. No method
 * blocks. Futures complete on network threads: what depends on them must be short, or elsewhere.
 */
private[spark] final class ServiceClient(
    app: Application,
    requestTimeoutMs: Long,
    val health: ServiceHealth = new ServiceHealth) {
  import ServiceClient._

  private val connections = new Connections(requestTimeoutMs)

  def hello(service: HostPort): Future[HelloReply] =
    rpc(service, Hello(Hello.ProtocolVersion, ClientName), HelloReply).transform {
      case Failure(failed: RpcFailedException) =>
        Failure(new NotLodestoneException(service, failed.getMessage))
      case outcome => outcome
    }(SameThread)

  def renewLease(service: ServiceLocation, ttlMs: Long): Future[LeaseReply] =
    rpc(addressOf(service), RenewLease(app, service.incarnation, ttlMs), LeaseReply)

  def registerShuffle(
      service: ServiceLocation,
      generation: ShuffleGeneration,
      numMaps: Int,
      numPartitions: Int): Future[Done] = {
    val shuffle = shuffleAt(service, generation)
    val message = RegisterShuffle(shuffle, numMaps, numPartitions, RegisterShuffle.SparkStream)
    rpc(addressOf(service), message, Done)
  }

  /** `body` holds the segments, and stays the caller's. */
  def pushBatch(
      service: ServiceLocation,
      generation: ShuffleGeneration,
      mapIndex: Int,
      mapId: Long,
      segments: Array[Segment],
      body: ManagedBuffer): Future[PushBatchReply] = {
    val batch = PushBatch(shuffleAt(service, generation), mapIndex, mapId, segments)
    val meta = new NioManagedBuffer(batch.encode())
    request(addressOf(service), PushBatchReply)(_.uploadStream(meta, body, _)).transform {
      case Success(reply) if reply.statuses.length != segments.length =>
        Failure(new MalformedMessageException("a push was answered for other segments"))
      case outcome => outcome
    }(SameThread)
  }

  def finalizeMerge(
      service: ServiceLocation,
      generation: ShuffleGeneration): Future[FinalizeMergeReply] =
    rpc(addressOf(service), FinalizeMerge(shuffleAt(service, generation)), FinalizeMergeReply)

  def chunkLayout(
      service: ServiceLocation,
      generation: ShuffleGeneration,
      maps: MapRange,
      reduceIds: Array[Int]): Future[ChunkLayoutReply] = {
    val message = ChunkLayout(shuffleAt(service, generation), maps, reduceIds)
    rpc(addressOf(service), message, ChunkLayoutReply).transform {
      case Success(reply) if !reply.partitions.map(_.reduceId).sameElements(reduceIds) =>
        Failure(new MalformedMessageException("the layout of other partitions was told"))
      case outcome => outcome
    }(SameThread)
  }

  /**
   * Every chunk is given to `receiver` or failed, exactly once. `chunks` are those of the layout that
   * was told for the same `maps`.
   */
  def fetchChunks(
      service: ServiceLocation,
      generation: ShuffleGeneration,
      maps: MapRange,
      chunks: Array[ChunkRef],
      receiver: ChunkReceiver): Unit = {
    val address = addressOf(service)
    val message = FetchChunks(shuffleAt(service, generation), maps, chunks).encode()
    // The connection that opened the stream must fetch from it.
    @volatile var opener: TransportClient = null
    val opened = request(address, OpenStream) { (client, callback) =>
      opener = client
      client.sendRpc(message, callback)
    }
    opened.onComplete {
      case Success(stream) if stream.numChunks == chunks.length =>
        new ChunkStream(stream.streamId, chunks.length, receiver, requestTimeoutMs) {
          override protected def stalled(): Throwable = {
            health.failed(address)
            new RequestTimeoutException(address, requestTimeoutMs)
          }
        }.fetchFrom(opener)
      case Success(stream) =>
        val wrong = s"a stream of ${stream.numChunks} chunks where ${chunks.length} were asked for"
        chunks.indices.foreach(receiver.failed(_, new MalformedMessageException(wrong)))
      case Failure(failure) => chunks.indices.foreach(receiver.failed(_, failure))
    }(SameThread)
  }

  /** One-way. (`TransportClient.send` returns another type from Spark 4.3 on.) */
  def removeShuffle(service: ServiceLocation, generation: ShuffleGeneration): Unit = {
    val message =
      new RemoveShuffleMerge(app.appId, app.attempt, generation.shuffleId, generation.mergeId)
    connections.get(addressOf(service)).foreach { client =>
      val body = new NioManagedBuffer(message.toByteBuffer)
      client.getChannel.writeAndFlush(new OneWayMessage(body))
    }(SameThread)
  }

  /** `report` is JSON; `ended`: it is the last one. */
  def reportApplication(
      service: ServiceLocation,
      ended: Boolean,
      report: String): Future[Done] =
    rpc(addressOf(service), ReportApplication(app, ended, report), Done)

  def endApplication(service: ServiceLocation): Future[Done] =
    rpc(addressOf(service), EndApplication(app), Done)

  /** It failed a moment ago. */
  def isSuspect(service: ServiceLocation): Boolean = health.isSuspect(addressOf(service))

  /** Outstanding requests fail. */
  def close(): Unit = connections.close()

  private def shuffleAt(service: ServiceLocation, generation: ShuffleGeneration): ShuffleAddress =
    ShuffleAddress(app, service.incarnation, generation.shuffleId, generation.mergeId)

  private def rpc[M <: Message](service: HostPort, message: Message, reply: Codec[M]): Future[M] = {
    val bytes = message.encode()
    request(service, reply)(_.sendRpc(bytes, _))
  }

  private def request[M <: Message](service: HostPort, reply: Codec[M])(
      send: (TransportClient, RpcResponseCallback) => Long): Future[M] = {
    val promise = Promise[M]()
    val timeout = RequestTimer.after(requestTimeoutMs) {
      promise.tryFailure(new RequestTimeoutException(service, requestTimeoutMs))
      ()
    }
    val callback = new RpcResponseCallback {
      override def onSuccess(response: ByteBuffer): Unit =
        promise.tryComplete(Try(reply.decodeReply(response)))
      override def onFailure(cause: Throwable): Unit = promise.tryFailure(cause match {
        case io: IOException => io
        case rpcFailure => new RpcFailedException(rpcFailure)
      })
    }
    connections.get(service).onComplete {
      case Success(client) => if (!promise.isCompleted) send(client, callback)
      case Failure(failure) => promise.tryFailure(failure)
    }(SameThread)
    // Whoever learns of a failure finds the service suspect.
    promise.future.transform { outcome =>
      timeout.cancel(false)
      outcome match {
        case Failure(_: IOException) => health.failed(service)
        case _ => health.answered(service)
      }
      outcome
    }(SameThread)
  }
}

private[spark] object ServiceClient {

  /** From the jar's manifest. */
  private val Version =
    Option(classOf[ServiceClient].getPackage.getImplementationVersion).getOrElse("unpackaged")

  val ClientName = s"lodestone-spark/$Version spark/$SPARK_VERSION"

  /** Spark's RpcFailure: the peer does not know the message, or failed in it. */
  private final class RpcFailedException(cause: Throwable)
      extends IOException(cause.getMessage, cause)

  def apply(conf: SparkConf): ServiceClient =
    new ServiceClient(applicationOf(conf), LodestoneConf(conf).requestTimeoutMs)

  def applicationOf(conf: SparkConf): Application = {
    val attempt = conf.getOption("spark.app.attempt.id").flatMap(id => Try(id.toInt).toOption)
    Application(conf.getAppId, attempt.getOrElse(-1))
  }

  private def addressOf(service: ServiceLocation): HostPort = HostPort(service.host, service.port)
}
