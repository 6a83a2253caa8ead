// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.io.{File, IOException}
import java.nio.channels.FileChannel
import java.nio.file.StandardOpenOption
import java.util.concurrent.{ArrayBlockingQueue, ConcurrentHashMap, RejectedExecutionException}
import java.util.concurrent.{Semaphore, ThreadPoolExecutor, TimeUnit}

import scala.util.Random
import scala.util.control.NonFatal

import org.apache.spark.shuffle.lodestone.config.{DaemonThreads, LodestoneConf, Logged, Mode}
import org.apache.spark.shuffle.lodestone.executor.link.{DriverLink, PlanCache}
import org.apache.spark.shuffle.lodestone.executor.push.records.RecordCounts
import org.apache.spark.shuffle.lodestone.plan.{MapPushed, NoPlan, PushCounts, Reason}
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{OwnOutputException, ServiceClient}

/**
 * The committed output of one map attempt. To find `dataFile` may touch the disk.
 *
 * @param checksums
 *   the CRC-32C of each block, if the map task knows them: a block whose bytes have changed since
 *   is not pushed
 */
private[lodestone] final case class MapOutput(
    generation: ShuffleGeneration,
    mapIndex: Int,
    mapId: Long,
    lengths: Array[Long],
    records: Option[RecordCounts],
    dataFile: () => File,
    checksums: Option[Array[Long]] = None) {

  /** Where each block begins in the file, and where the last one ends. */
  private[push] lazy val offsets: Array[Long] = lengths.scanLeft(0L)(_ + _)

  private[push] def recordsIn(reduceId: Int): Int =
    records.fold(RecordCounts.Unknown)(_.of(reduceId))

  private[push] def isAsWritten(reduceId: Int, checksum: Int): Boolean =
    checksums.forall(_(reduceId) == Integer.toUnsignedLong(checksum))

  private[push] def attempt: MapAttempt =
    MapAttempt(generation.shuffleId, generation.number, mapIndex, mapId)

  /** Lengths and numbers or checksums of all partitions, which it holds while it waits. */
  private[push] def waitingBytes: Long = lengths.length * 2L * java.lang.Long.BYTES
}

/**
 * Pushes map outputs to services, off the task threads, as far as time and memory go; blocks that
 * are not pushed are read from the original. There is one for the executor.
 */
private[lodestone] final class BlockPusher(
    conf: LodestoneConf,
    client: ServiceClient,
    driver: DriverLink,
    plans: PlanCache,
    buffers: SegmentBuffers,
    diskReadMicros: () => Long,
    random: Random = new Random) extends Logged {
  import BlockPusher._

  private val shuffles = new ConcurrentHashMap[ShuffleGeneration, ShufflePush]()
  private val turnsByService = new ConcurrentHashMap[String, Semaphore]()
  private val waiting = new ByteBudget(MaxWaitingBytes)
  private val workers = newWorkers()
  // Before there is much to write: a disk is known best while it has nothing to do.
  if (conf.mode == Mode.Auto) workers.execute(() => diskReadMicros())

  /** Never waits and never fails: a map that finds the queue full is not pushed. */
  def push(map: MapOutput): Unit = {
    val shuffle = shuffles.computeIfAbsent(map.generation, _ => new ShufflePush)
    if (!waiting.tryAcquire(map.waitingBytes)) {
      notPushed(map, Some(Reason.PushQueueFull))
    } else {
      try {
        workers.execute { () =>
          waiting.release(map.waitingBytes)
          work(map, shuffle)
        }
      } catch {
        case _: RejectedExecutionException =>
          waiting.release(map.waitingBytes)
          notPushed(map, Some(Reason.PushQueueFull))
      }
    }
  }

  /** Nothing of this shuffle is pushed any more. */
  def forget(shuffleId: Int): Unit =
    shuffles.forEach { (generation, shuffle) =>
      if (generation.shuffleId == shuffleId) {
        shuffle.removed = true
        shuffles.remove(generation)
      }
    }

  /** Drops the maps that wait, and does not wait for requests that are under way. */
  def stop(): Unit = workers.shutdownNow()

  private def notPushed(map: MapOutput, reason: Option[Reason]): Unit = {
    val blocks = map.lengths.count(_ > 0).toLong
    val unpushed = reason.filter(_ => blocks > 0).map(_.code -> blocks)
    report(map, PushCounts(0, 0, 0, unpushed.toMap))
  }

  private def report(map: MapOutput, counts: PushCounts): Unit =
    driver.report(MapPushed(map.generation, map.mapIndex, map.mapId, counts))

  private def work(map: MapOutput, shuffle: ShufflePush): Unit =
    unlessStopped(map)(planFor(map, shuffle)).getOrElse(Left(None)) match {
      case Left(reason) => notPushed(map, reason)
      case Right(plan) =>
        val push = new BestEffortPush(map.attempt, plan, client, shuffle, report(map, _))
        try unlessStopped(map)(pushBlocks(map, push, plan))
        finally push.close()
    }

  private def unlessStopped[T](map: MapOutput)(act: => T): Option[T] =
    try {
      Some(act)
    } catch {
      case _: InterruptedException =>
        log.debug("Stopped while {} was pushed", nameOf(map))
        None
      // What leaves a thread ends the executor's JVM. A bug here must not, nor a class that is
      // another one in this release of Spark: readers take the originals.
      case bug @ (NonFatal(_) | _: LinkageError) =>
        log.error(s"The push of ${nameOf(map)} failed", bug)
        None
    }

  /** Left: there is no plan, for a reason if the blocks are to be counted. */
  private def planFor(map: MapOutput, shuffle: ShufflePush): Either[Option[Reason], ShufflePlan] =
    if (shuffle.removed) Left(Some(Reason.PushUnknown))
    else {
      val answer = plans.toMerge(map.generation, map.lengths) { seen =>
        val micros = if (conf.mode == Mode.Auto) diskReadMicros() else DiskProbe.Unknown
        seen.copy(diskReadMicros = micros)
      }
      // The shuffle may have been removed since: nothing of it stays in the cache.
      if (shuffle.removed) plans.forget(map.generation.shuffleId)
      driver.awaitAnswer(answer, s"the question where ${nameOf(map)} is pushed") match {
        case Some(plan: ShufflePlan) => Right(plan)
        case Some(NoPlan(_, true)) => Left(None)
        case Some(NoPlan(reason, _)) => Left(Some(reason))
        case None => Left(Some(Reason.DriverUnreachable))
      }
    }

  private def pushBlocks(map: MapOutput, push: BestEffortPush, plan: ShufflePlan): Unit = {
    push.failed(Reason.BlockTooLarge, map.lengths.count(_ > plan.maxBlockBytes).toLong)
    val requests = random.synchronized {
      PushRequests(map.lengths, plan, conf.pushBatchSizeBytes, random)
    }
    if (requests.nonEmpty) {
      val blocks = requests.iterator.map(_.reduceIds.length).sum
      val opened = ifReadable(map, push, blocks) {
        FileChannel.open(map.dataFile().toPath, StandardOpenOption.READ)
      }
      opened.foreach { file =>
        try requests.foreach(send(map, push, plan, file, _))
        finally file.close()
      }
    }
  }

  private def send(
      map: MapOutput,
      push: BestEffortPush,
      plan: ShufflePlan,
      file: FileChannel,
      request: PushRequest): Unit = {
    val service = plan.services(request.serviceIndex)
    val blocks = request.reduceIds.length
    push.obstacle(service) match {
      case Some(reason) => push.failed(reason, blocks.toLong)
      case None =>
        val turns = turnsOf(service)
        turns.acquire()
        val buffer = buffers.reserve(request.sizeBytes, whenFree = () => turns.release())
        var isRead = false
        try isRead = ifReadable(map, push, blocks)(request.read(file, map, buffer)).isDefined
        finally if (!isRead) buffer.release()
        if (isRead) push.push(buffer)
    }
  }

  private def ifReadable[T](map: MapOutput, push: BestEffortPush, blocks: Int)(
      read: => T): Option[T] =
    try {
      Some(read)
    } catch {
      // The file cannot be read, or Netty or the JVM has no direct memory left. Readers take the
      // originals.
      case cause @ (_: IOException | _: OutOfMemoryError) =>
        val failure = new OwnOutputException(nameOf(map), cause)
        log.warn("Blocks are not pushed", failure)
        push.failed(PushReason.of(failure), blocks.toLong)
        None
    }

  private def turnsOf(service: ServiceLocation): Semaphore =
    turnsByService.computeIfAbsent(service.hostPort, _ => new Semaphore(RequestsPerService))
}

private[lodestone] object BlockPusher {

  /** Reading and checksumming is cheap beside the sorting that the tasks do. */
  private val Workers = 2

  /**
   * Maps that may wait, if they have few partitions: an executor that lags this far behind its own
   * map tasks does better without pushing.
   */
  private val MaxWaitingMaps = 512

  /** Room for all maps that may wait if there are 1,000 partitions. One map alone may be larger. */
  private[push] val MaxWaitingBytes: Long = 8L << 20

  /** Requests on their way to one service: enough to hide its latency, half of push.memory. */
  private val RequestsPerService = 8

  private val IdleWorkerSeconds = 10L

  private def nameOf(map: MapOutput): String = s"map ${map.mapIndex} of ${map.generation}"

  private def newWorkers(): ThreadPoolExecutor = {
    val queue = new ArrayBlockingQueue[Runnable](MaxWaitingMaps)
    val threads = DaemonThreads.named("push")
    val pool =
      new ThreadPoolExecutor(Workers, Workers, IdleWorkerSeconds, TimeUnit.SECONDS, queue, threads)
    pool.allowCoreThreadTimeOut(true)
    pool
  }
}
