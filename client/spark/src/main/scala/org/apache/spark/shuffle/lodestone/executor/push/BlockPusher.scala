// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push

import java.io.{File, IOException}
import java.nio.channels.FileChannel
import java.nio.file.StandardOpenOption
import java.util.concurrent.{ArrayBlockingQueue, ConcurrentHashMap, RejectedExecutionException}
import java.util.concurrent.{Semaphore, ThreadFactory, ThreadPoolExecutor, TimeoutException}
import java.util.concurrent.TimeUnit

import scala.concurrent.Await
import scala.util.Random
import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import org.apache.spark.SparkException
import org.apache.spark.shuffle.lodestone.config.{DaemonThreads, LodestoneConf, Mode}
import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.executor.push.records.RecordCounts
import org.apache.spark.shuffle.lodestone.plan.{GetPlan, MapPushed, NoPlan, Reason, ServiceLocation}
import org.apache.spark.shuffle.lodestone.plan.{ShuffleGeneration, ShufflePlan}
import org.apache.spark.shuffle.lodestone.transport.{OwnOutputException, ServiceClient}

/** The committed output of one map attempt. To find `dataFile` may touch the disk. */
private[lodestone] final case class MapOutput(
    generation: ShuffleGeneration,
    mapIndex: Int,
    mapId: Long,
    lengths: Array[Long],
    records: RecordCounts,
    dataFile: () => File)

/**
 * Pushes map outputs to the services, off the task threads, as far as time and memory go; what is
 * not pushed is read from the original. There is one for the executor.
 */
private[lodestone] final class BlockPusher(
    conf: LodestoneConf,
    client: ServiceClient,
    driver: DriverLink,
    diskReadMicros: () => Long,
    random: Random = new Random,
    memory: BodyMemory = new BodyMemory) {
  import BlockPusher._

  private val log = LoggerFactory.getLogger(classOf[BlockPusher])
  private val budget = new ByteBudget(conf.pushMemoryBytes)
  private val shuffles = new ConcurrentHashMap[ShuffleGeneration, ShufflePush]()
  private val lanes = new ConcurrentHashMap[String, Semaphore]()
  private val waiting = new WaitingMaps
  private val workers = newWorkers(whenIdle = () => memory.clear())
  // Before there is much to write: a disk is known best while it has nothing to do.
  if (conf.mode == Mode.Auto) workers.execute(() => diskReadMicros())

  private def measuredReadMicros = conf.mode match {
    case Mode.Auto => diskReadMicros()
    case Mode.Merge | Mode.Remote => DiskProbe.Unknown
  }

  /** Never waits and never fails: a map that finds the queue full is not pushed. */
  def push(map: MapOutput): Unit = {
    val shuffle = shuffles.computeIfAbsent(map.generation, _ => new ShufflePush)
    val ledger = new PushLedger(map.mapIndex, map.mapId, ended(map, shuffle, _))
    def refused(): Unit = {
      ledger.failed(Reason.PushQueueFull, map.lengths.count(_ > 0))
      ledger.closed()
    }
    if (!waiting.enter(map)) {
      refused()
    } else {
      try {
        workers.execute { () =>
          waiting.leave(map)
          work(map, ledger, shuffle)
        }
      } catch {
        case _: RejectedExecutionException =>
          waiting.leave(map)
          refused()
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

  /** What waits is dropped, what is under way is not waited for. */
  def stop(): Unit = workers.shutdownNow()

  /** Bytes that are on their way. */
  def bytesInFlight: Long = budget.used

  /** All pushes of the attempt are over. */
  private def ended(map: MapOutput, shuffle: ShufflePush, ledger: PushLedger): Unit =
    shuffle.plan.filterNot(_ => shuffle.removed) match {
      case Some(plan) =>
        val commit = new AttemptCommit(map, plan, client, ledger)
        commit.start(whenOver = () => report(map, ledger))
      case None => report(map, ledger)
    }

  private def report(map: MapOutput, ledger: PushLedger): Unit =
    driver.report(MapPushed(map.generation, map.mapIndex, map.mapId, ledger.counts))

  private def work(map: MapOutput, ledger: PushLedger, shuffle: ShufflePush): Unit =
    try {
      planFor(map, shuffle) match {
        case Right(plan) => new MapPush(map, ledger, shuffle, plan).run()
        case Left(reason) => reason.foreach(ledger.failed(_, map.lengths.count(_ > 0)))
      }
    } catch {
      case _: InterruptedException => log.debug("Stopped while {} was pushed", nameOf(map))
      // An exception that leaves a thread ends the executor's JVM; a bug here must not.
      case NonFatal(bug) => log.error(s"The push of ${nameOf(map)} failed", bug)
    } finally {
      ledger.closed()
    }

  /** Or why blocks are not pushed, where that is to be counted. */
  private def planFor(map: MapOutput, shuffle: ShufflePush): Either[Option[Reason], ShufflePlan] =
    if (shuffle.removed) Left(Some(Reason.PushUnknown)) else askForPlan(map, shuffle)

  private def askForPlan(
      map: MapOutput,
      shuffle: ShufflePush): Either[Option[Reason], ShufflePlan] =
    try {
      val answer = shuffle.ask(map.lengths) { seen =>
        val sample = seen.copy(diskReadMicros = measuredReadMicros)
        driver.plan(GetPlan(map.generation.shuffleId, map.generation.number, Some(sample)))
      }
      Await.result(answer, driver.answerTimeout) match {
        case plan: ShufflePlan => Right(plan)
        case NoPlan(_, true) => Left(None)
        case none: NoPlan => Left(none.reason.orElse(Some(Reason.ServiceRefused)))
      }
    } catch {
      // An RPC that failed, timed out, or came when the RPC environment had been stopped.
      case failure @ (_: SparkException | _: TimeoutException | _: IllegalStateException) =>
        log.warn(s"No plan for the push of ${nameOf(map)}", failure)
        Left(Some(Reason.DriverUnreachable))
    }

  /** One map on its way. */
  private final class MapPush(
      map: MapOutput,
      ledger: PushLedger,
      shuffle: ShufflePush,
      merge: ShufflePlan) {
    private val plan = random.synchronized {
      PushPlan(map.lengths, merge, conf.pushBatchSizeBytes, random)
    }

    def run(): Unit = {
      ledger.failed(Reason.BlockTooLarge, plan.tooLarge)
      if (plan.requests.nonEmpty) {
        open().foreach { file =>
          try plan.requests.foreach(send(file, _))
          finally file.close()
        }
      }
    }

    private def open(): Option[FileChannel] =
      try {
        Some(FileChannel.open(map.dataFile().toPath, StandardOpenOption.READ))
      } catch {
        case failure: IOException =>
          unreadable(failure, plan.blocks)
          None
      }

    private def unreadable(cause: Throwable, blocks: Int): Unit = {
      val failure = new OwnOutputException(nameOf(map), cause)
      log.warn("Blocks are not pushed", failure)
      ledger.failed(PushReason.of(failure), blocks)
    }

    private def send(file: FileChannel, request: PushRequest): Unit =
      obstacle(request) match {
        case Some(reason) => ledger.failed(reason, request.reduceIds.length)
        case None =>
          val lane = laneOf(merge.services(request.serviceIndex))
          lane.acquire()
          val free = reserve(request.sizeBytes.toLong, lane)
          read(file, request) match {
            case Some(body) => start(request, body, free)
            case None => free()
          }
      }

    /** Waits for the bytes; the result gives them, and the lane, back. */
    private def reserve(bytes: Long, lane: Semaphore): () => Unit = {
      var granted = false
      try {
        budget.acquire(bytes)(())
        granted = true
      } finally {
        if (!granted) lane.release()
      }
      () => {
        budget.release(bytes)
        lane.release()
      }
    }

    private def read(file: FileChannel, request: PushRequest): Option[PushBody] =
      try {
        Some(PushBody.read(file, request, map.records, memory))
      } catch {
        // Of the file; of Netty or the JVM, which has no direct memory left. The originals are read.
        case failure @ (_: IOException | _: OutOfMemoryError) =>
          unreadable(failure, request.reduceIds.length)
          None
      }

    private def start(request: PushRequest, body: PushBody, free: () => Unit): Unit = {
      ledger.opened()
      val whenOver = () => {
        body.free()
        free()
        ledger.closed()
      }
      new Transfer(map, merge, request, body, client, shuffle, ledger, whenOver).start()
    }

    private def obstacle(request: PushRequest): Option[Reason] =
      if (shuffle.removed) {
        Some(Reason.PushUnknown)
      } else {
        val suspect = client.isSuspect(merge.services(request.serviceIndex))
        ledger.stopReason
          .orElse(shuffle.givenUp(request.serviceIndex))
          .orElse {
            if (ledger.isUnknownAt(request.serviceIndex)) Some(Reason.PushConnection) else None
          }
          .orElse(if (suspect) Some(Reason.PushSkippedService) else None)
      }
  }

  private def laneOf(service: ServiceLocation): Semaphore =
    lanes.computeIfAbsent(service.hostPort, _ => new Semaphore(RequestsPerService))
}

private[lodestone] object BlockPusher {

  /** Reading and checksumming is cheap beside the sorting that the tasks do. */
  private val Workers = 2

  /**
   * Maps that may wait, if they have few partitions: an executor that lags this far behind its own map
   * tasks does better without pushing. What they hold is limited by [[WaitingMaps]].
   */
  private val MaxWaitingMaps = 512

  /** Requests on their way to one service: enough to hide its latency, half of push.memory. */
  private val RequestsPerService = 8

  private val IdleWorkerSeconds = 10L

  private def nameOf(map: MapOutput): String = s"map ${map.mapIndex} of ${map.generation}"

  private def newWorkers(whenIdle: () => Unit): ThreadPoolExecutor = {
    val named = DaemonThreads.named("push")
    val threads: ThreadFactory = work =>
      named.newThread { () =>
        try work.run()
        finally whenIdle()
      }
    val queue = new ArrayBlockingQueue[Runnable](MaxWaitingMaps)
    val pool =
      new ThreadPoolExecutor(Workers, Workers, IdleWorkerSeconds, TimeUnit.SECONDS, queue, threads)
    pool.allowCoreThreadTimeOut(true)
    pool
  }
}
