// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.io.IOException
import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentHashMap

import scala.concurrent.{Future, Promise}
import scala.util.{Failure, Success, Try}

import io.netty.channel.{ChannelFuture, ChannelFutureListener}
import org.apache.spark.{SparkConf, SPARK_VERSION}
import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.network.client.{RpcResponseCallback, TransportClient}
import org.apache.spark.network.protocol.OneWayMessage
import org.apache.spark.network.shuffle.protocol.RemoveShuffleMerge
import org.apache.spark.shuffle.lodestone.config.{HostPort, LodestoneConf, Logged}
import org.apache.spark.shuffle.lodestone.plan.{BlockFormat, ServiceLocation, ShuffleGeneration}
import org.apache.spark.shuffle.lodestone.wire._

/**
 * All requests to all services. Each future ends within a time that fits the size of its request,
 * with an answer, a [[RefusedException]], or an IOException. [[FailureClass]] says what a failure
 * means, and whether the request was sent twice. No method blocks. Futures complete on
 * network threads, on threads that connect, or on the timer's thread, so their callbacks must be
 * short, or run elsewhere.
 */
private[spark] final class ServiceClient(
    app: Application,
    requestTimeoutMs: Long,
    val health: ServiceHealth = new ServiceHealth,
    protection: Protection = Protection.none) extends Logged {
  import ServiceClient._

  private val deadlines: Deadlines = new Deadlines(requestTimeoutMs, connections.drop(_))
  private val connections = new Connections(
    requestTimeoutMs,
    deadlines.longestMs(PushBatch.MaxBodyBytes),
    protection)
  private val retryOnce = new RetryOnce(health)
  private val rooms = new ConcurrentHashMap[HostPort, Turnstile]()

  def hello(service: HostPort): Future[HelloReply] =
    rpc(service, Hello(Hello.ProtocolVersion, ClientName), HelloReply).transform {
      case Failure(failed: RpcFailedException) =>
        Failure(new NotLodestoneException(service, failed.getMessage))
      case outcome => outcome
    }(SameThread)

  def renewLease(service: ServiceLocation, ttlMs: Long): Future[LeaseReply] =
    rpc(service.address, RenewLease(app, service.incarnation, ttlMs), LeaseReply)

  def registerShuffle(
      service: ServiceLocation,
      generation: ShuffleGeneration,
      numMaps: Int,
      numPartitions: Int,
      mode: ShuffleMode = ShuffleMode.Merge,
      format: BlockFormat = BlockFormat.SparkStream): Future[Done] = {
    val shuffle = shuffleAt(service, generation)
    val message = RegisterShuffle(shuffle, mode, numMaps, numPartitions, format.name)
    rpc(service.address, message, Done)
  }

  /**
   * Pushes a batch. `body` holds the segments; the caller keeps its reference. If the service
   * refuses segments for a passing cause, the whole batch is sent again: segments that had arrived
   * are duplicates then.
   *
   * @param unanswered
   *   runs each time that the batch gets no valid answer
   * @param sending
   *   runs each time before the batch is sent
   */
  def pushBatch(
      service: ServiceLocation,
      generation: ShuffleGeneration,
      mapIndex: Int,
      mapId: Long,
      segments: Array[Segment],
      body: ManagedBuffer,
      firstSegment: Int = 0,
      isWhole: Boolean = false,
      unanswered: () => Unit = () => ())(sending: => Unit): Future[PushBatchReply] = {
    val shuffle = shuffleAt(service, generation)
    val batch = PushBatch(shuffle, mapIndex, mapId, firstSegment, isWhole, segments)
    val address = service.address
    if (body.size() > PushBatch.MaxBodyBytes) {
      val what = s"a request of ${body.size()} bytes"
      Future.failed(new RefusedException(Refused(Status.TooLarge, service.incarnation, what)))
    } else retryOnce(address, passingFlaw) { () =>
      sending
      val meta = new NioManagedBuffer(batch.encode())
      request(address, PushBatchReply, body.size())(_.uploadStream(meta, body, _)).transform {
        case Success(reply) if reply.statuses.length != segments.length =>
          unanswered()
          Failure(new MalformedMessageException("the answer to a push is for other segments"))
        case Failure(failure) if !failure.isInstanceOf[RefusedException] =>
          unanswered()
          Failure(failure)
        case outcome => outcome
      }(SameThread)
    }
  }

  /** Commits the attempt. `acknowledged` is the ledger of what this service has acknowledged. */
  def commitMap(
      service: ServiceLocation,
      generation: ShuffleGeneration,
      mapIndex: Int,
      mapId: Long,
      acknowledged: Ledger): Future[Done] = {
    val message = CommitMap(shuffleAt(service, generation), mapIndex, mapId, acknowledged)
    rpc(service.address, message, Done)
  }

  /**
   * Asks the service to drop the segments of the attempt, and to refuse further ones. The future
   * always succeeds: readers never see these segments, and a service that does not answer removes
   * them with the shuffle.
   */
  def abortMap(
      service: ServiceLocation,
      generation: ShuffleGeneration,
      mapIndex: Int,
      mapId: Long): Future[Unit] =
    rpc(service.address, AbortMap(shuffleAt(service, generation), mapIndex, mapId), Done)
      .transform { outcome =>
        outcome.failed.foreach { cause =>
          val what = s"map $mapIndex (attempt $mapId) of $generation"
          log.debug(s"${service.hostPort} did not drop $what: ${cause.getMessage}")
        }
        Success(())
      }(SameThread)

  /** Fails unless the service knows the generation. It asks for the layout of any block. */
  def known(service: ServiceLocation, generation: ShuffleGeneration): Future[Unit] =
    layout(service, generation, MapRange(0, 1), Array(0), segments = 1).map(_ => ())(SameThread)

  /** @param segments the expected number of segments in the answer */
  def layout(
      service: ServiceLocation,
      generation: ShuffleGeneration,
      maps: MapRange,
      reduceIds: Array[Int],
      segments: Int): Future[SegmentLayoutReply] = {
    val message = SegmentLayout(shuffleAt(service, generation), maps, reduceIds)
    val answerBytes = segments.toLong * SegmentLayoutReply.SegmentBytes
    rpc(service.address, message, SegmentLayoutReply, answerBytes).transform {
      case Success(reply) if !reply.partitions.map(_.reduceId).sameElements(reduceIds) =>
        Failure(new MalformedMessageException("the answer has the layouts of other partitions"))
      case outcome => outcome
    }(SameThread)
  }

  /** Returns the longest time of a request whose answer has this number of segments. */
  def longestLayoutMs(segments: Int): Long =
    deadlines.longestMs(segments.toLong * SegmentLayoutReply.SegmentBytes)

  /** Fetches chunks. `receiver` gets each chunk or its failure, exactly once. */
  def fetchChunks(
      service: ServiceLocation,
      generation: ShuffleGeneration,
      chunks: Array[SizedChunk],
      receiver: ChunkReceiver): Unit = {
    val address = service.address
    def open(wanted: Array[SizedChunk]): Future[(TransportClient, OpenStream)] = {
      val message = FetchSegments(shuffleAt(service, generation), wanted.map(_.wanted)).encode()
      @volatile var opener: TransportClient = null
      val opened = request(address, OpenStream, message.remaining().toLong) { (client, callback) =>
        opener = client
        client.sendRpc(message, callback)
      }
      opened.transform {
        case Success(stream) if stream.numChunks == wanted.length => Success((opener, stream))
        case Success(stream) =>
          val wrong = s"the stream has ${stream.numChunks} chunks, but should have ${wanted.length}"
          Failure(new MalformedMessageException(wrong))
        case Failure(failure) => Failure(failure)
      }(SameThread)
    }
    val room = rooms.computeIfAbsent(address, _ => new Turnstile(ChunkRequest.Room))
    new ChunkRequest(address, chunks, open, deadlines, retryOnce, room, receiver).start()
  }

  /**
   * Sends a one-way message; completes when it is sent. (`TransportClient.send` returns another
   * type from Spark 4.3 on.)
   */
  def removeShuffle(service: ServiceLocation, generation: ShuffleGeneration): Future[Unit] = {
    val message =
      new RemoveShuffleMerge(app.appId, app.attempt, generation.shuffleId, generation.number)
    connections.get(service.address).flatMap { client =>
      val body = new NioManagedBuffer(message.toByteBuffer)
      val sent = Promise[Unit]()
      val write = client.getChannel.writeAndFlush(new OneWayMessage(body))
      write.addListener(new ChannelFutureListener {
        override def operationComplete(done: ChannelFuture): Unit = {
          if (done.isSuccess) sent.success(()) else sent.failure(done.cause)
          ()
        }
      })
      sent.future
    }(SameThread)
  }

  /** Sends the report, which is JSON. `ended` says that it is the last one. */
  def reportApplication(
      service: ServiceLocation,
      ended: Boolean,
      report: String): Future[Done] =
    rpc(service.address, ReportApplication(app, ended, report), Done)

  def endApplication(service: ServiceLocation): Future[Done] =
    rpc(service.address, EndApplication(app), Done)

  def isSuspect(service: ServiceLocation): Boolean = health.isSuspect(service.address)

  /** Returns the beginning of the failures since the last answer, if requests went on. */
  def downSinceNs(service: ServiceLocation): Option[Long] =
    health.downSinceNs(service.address)

  /** Closes all connections. Requests under way fail. */
  def close(): Unit = connections.close()

  private def shuffleAt(service: ServiceLocation, generation: ShuffleGeneration): ShuffleAddress =
    ShuffleAddress(app, service.incarnation, generation.shuffleId, generation.number)

  private def rpc[M <: Message](
      service: HostPort,
      message: Message,
      reply: Codec[M],
      answerBytes: Long = 0): Future[M] = {
    val bytes = message.encode()
    retryOnce[M](service) { () =>
      request(service, reply, bytes.remaining() + answerBytes)(_.sendRpc(bytes.duplicate(), _))
    }
  }

  /** Sends a request once. `bytes`, of the request and its answer, set the deadline. */
  private def request[M <: Message](service: HostPort, reply: Codec[M], bytes: Long)(
      send: (TransportClient, RpcResponseCallback) => Long): Future[M] = {
    val promise = Promise[M]()
    val deadline = deadlines.start(service, bytes) { late =>
      promise.tryFailure(late)
      ()
    }
    connections.get(service).onComplete {
      case Success(client) =>
        if (!promise.isCompleted) send(client, new Answer(service, client, reply, promise))
      case Failure(failure) => promise.tryFailure(failure)
    }(SameThread)
    promise.future.transform { outcome =>
      deadline.met()
      outcome
    }(SameThread)
  }

  private final class Answer[M <: Message](
      service: HostPort,
      client: TransportClient,
      reply: Codec[M],
      promise: Promise[M])
      extends RpcResponseCallback {

    override def onSuccess(response: ByteBuffer): Unit = {
      deadlines.heard(service)
      promise.tryComplete(Try(reply.decodeReply(response)))
      ()
    }

    override def onFailure(cause: Throwable): Unit = cause match {
      case io: IOException =>
        Connections.retire(client)
        promise.tryFailure(io)
        ()
      // An error of this JVM, such as no direct memory for an answer. Spark gives it to all
      // requests on the connection, and none of them has an answer: to them the connection broke.
      case error: Error =>
        Connections.retire(client)
        promise.tryFailure(new IOException(s"the connection broke: $error", error))
        ()
      case rpcFailure =>
        deadlines.heard(service)
        promise.tryFailure(new RpcFailedException(rpcFailure))
        ()
    }
  }
}

private[spark] object ServiceClient {

  /** From the jar's manifest. */
  private val Version =
    Option(classOf[ServiceClient].getPackage.getImplementationVersion).getOrElse("unpackaged")

  val ClientName = s"lodestone-spark/$Version spark/$SPARK_VERSION"

  /** Returns the failure for which a push that was answered is sent again, if there is one. */
  private val passingFlaw: PushBatchReply => Option[FailureClass] = _.statuses.iterator
    .filterNot(_.isSuccess)
    .map(FailureClass.of)
    .find(_.action.retryAfterMs.isDefined)

  /** Creates a client for requests that name no application. */
  def apply(conf: SparkConf, settings: LodestoneConf): ServiceClient =
    apply(conf, settings, Application(conf.getAppId, Application.NoAttempt))

  /** Creates a client for requests of this application. */
  def apply(conf: SparkConf, settings: LodestoneConf, app: Application): ServiceClient =
    new ServiceClient(
      app,
      settings.requestTimeoutMs,
      protection = Protection.of(conf))

  /**
   * Returns the name of a new application at services. If the cluster manager counts attempts
   * (YARN), its ids are unique, and services compare attempt numbers to know the newer one.
   */
  def applicationOf(conf: SparkConf, random: Long): Application = {
    val attempt = conf.getOption("spark.app.attempt.id").flatMap(id => Try(id.toInt).toOption)
    attempt match {
      case Some(number) => Application(conf.getAppId, number)
      case None => Application.unique(conf.getAppId, random)
    }
  }
}
