// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import java.nio.ByteBuffer
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletableFuture.completedFuture

import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.network.client.{MergedBlockMetaResponseCallback, TransportClient}
import org.apache.spark.network.shuffle.checksum.Cause
import org.apache.spark.network.shuffle.protocol._

/** Sends operations to one service, with the messages and the client of Spark. */
private[level0] final class Requests(val service: Service, run: String) {
  import Answer._
  import Requests._

  val files = new ExecutorFiles(service.root, run)
  private val clients = new StoreClients(service, files)

  private type Pending = CompletableFuture[Answer]

  /** `mayReadChunks`: Spark's service would keep offsets of a shuffle that is not finalized. */
  def send(operation: Operation, mayReadChunks: Boolean): Pending = operation match {
    case register: Register => sendRegister(register)
    case write: WriteOutput => done(files.write(write))
    case write: WriteRdd => done(files.write(write))
    case push: Push => sendPush(push)
    case Together(_, pushes) => each(pushes.map(sendPush))
    case push: PushByClient => clients.push(push)
    case request: Finalize => sendFinalize(request)
    case read: ReadMerged if read.fromDisk => readFromDisk(read)
    case read: ReadMerged => readMerged(read, mayReadChunks)
    case read: ReadChunk => Streams.blocks(at(read.on), chunks(read, Seq(read.chunk)))
    case fetch: Fetch => Streams.blocks(at(fetch.on), fetchOf(fetch), fetch.asStreams)
    case open: Open =>
      val ids = open.blocks.map(_.toString).toArray
      val message = new OpenBlocks(files.appId(open.app), open.exec.toString, ids)
      Streams.blocks(at(open.on), message)
    case fetch: FetchByClient => clients.fetch(fetch)
    case out: OutOfOrder =>
      val inOrder = Fetch(out.app, out.exec, out.shuffle, List(out.wanted))
      Streams.outOfOrder(at(out.on), fetchOf(inOrder))
    case dirs: LocalDirs => sendLocalDirs(dirs)
    case remove: RemoveMerge => sendRemoveMerge(remove)
    case diagnose: Diagnose => sendDiagnose(diagnose)
    case End(app) =>
      service.forget(files.appId(app))
      completedFuture(service.end(files.appId(app)))
    case EndExecutor(app, exec) =>
      files.writeForeign(app, exec)
      completedFuture(service.endExecutor(files.appId(app), exec.toString))
    case other => sendRemoval(other)
  }

  def messageOf(push: Push): PushBlockStream = new PushBlockStream(
    files.appId(push.app),
    push.attempt,
    push.shuffle,
    push.merge,
    push.map,
    push.reduce,
    0)

  private def sendRegister(register: Register): Pending = {
    files.makeDirs(register)
    val attempt = if (register.attempt < 0) "" else s""","attemptId":"${register.attempt}""""
    // Spark's BlockManager sends these two extra braces.
    val meta =
      if (register.pushes) s""":{"mergeDir":"${files.mergeDir(register.attempt)}"$attempt}}}"""
      else ""
    val info = new ExecutorShuffleInfo(
      files.localDirs(register.app, register.exec),
      ExecutorFiles.SubDirs,
      register.manager + meta)
    val message = new RegisterExecutor(files.appId(register.app), register.exec.toString, info)
    service.rpc(register.on, message)(_ => Done)
  }

  private def sendPush(push: Push): Pending = {
    val answer = new Pending
    service.connection(push.on).uploadStream(
      new NioManagedBuffer(messageOf(push).toByteBuffer),
      new NioManagedBuffer(ByteBuffer.wrap(push.bytes)),
      Service.callback(answer)(codeOf))
    answer
  }

  private def sendFinalize(request: Finalize): Pending = {
    val message = new FinalizeShuffleMerge(
      files.appId(request.app),
      request.attempt,
      request.shuffle,
      request.merge)
    service.rpc(request.on, message) { response =>
      val statuses = decoded[MergeStatuses](response)
      require(statuses.shuffleId == request.shuffle && statuses.shuffleMergeId == request.merge)
      val maps = statuses.bitmaps.map(ExecutorFiles.mapsOf)
      Statuses(statuses.reduceIds.zip(maps.zip(statuses.sizes)).toMap)
    }
  }

  private def readMerged(read: ReadMerged, mayReadChunks: Boolean): Pending = {
    val meta = new Pending
    val callback = new MergedBlockMetaResponseCallback {
      override def onSuccess(chunks: Int, bitmaps: ManagedBuffer): Unit = Service.complete(meta) {
        val maps = ExecutorFiles.bitmaps(chunks, bitmaps.nioByteBuffer())
        Merged(maps.map(Chunk(_, Block(Array.empty))))
      }
      override def onFailure(cause: Throwable): Unit = {
        meta.complete(Service.failure(cause))
      }
    }
    val client = at(read.on)
    client.sendMergedBlockMetaReq(
      files.appId(read.app),
      read.shuffle,
      read.merge,
      read.reduce,
      callback)
    if (mayReadChunks) meta.thenCompose[Answer](withBytes(client, read, _)) else meta
  }

  private def withBytes(client: TransportClient, read: ReadMerged, meta: Answer): Pending =
    meta match {
      case Merged(chunked) if chunked.nonEmpty =>
        val asked = ReadChunk(read.app, read.shuffle, read.merge, read.reduce, 0)
        val blocks = Streams.blocks(client, chunks(asked, chunked.indices))
        blocks.thenApply[Answer] {
          case Each(parts) => parts.find(isRefusal).getOrElse {
              Merged(chunked.zip(parts).collect { case (chunk, block: Block) =>
                chunk.copy(block = block)
              })
            }
          case other => other
        }
      case other => completedFuture(other)
    }

  private def readFromDisk(read: ReadMerged): Pending = {
    val merger = Array(ExecutorFiles.Merger)
    val message = new GetLocalDirsForExecutors(files.appId(read.app), merger)
    service.rpc(read.on, message) { response =>
      files.merged(dirsOf(response)(ExecutorFiles.Merger), read)
    }
  }

  private def chunks(read: ReadChunk, numbers: Seq[Int]): BlockTransferMessage =
    new FetchShuffleBlockChunks(
      files.appId(read.app),
      ExecutorFiles.Merger,
      read.shuffle,
      read.merge,
      Array(read.reduce),
      Array(numbers.toArray))

  private def fetchOf(fetch: Fetch): BlockTransferMessage = new FetchShuffleBlocks(
    files.appId(fetch.app),
    fetch.exec.toString,
    fetch.shuffle,
    fetch.wanted.map(_.map).toArray,
    fetch.wanted.map(_.reduces.toArray).toArray,
    fetch.isBatch)

  private def sendLocalDirs(dirs: LocalDirs): Pending = {
    val message = new GetLocalDirsForExecutors(files.appId(dirs.app), dirs.execs.toArray)
    service.rpc(dirs.on, message) { response =>
      Dirs(dirsOf(response).map { case (exec, paths) =>
        exec -> paths.toSeq.map(files.relative)
      })
    }
  }

  private def sendRemoval(operation: Operation): Pending = operation match {
    case RemoveOutput(app, exec, shuffle, map, on) =>
      val stem = s"shuffle_${shuffle}_${map}_0"
      val names = Array(s"$stem.data", s"$stem.index", s"$stem.checksum.ADLER32")
      removeBlocks(app, exec, names, on)
    case RemoveRdd(app, exec, rdd, split, on) =>
      removeBlocks(app, exec, Array(s"rdd_${rdd}_$split"), on)
    case remove: RemoveForeign =>
      files.writeForeign(remove.app, remove.exec)
      removeBlocks(remove.app, remove.exec, Array(ExecutorFiles.Foreign), remove.on)
    case other => throw new IllegalArgumentException(s"$other is not sent as a whole")
  }

  private def removeBlocks(app: Int, exec: Int, names: Array[String], on: Int): Pending = {
    val message = new RemoveBlocks(files.appId(app), exec.toString, names)
    service.rpc(on, message)(response => Count(decoded[BlocksRemoved](response).numRemovedBlocks))
  }

  private def sendRemoveMerge(remove: RemoveMerge): Pending = {
    val app = files.appId(remove.app)
    val message = new RemoveShuffleMerge(app, remove.attempt, remove.shuffle, remove.merge)
    service.connection(remove.on).send(message.toByteBuffer)
    // A service handles it before the next request on its connection.
    nothing(remove.on)
  }

  /** A request that a service refuses, and that changes nothing. */
  def nothing(on: Int): Pending = {
    val message = new GetLocalDirsForExecutors("no application", Array("0"))
    service.rpc(on, message)(_ => Done).thenApply[Answer] {
      case Failed(_) => Done
      case other => other
    }
  }

  private def sendDiagnose(one: Diagnose): Pending = {
    val message = new DiagnoseCorruption(
      files.appId(one.app),
      one.exec.toString,
      one.shuffle,
      one.map,
      one.reduce,
      one.seen,
      one.algorithm)
    service.rpc(one.on, message)(response =>
      Diagnosis(decoded[CorruptionCause](response).cause.toString)).thenApply[Answer] {
      // Spark's client takes a failure for this cause.
      case Failed(_) => Diagnosis(Cause.UNKNOWN_ISSUE.toString)
      case other => other
    }
  }

  private def at(on: Int): TransportClient = service.connection(on)

  private def done(work: => Unit): Pending = {
    work
    completedFuture(Done)
  }
}

private[level0] object Requests {
  def each(parts: Seq[CompletableFuture[Answer]]): CompletableFuture[Answer] =
    CompletableFuture.allOf(parts: _*).thenApply[Answer](_ => Answer.Each(parts.map(_.join())))

  def codeOf(response: ByteBuffer): Answer =
    Answer.Code(decoded[BlockPushReturnCode](response).returnCode.toInt)

  private def dirsOf(response: ByteBuffer): Map[String, Array[String]] = {
    val dirs = decoded[LocalDirsForExecutors](response).getLocalDirsByExec
    dirs.keySet.toArray(Array.empty[String]).map(exec => exec -> dirs.get(exec)).toMap
  }

  def decoded[M](response: ByteBuffer): M =
    BlockTransferMessage.Decoder.fromByteBuffer(response).asInstanceOf[M]
}
