// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import java.nio.ByteBuffer
import java.util.concurrent.CompletableFuture

import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.network.server.BlockPushNonFatalFailure
import org.apache.spark.network.shuffle.{BlockFetchingListener, BlockPushingListener}

/** Whole calls of Spark's `ExternalBlockStoreClient`: what an executor makes of many answers. */
private[level0] final class StoreClients(service: Service, files: ExecutorFiles) {
  import Answer._

  /** A part for each block, in the order of the operation. */
  def push(operation: PushByClient): CompletableFuture[Answer] = {
    val answers = operation.pushes.map(push => nameOf(push) -> new CompletableFuture[Answer])
    val byName = answers.toMap
    val listener = new BlockPushingListener {
      override def onBlockPushSuccess(name: String, data: ManagedBuffer): Unit = {
        byName(name).complete(Code(0))
      }
      override def onBlockPushFailure(name: String, cause: Throwable): Unit = {
        byName(name).complete(cause match {
          case refused: BlockPushNonFatalFailure => Code(refused.getReturnCode.id().toInt)
          case other => Service.failure(other)
        })
      }
    }
    val buffers = operation.pushes.map(push => new NioManagedBuffer(ByteBuffer.wrap(push.bytes)))
    val attempt = operation.pushes.head.attempt
    service.storeClient(files.appId(operation.app), attempt).pushBlocks(
      service.host,
      service.port,
      answers.map(_._1).toArray,
      buffers.toArray[ManagedBuffer],
      listener)
    Requests.each(answers.map(_._2))
  }

  def fetch(operation: FetchByClient): CompletableFuture[Answer] = {
    val names = operation.blocks.map(_.toString)
    val answers = names.map(name => name -> new CompletableFuture[Answer]).toMap
    val listener = new BlockFetchingListener {
      override def onBlockFetchSuccess(name: String, data: ManagedBuffer): Unit = {
        val bytes = new Array[Byte](data.size().toInt)
        data.nioByteBuffer().get(bytes)
        answers(name).complete(Block(bytes))
      }
      // The first answer counts, as for Spark's readers.
      override def onBlockFetchFailure(name: String, cause: Throwable): Unit = {
        answers(name).complete(Service.failure(cause))
      }
    }
    service.storeClient(files.appId(operation.app), -1).fetchBlocks(
      service.host,
      service.port,
      operation.exec.toString,
      names.toArray,
      listener,
      null)
    Requests.each(names.map(answers))
  }

  private def nameOf(push: Push): String =
    s"shufflePush_${push.shuffle}_${push.merge}_${push.map}_${push.reduce}"
}
