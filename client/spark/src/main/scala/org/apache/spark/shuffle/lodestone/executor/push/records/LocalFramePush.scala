// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.file.{Files, NoSuchFileException}
import java.nio.file.attribute.BasicFileAttributes

import org.apache.spark.{ShuffleDependency, SparkEnv, TaskContext, TaskKilledException}
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.shuffle.{IndexShuffleBlockResolver, ShuffleWriteMetricsReporter}
import org.apache.spark.shuffle.lodestone.engine.{FramePush, FrameReservation}

/**
 * An output that the executor keeps, for engines whose native code can only push: it takes frames
 * as a push to services does. They go to a temporary file as they come. The commit gathers them by
 * partition in the file of Spark's own map outputs, from where Spark fetches them.
 *
 * It writes the engine's bytes as they are, also with `spark.io.encryption.enabled`. One lock
 * guards all of it. A frame may have any size.
 */
private[lodestone] final class LocalFramePush(
    dependency: ShuffleDependency[_, _, _],
    mapId: Long,
    resolver: IndexShuffleBlockResolver,
    context: TaskContext,
    metrics: ShuffleWriteMetricsReporter,
    mostFrames: Int = FrameFile.MostFrames)
    extends FramePush {
  private val blocks = SparkEnv.get.blockManager
  private val shuffleId = dependency.shuffleId
  private val numPartitions = dependency.partitioner.numPartitions
  private val lengths = new Array[Long](numPartitions)
  private val frames = new FrameFile(
    () => blocks.diskBlockManager.createTempShuffleBlock()._2,
    numPartitions,
    mostFrames)

  /** A call has failed: what it was about is missing, whatever the engine makes of it. */
  private var isLost = false
  private var isAborted = false
  @volatile private var isCommitted = false

  /**
   * The index file that this commit has written. None: Spark kept that of another attempt, or
   * nobody knows.
   */
  private var ownIndex: Option[AnyRef] = None
  private var writeNs = 0L

  context.addTaskCompletionListener[Unit](_ => if (!isCommitted) abort())

  override def push(partition: Int, bytes: Array[Byte], offset: Int, length: Int): Unit =
    push(partition, ByteBuffer.wrap(bytes, offset, length))

  override def push(partition: Int, frame: ByteBuffer): Unit = synchronized {
    // The engine takes this frame for a part of the output, which was committed without it.
    if (isCommitted) dropOutput()
    working(add(partition, frame.duplicate()))
  }

  private def add(partition: Int, frame: ByteBuffer): Unit = {
    if (partition < 0 || partition >= numPartitions) {
      throw new IllegalArgumentException(s"partition $partition of $numPartitions")
    }
    val length = frame.remaining()
    if (length > 0) timed {
      frames.add(partition, frame)
      lengths(partition) += length
    }
  }

  /** Nothing has to be waited for: the frame is in memory until it is in the file. */
  override def reserve(maxLength: Int): FrameReservation = working[FrameReservation] {
    if (maxLength < 0) throw new IllegalArgumentException(s"a frame of $maxLength bytes")
    () => ()
  }

  override def partitionLengths(): Array[Long] = synchronized(lengths.clone())

  override def commit(): MapStatus = working {
    val committed = timed(commitFile())
    System.arraycopy(committed, 0, lengths, 0, numPartitions)
    isCommitted = true
    frames.close()
    metrics.incBytesWritten(committed.sum)
    metrics.incWriteTime(writeNs)
    MapStatuses(blocks.shuffleServerId, committed, mapId, RowChecksums(dependency))
  }

  /**
   * Returns the lengths of the blocks that are there. If another attempt has the same map id
   * (`spark.shuffle.useOldFetchProtocol`) and was first, Spark keeps its file, and writes its
   * lengths into the array.
   */
  private def commitFile(): Array[Long] = {
    val committed = lengths.clone()
    // Without a frame there is no file, as with Spark's own writers.
    val whole =
      if (frames.isEmpty) None
      else Some(resolver.createTempFile(resolver.getDataFile(shuffleId, mapId)))
    try {
      for (file <- whole) {
        frames.gather(file)
        OutputCheck.file(lengths.sum, file.length())
      }
      // The lock is Spark's, so no other attempt commits meanwhile.
      resolver.synchronized {
        val before = indexFile
        val none = Array.emptyLongArray
        resolver.writeMetadataFileAndCommit(shuffleId, mapId, committed, none, whole.orNull)
        ownIndex = indexFileOrUnknown.filterNot(before.contains)
      }
      committed
    } finally {
      // It has another name when it is committed.
      whole.foreach(_.delete())
    }
  }

  override def abort(): Unit = synchronized {
    isAborted = true
    frames.close()
    if (isCommitted) dropOutput()
  }

  /**
   * Removes the output that this attempt has committed, and never that of another one, or one of
   * which this is not known. If Spark has kept it for another attempt too, that one's readers do
   * not find it, and the map is run again.
   */
  private def dropOutput(): Unit = resolver.synchronized {
    val isOwn = ownIndex.isDefined && ownIndex == indexFileOrUnknown
    if (isOwn) resolver.removeDataByMap(shuffleId, mapId)
    ownIndex = None
  }

  /**
   * Returns what distinguishes the index file that is there from others of the same name. A file
   * system may give a new file the key of one that was removed, so its times count too.
   */
  private def indexFile: Option[AnyRef] =
    try {
      val path = resolver.getIndexFile(shuffleId, mapId).toPath
      val file = Files.readAttributes(path, classOf[BasicFileAttributes])
      Option(file.fileKey()).map((_, file.creationTime(), file.lastModifiedTime()))
    } catch {
      case _: NoSuchFileException => None
    }

  /** The output is committed, so it stays if a disk does not say whose it is. */
  private def indexFileOrUnknown: Option[AnyRef] =
    try indexFile
    catch {
      case _: IOException => None
    }

  override def causeOf(thrown: Throwable): Throwable =
    context.getKillReason().map(new TaskKilledException(_)).getOrElse(thrown)

  private def working[T](act: => T): T = synchronized {
    throwIfOver()
    if (isLost) throw new IllegalStateException(s"an earlier call for $name has failed")
    var isDone = false
    try {
      val done = act
      isDone = true
      done
    } finally if (!isDone) isLost = true
  }

  private def throwIfOver(): Unit = {
    if (isAborted) {
      throw new IllegalStateException(s"$name was aborted: it takes no call any more")
    }
    if (isCommitted) {
      throw new IllegalStateException(s"$name has committed: it takes no call any more")
    }
    context.killTaskIfInterrupted()
  }

  private def timed[T](act: => T): T = {
    val beganNs = System.nanoTime()
    try act
    finally writeNs += System.nanoTime() - beganNs
  }

  private def name: String = s"map $mapId of shuffle $shuffleId"
}
