// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.lodestone.engine.{EngineBlock, EngineReader}
import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException
import org.apache.spark.storage.{BlockId, ShuffleBlockChunkId}

/**
 * The streams of frames that an engine decodes by itself. Its threads are not the task's. Spark
 * marks a task whose fetch has failed by the thread, so each call is made as the task's.
 */
private[fetch] final class EngineBlocks(blocks: BlockStreams, task: ReduceTask)
    extends EngineReader {
  private lazy val streams = blocks.begin()
  private var last: Option[Block] = None

  override def hasNext: Boolean = asTask(None) {
    val isThere = streams.hasNext
    if (!isThere) merge()
    isThere
  }

  override def next(): EngineBlock = {
    last.foreach(_.requireOver())
    val block = asTask(None) {
      val (id, stream) = streams.next()
      new Block(id, stream)
    }
    asTask(Some(block.id))(blocks.check.begin(block.id))
    last = Some(block)
    block
  }

  override def addRows(rows: Long): Unit = {
    task.metrics.incRecordsRead(rows)
    // The engine may decode its last rows after it has seen the end.
    merge()
  }

  private def merge(): Unit = task.context.taskMetrics().mergeShuffleReadMetrics()

  private def asTask[T](block: Option[BlockId])(act: => T): T = {
    val isOther = TaskContext.get() == null
    if (isOther) TaskContext.setTaskContext(task.context)
    try {
      task.context.killTaskIfInterrupted()
      act
    } catch blocks.check.brokenStream(() => block)
    finally {
      if (isOther) TaskContext.unset()
    }
  }

  private final class Block(val id: BlockId, stream: InputStream) extends EngineBlock {
    private val bytes = new Stream(id, stream)

    override def name: String = id.name

    override def isPushed: Boolean = id.isInstanceOf[ShuffleBlockChunkId]

    override def frames: InputStream = bytes

    def requireOver(): Unit = if (!bytes.isOver) {
      throw new IllegalStateException(s"$id was neither read to its end nor closed")
    }
  }

  /** Counts the bytes of a pushed stream: it ends where its segments do, or its task does. */
  private final class Stream(id: BlockId, in: InputStream) extends InputStream {
    private val size = blocks.check.bytesOf(id)
    private val one = new Array[Byte](1)
    private var count = 0L
    private var isEnded = false

    def isOver: Boolean = isEnded || size.contains(count)

    override def read(): Int = if (read(one, 0, 1) < 0) -1 else one(0) & 0xff

    override def read(target: Array[Byte], offset: Int, length: Int): Int = asTask(Some(id)) {
      val some = in.read(target, offset, length)
      if (some > 0) count += some
      if (some < 0) isEnded = true
      if (size.exists(whole => count > whole || (some < 0 && count < whole))) {
        throw new BrokenRowsException(s"$count bytes of frames, of ${size.get}")
      }
      some
    }

    override def available(): Int = asTask(Some(id))(in.available())

    override def close(): Unit = {
      isEnded = true
      asTask(Some(id))(in.close())
    }
  }
}
