// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.io.InputStream

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.lodestone.engine.{EngineBlock, EngineReader}
import org.apache.spark.shuffle.lodestone.executor.rows.BrokenRowsException
import org.apache.spark.shuffle.lodestone.executor.rows.frames.{FrameHeads, WholeFrames}
import org.apache.spark.storage.{BlockId, ShuffleBlockChunkId}

/**
 * The streams of frames that an engine decodes by itself. Its threads are not the task's. Spark
 * marks a task whose fetch has failed by the thread, so each call is made as the task's.
 *
 * Spark's iterator gives the memory of a block back when its stream is closed, or when the next
 * block is asked for, whichever stream is read then. So a stream is closed as soon as it is over,
 * and no block is asked for before that.
 *
 * @param heads
 *   what the heads of frames say, if that is known here
 */
private[fetch] final class EngineBlocks(
    blocks: BlockStreams,
    task: ReduceTask,
    heads: Option[FrameHeads] = None)
    extends EngineReader {
  private lazy val streams = blocks.begin()
  private val calls = new TaskCalls(task.context)
  private var last: Option[Block] = None

  /** A call has thrown what ends the task. */
  private var hasFailed = false

  override def hasNext: Boolean = {
    last.foreach(_.requireOver())
    asTask(None) {
      val isThere = streams.hasNext
      if (!isThere) merge()
      isThere
    }
  }

  override def next(): EngineBlock = {
    last.foreach(_.requireOver())
    val (id, stream) = asTask(None)(streams.next())
    val block = asTask(Some(id)) {
      blocks.check.begin(id)
      val bytes = ChecksummedBlock.of(id, stream, blocks.check)
      new Block(id, heads.fold(bytes)(new WholeFrames(bytes, _)))
    }
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
    var isDone = false
    try {
      val done = calls {
        try act
        catch blocks.check.brokenStream(() => block)
      }
      isDone = true
      done
    } finally if (!isDone) hasFailed = true
  }

  private final class Block(id: BlockId, stream: InputStream) extends EngineBlock {
    private val bytes = new Stream(id, stream)

    override def name: String = id.name

    override def isPushed: Boolean = id.isInstanceOf[ShuffleBlockChunkId]

    override def frames: InputStream = bytes

    override def broken(why: String): Unit = {
      // The engine may take the end of a failed stream for one that cannot be decoded.
      if (hasFailed) throw new IllegalStateException(s"the read has failed before: $why")
      asTask(Some(id))(throw new BrokenRowsException(why))
    }

    /** The engine may know the last frame, and not have looked for the end behind it. */
    def requireOver(): Unit = if (!bytes.isOver && bytes.read() >= 0) {
      throw new IllegalStateException(s"$id was neither read to its end nor closed")
    }
  }

  /** Counts the bytes of a stream of chunks: it ends where its segments do, or its task does. */
  private final class Stream(id: BlockId, in: InputStream) extends InputStream {
    private val size = blocks.check.bytesOf(id)
    private val one = new Array[Byte](1)
    private var count = 0L

    var isOver = false

    override def read(): Int = if (read(one, 0, 1) < 0) -1 else one(0) & 0xff

    override def read(target: Array[Byte], offset: Int, length: Int): Int =
      if (isOver && length > 0) -1
      else {
        asTask(Some(id)) {
          val some = in.read(target, offset, length)
          if (some > 0) count += some
          if (size.exists(whole => count > whole || (some < 0 && count < whole))) {
            throw new BrokenRowsException(s"$count bytes of frames, of ${size.get}")
          }
          if (some < 0) end() else if (size.contains(count)) endHere()
          some
        }
      }

    override def available(): Int = if (isOver) 0 else asTask(Some(id))(in.available())

    override def close(): Unit = if (!isOver) asTask(Some(id))(end())

    /** The end of the bytes must be that of a frame: `in` looks at it where it ends. */
    private def endHere(): Unit = {
      if (in.read() >= 0) throw new BrokenRowsException(s"more than ${size.get} bytes of frames")
      end()
    }

    private def end(): Unit = {
      isOver = true
      in.close()
    }
  }
}

/**
 * Calls of one thread at a time, each made as the task's. The end of the task interrupts a call of
 * another thread: what it waits for comes no more. An engine may have set the task's context on its
 * own threads as well, so the thread counts too. This is created on the task's.
 */
private final class TaskCalls(context: TaskContext) {
  private val own = Thread.currentThread
  @volatile private var calling: Option[Thread] = None
  private var isInterrupted = false
  private var isOver = false

  context.addTaskCompletionListener[Unit](_ => end())

  def apply[T](act: => T): T = {
    val before = TaskContext.get()
    val caller = Thread.currentThread
    // A call may be part of another one.
    val isOther = ((caller ne own) || (before ne context)) && !calling.contains(caller)
    if (isOther) begin()
    try {
      context.killTaskIfInterrupted()
      act
    } finally if (isOther) leave(before)
  }

  private def begin(): Unit = synchronized {
    if (isOver) throw new IllegalStateException("the task has ended")
    calling = Some(Thread.currentThread)
    TaskContext.setTaskContext(context)
  }

  private def leave(before: TaskContext): Unit = synchronized {
    calling = None
    // Not to be taken for an interrupt of the engine's own.
    if (isInterrupted) Thread.interrupted()
    if (before == null) TaskContext.unset() else TaskContext.setTaskContext(before)
  }

  private def end(): Unit = synchronized {
    isOver = true
    for (thread <- calling) {
      isInterrupted = true
      thread.interrupt()
    }
  }
}
